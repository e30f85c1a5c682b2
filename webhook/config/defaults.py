"""The settings without a configuration file with the built-in kinds, and the choice of a scheduler on the command line.

Most commands have no file, so this module does not import the sections of one, which takes longer than a check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from webhook.backends.registry import installed_backends
from webhook.config.built_in_shapes import SHAPES
from webhook.config.settings import Enforcement, Profile, Settings
from webhook.errors import ConfigurationError, Problem
from webhook.model.near_names import meant
from webhook.model.workloads.shapes.kinds import WorkloadKinds
from webhook.model.workloads.shapes.shape import WorkloadShape
from webhook.validators.selection import DEFAULT_SCHEDULER


@cache
def built_in_shapes() -> Mapping[str, WorkloadShape]:
    """Return the built-in shapes by name."""
    return {shape.name: shape for shape in SHAPES}


def built_in_forms(name: str) -> list[WorkloadShape]:
    """Return the built-in shape of that name, and the others of the same kind."""
    shapes = built_in_shapes()
    return [one for one in shapes.values() if one.group_kind == shapes[name].group_kind]


@cache
def built_in_kinds() -> WorkloadKinds:
    """Return the kinds in Python and all built-in shapes."""
    return WorkloadKinds(SHAPES)


def default_settings() -> Settings:
    """Return the settings without a file: every installed backend with its defaults, `default-scheduler` by default."""
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
    """Return the settings that judge everything as if `scheduler` were chosen by the label, by this option of that
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
