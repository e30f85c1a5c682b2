"""Every backend has the files of its neighbours, and every rule is in its list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest

from webhook.backends.base import Backend
from webhook.backends.registry import BUILT_IN
from webhook.validators.registry import collect

# The package of each backend, or its only module.
HOMES = [backend.__module__.removesuffix(".backend") for backend in BUILT_IN]
FOLDERS = [home for home in HOMES if hasattr(import_module(home), "__path__")]
FILES = {"backend", "gangs", "pod_clique_sets", "pod_groups", "opted_in"}
# Additional files of a scheduler, listed here with the reason.
MORE = {
    # Its podgrouper makes gangs of workloads by rules of its own.
    "kai": {"keys", "podgrouper"},
    "volcano": {"keys"},
    # The Workload API has generations, trees of groups, and modes of preemption.
    "kube": {"workload_api", "groups", "pods", "preemption"},
    # Koordinator reads gangs from annotations, and limits them by ElasticQuotas.
    "koordinator": {"keys", "gang_groups", "quotas"},
}


def modules_of(package: ModuleType) -> dict[str, ModuleType]:
    return {
        module.name: import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_backend_has_the_files_of_its_neighbours(folder: str) -> None:
    assert set(modules_of(import_module(folder))) == FILES | MORE[folder.rpartition(".")[2]]


@pytest.mark.parametrize("backend", BUILT_IN, ids=HOMES)
def test_the_rule_list_of_a_backend_is_complete(backend: type[Backend[Any]]) -> None:
    home = import_module(backend.__module__.removesuffix(".backend"))
    modules = list(modules_of(home).values()) if home.__name__ in FOLDERS else [home]
    declared = {rule.id for rule in collect(*modules)}
    listed = [rule.id for rule in backend.rules]
    assert declared == set(listed)
    assert len(set(listed)) == len(listed)
