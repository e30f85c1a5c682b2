"""Every backend has the same files, and every rule is in its list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

from webhook.backends.registry import BUILT_IN
from webhook.validators.registry import collect

FOLDERS = sorted(backend.__module__.removesuffix(".backend") for backend in BUILT_IN)
# Additional files of a scheduler, listed here with the reason.
FILES = {
    "backend",
    "settings",
    "capabilities",
    "keys",
    "facts",
    "pods",
    "gangs",
    "packing",
    "ceilings",
    "topology",
    "rules",
}
MORE = {
    # Its podgrouper makes gangs of workloads by rules of its own.
    "kai": {"subgroups", "podgrouper", "pod_group_tree"},
    # Both read topology from annotations of opted-in workloads and write it into their gang objects, and both have
    # topology objects of other fields than a ClusterTopologyBinding. HyperNodes name their nodes.
    "volcano": {"subgroups", "carried_topology", "hyper_nodes", "hyper_node_members"},
    # The Workload API has generations, trees of groups, and fields that cannot change.
    "kube": {"generation", "groups", "frozen", "disruption", "claims"},
    # Koordinator reads gangs from annotations, as Go does. Its domains are those of a tree keyed by single values.
    "koordinator": {
        "gang_settings",
        "gang_groups",
        "carried_topology",
        "network_topology",
        "layer_values",
    },
}
SUBJECTS = {
    "workload",
    "change",
    "queue",
    "quota",
    "qos",
    "topology",
    "pod",
    "pod_group",
    "pod_group_place",
    "pod_group_topology",
    "gang_group",
    "group_shape",
    "tree",
    "agreement",
    "disruption",
    "preemption",
    "claims",
    "queue_object",
    "opted_in",
    "opted_in_topology",
    "declared",
    "stages",
    "kueue",
    "examples",
    # Volcano's own Job, and the PodGroup that Spark's operator makes for Volcano.
    "job",
    "spark",
}


def files_of(package: ModuleType) -> set[str]:
    return {found.name for found in iter_modules(package.__path__)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_backend_has_the_files_of_its_neighbours(folder: str) -> None:
    package, rules = import_module(folder), import_module(f"{folder}.rules")
    assert files_of(package) - FILES - MORE.get(folder.rpartition(".")[2], set()) == set()
    assert files_of(package) >= {"backend", "capabilities", "rules"}
    assert files_of(rules) - SUBJECTS == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_rule_list_of_a_backend_is_complete(folder: str) -> None:
    rules = import_module(f"{folder}.rules")
    modules = [import_module(f"{folder}.rules.{name}") for name in sorted(files_of(rules))]
    declared = [rule.id for rule in collect(*modules)]
    assert sorted(declared) == sorted(rule.id for rule in rules.RULES)
    assert len(set(declared)) == len(declared)
    assert [rule.id for rule in import_module(f"{folder}.backend").RULES] == [rule.id for rule in rules.RULES]
