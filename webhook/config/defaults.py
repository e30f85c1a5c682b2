"""The settings without a configuration file with the built-in kinds, and the choice of a scheduler on the command
line.

Most commands have no file, so this module does not import the sections of one, which takes longer than a check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from webhook.backends.registry import installed_backends
from webhook.config.settings import Enforcement, Profile, Settings
from webhook.config.shape_document import read_shape
from webhook.errors import ConfigurationError, Problem
from webhook.model.fields import meant
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.workload_kinds import WorkloadKinds
from webhook.workloads.workload_shape import WorkloadShape


@cache
def built_in_documents() -> Mapping[str, dict[str, Any]]:
    """Returns the built-in shapes by name, as they are written."""
    folder = files("webhook.config").joinpath("shapes")
    written = (file.read_text(encoding="utf-8") for file in sorted(folder.iterdir(), key=lambda file: file.name))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        document["metadata"]["name"]: document for text in written for document in yaml.load_all(text, Loader=loader)
    }


@cache
def built_in_shapes() -> Mapping[str, WorkloadShape]:
    """Returns the built-in shapes by name."""
    problems: list[Problem] = []
    shapes = {name: read_shape(document, name, problems) for name, document in built_in_documents().items()}
    if problems:
        raise ConfigurationError("the built-in shapes", problems)
    return {name: shape for name, shape in shapes.items() if shape is not None}


def built_in_forms(name: str) -> list[WorkloadShape]:
    """Returns the built-in shape of that name, and the others of the same kind."""
    shapes = built_in_shapes()
    return [shape for shape in shapes.values() if shape.group_kind == shapes[name].group_kind]


@cache
def built_in_kinds() -> WorkloadKinds:
    """Returns the kinds in Python and all built-in shapes."""
    return WorkloadKinds(tuple(built_in_shapes().values()))


def default_settings() -> Settings:
    """Returns the settings without a file: every installed backend with its defaults, `default-scheduler` by
    default.
    """
    none = Enforcement()
    profiles = {
        name: Profile(backend(backend.settings_model()), none, none) for name, backend in installed_backends().items()
    }
    return Settings(profiles, DEFAULT_SCHEDULER, kinds=built_in_kinds())


def force_scheduler(
    settings: Settings,
    scheduler: str,
    option: str = "--scheduler",
    source: str = "command line",
    *,
    overrides: bool = False,
) -> Settings:
    """Returns the settings that judge everything as if `scheduler` were chosen by the label, by this option of that
    source. `overrides`: whatever the pods name.

    Raises `ConfigurationError` if no profile has that name: the webhook with these settings would refuse it too.
    """
    if scheduler not in settings.profiles:
        installed = installed_backends()
        why = "no profile of the configuration has that name"
        if scheduler not in installed:
            why = f"is not a scheduler with a backend{meant(scheduler, installed)}"
        raise ConfigurationError(source, [Problem(option, scheduler, why, tuple(settings.profiles))])
    return replace(settings, forced=scheduler, forced_by=option, overrides=overrides)
