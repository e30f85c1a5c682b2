"""The section `shadow`: by what else each admission of a workload is judged, without effect on its answer.

An entry is the name of a scheduler, or another configuration file beside this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from webhook.backends.registry import installed_backends
from webhook.config.sections import FILE_PATTERN, Section, read_section
from webhook.config.settings import Enforcement, Profile, Settings, Shadow
from webhook.errors import Problem
from webhook.model.near_names import meant

# Each costs one to one and a half times the review itself (python -m benchmarks.shadows).
MOST_SHADOWS = 4


class ShadowFileSection(Section):
    """Another configuration file by its name. It is a file in the folder of this one, as the files of a ConfigMap
    are.
    """

    config: Annotated[str, Field(pattern=FILE_PATTERN)]


class ShadowEntry(NamedTuple):
    """A valid entry. `settings` are those of the file; None for a scheduler."""

    name: str
    settings: Settings | None = None


def named_files(document: object) -> Iterator[str]:
    """Yield the names of the files that the section of a configuration refers to, if they can be names of files."""
    entries = document.get("shadow") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        section = read_section(ShadowFileSection, entry, "", []) if isinstance(entry, dict) else None
        if section is not None:
            yield section.config


def read_shadows(
    entries: Sequence[object], files: Mapping[str, Settings] | None, problems: list[Problem]
) -> list[ShadowEntry]:
    """Return the valid entries of the section. `files` are the settings of the files beside the configuration by their
    names; None if the configuration is a shadow itself. Mistakes go to `problems`.
    """
    if entries and files is None:
        problems.append(Problem("shadow", list(entries), "a shadow has no shadows of its own; remove the key"))
        return []
    if len(entries) > MOST_SHADOWS:
        problems.append(
            Problem("shadow", list(entries), f"has {len(entries)} entries; at most {MOST_SHADOWS} are allowed")
        )
        return []
    found: dict[str, ShadowEntry] = {}
    for index, raw in enumerate(entries):
        entry = _read_entry(raw, f"shadow[{index}]", files or {}, problems)
        if entry is not None and entry.name in found:
            problems.append(Problem(f"shadow[{index}]", entry.name, "appears twice"))
        elif entry is not None:
            found[entry.name] = entry
    return list(found.values())


def _read_entry(raw: object, path: str, files: Mapping[str, Settings], problems: list[Problem]) -> ShadowEntry | None:
    if isinstance(raw, dict):
        section = read_section(ShadowFileSection, raw, path, problems)
        if section is None:
            return None
        if section.config not in files:
            why = "there is no such file beside this configuration"
            problems.append(Problem(f"{path}.config", section.config, why))
            return None
        return ShadowEntry(section.config, files[section.config])
    backends = tuple(installed_backends())
    if not isinstance(raw, str):
        problems.append(Problem(path, raw, "must be the name of a scheduler, or {config: FILE}", backends))
        return None
    if raw not in backends:
        problems.append(Problem(path, raw, f"is not a scheduler with a backend{meant(raw, backends)}", backends))
        return None
    if not re.fullmatch(FILE_PATTERN, raw):
        problems.append(Problem(path, raw, "is too long for the name of an audit annotation"))
        return None
    return ShadowEntry(raw)


def shadow_of(entry: ShadowEntry, own: Settings, general: Enforcement) -> Shadow:
    """Return the shadow of an entry. A scheduler is judged by its profile in `own`; if it has none, by its backend's
    defaults, with the actions that `general` sets.
    """
    if entry.settings is not None:
        return Shadow(entry.name, replace(entry.settings, compares=False), is_file=True)
    profile = own.profiles.get(entry.name)
    if profile is None:
        backend = installed_backends()[entry.name]
        profile = Profile(backend(backend.settings_model()), general, Enforcement())
    only: dict[str, Any] = {"profiles": {entry.name: profile}, "default": entry.name}
    return Shadow(
        entry.name, replace(own, **only, forced=entry.name, forced_by="shadow", overrides=True, compares=False)
    )
