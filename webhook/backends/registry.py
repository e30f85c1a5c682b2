"""Finds the backends: the built-in ones, and those that other distributions register.

A third party registers a subclass of `Backend` under the entry-point group `rollcall.backends`, with the schedulerName
as the entry point's name. A profile with that name in the configuration enables it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from webhook.backends.base import Backend
from webhook.backends.coscheduling import CoschedulingBackend
from webhook.backends.kai.backend import KaiBackend
from webhook.backends.koordinator.backend import KoordinatorBackend
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.lpx import LpxBackend
from webhook.backends.volcano.backend import VolcanoBackend
from webhook.errors import ConfigurationError, Problem

ENTRY_POINT_GROUP = "rollcall.backends"

BackendClass = type[Backend[Any]]

BUILT_IN: tuple[BackendClass, ...] = (
    KubeBackend,
    KoordinatorBackend,
    VolcanoBackend,
    KaiBackend,
    LpxBackend,
    CoschedulingBackend,
)


@cache
def installed_backends() -> dict[str, BackendClass]:
    """Returns every backend by its schedulerName, the built-in ones first. Read once per process.

    Raises `ConfigurationError` if an installed entry point is not a usable backend, because then no profile can be
    trusted.
    """
    backends: dict[str, BackendClass] = {backend.name: backend for backend in BUILT_IN}
    problems = []
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        try:
            loaded = entry.load()
        except Exception as error:  # noqa: BLE001 - any fault of foreign code must name the entry point it came from
            problems.append(Problem(entry.name, entry.value, f"cannot be loaded: {error}"))
            continue
        if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
            problems.append(Problem(entry.name, entry.value, "must be a subclass of webhook.backends.base.Backend"))
        elif loaded.name != entry.name:
            problems.append(Problem(entry.name, loaded.name, "the backend's name differs from its entry point's"))
        elif entry.name in backends:
            problems.append(Problem(entry.name, entry.value, "another backend already has this name"))
        else:
            backends[entry.name] = loaded
    if problems:
        raise ConfigurationError(f"entry points of {ENTRY_POINT_GROUP}", problems)
    return backends
