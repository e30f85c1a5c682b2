"""Facts about Workloads and groups: read from the objects of each API version, indexed by parent, and queried at a
bounded cost at any number of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worlds import request, rules, settings_of, validate
from webhook import admission
from webhook.backends.kube.groups import (
    MOST_BELOW,
    PROJECTIONS,
    TREE,
    branch,
    composite,
    example_cluster,
    leaf,
    member,
    parent_fields,
    pod_group,
    root,
)
from webhook.backends.kube.groups import workload as workload_of
from webhook.model.capabilities import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed, ObjectKey
from webhook.model.pod_groups import Groups, TreeGroup, WorkloadTemplates
from webhook.model.reading import Manifest

ON = settings_of("default-scheduler", {"gangScheduling": True})
READERS = {(found.part, found.resource.api.version): found.read for found in PROJECTIONS}
# The same object is read in whichever version it comes.
READ = {"Workload": "workloads", "PodGroup": "pod_groups", "CompositePodGroup": "composite_pod_groups"}


def read(manifest: Manifest) -> Any:
    found = [reader(manifest) for (part, _), reader in READERS.items() if part == READ[manifest["kind"]]]
    assert all(one == found[0] for one in found)
    assert found[0] is not None
    key, value = found[0]
    assert key == ("default", manifest["metadata"]["name"])
    return value


def test_a_workload_of_1_35_is_read() -> None:
    spec = {"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 3}}}, {"name": "b", "policy": {"basic": {}}}]}
    manifest = {"kind": "Workload", "metadata": {"name": "demo"}, "spec": spec}
    assert read(manifest) == WorkloadTemplates(
        {"a": TreeGroup(composite=False, minimum=3), "b": TreeGroup(composite=False, minimum=None)}
    )


def test_objects_of_1_36_are_read() -> None:
    body = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": "PodGroup",
        "priorityClassName": "high",
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }
    fields: dict[str, Any] = {
        "minimum": 2,
        "disruption": Disruption.ALL,
        "topology": "rack",
        "priority_class": "high",
    }
    templates = {"podGroupTemplates": [{"name": "worker", **body}]}
    manifest = {"kind": "Workload", "metadata": {"name": "demo"}, "spec": templates}
    assert read(manifest) == WorkloadTemplates({"worker": TreeGroup(composite=False, **fields)})
    reference = {"workload": {"workloadName": "demo", "podGroupTemplateName": "worker"}}
    group = {"kind": "PodGroup", "metadata": {"name": "w"}, "spec": {"podGroupTemplateRef": reference, **body}}
    assert read(group) == TreeGroup(composite=False, workload="demo", template="worker", **fields)


def test_objects_of_1_37_are_read() -> None:
    manifest = workload_of(
        branch(
            "root",
            leaf("router", minimum=1),
            compositePodGroupTemplates=[branch("inner", leaf("worker"), disruptionMode={"all": {}})],
        )
    )
    assert read(manifest) == WorkloadTemplates(
        {
            "root": TreeGroup(composite=True, minimum=1),
            "router": TreeGroup(composite=False, minimum=1, parent="root"),
            "inner": TreeGroup(composite=True, minimum=1, parent="root", disruption=Disruption.ALL),
            "worker": TreeGroup(composite=False, minimum=2, parent="inner"),
        }
    )
    assert read(composite("a", **parent_fields("root", "inner"), priority=7)) == TreeGroup(
        composite=True, minimum=1, parent="root", workload="demo", template="inner", priority=7
    )
    assert read(pod_group("w", disruptionMode={"single": {}})) == TreeGroup(composite=False, minimum=2)


NAMES = st.sampled_from("abcde")
CHANGES = st.lists(st.tuples(NAMES, st.none() | st.tuples(st.none() | NAMES)), max_size=20)


def keyed(name: str) -> ObjectKey:
    return "default", name


@given(CHANGES, CHANGES)
def test_parents_and_children_stay_correct_after_every_change(first: list[Any], second: list[Any]) -> None:
    """In the index itself, and in one that lies over it."""
    groups, plain = Groups(), dict[str, str | None]()
    for name, said in first:
        if said is None:
            groups.pop(keyed(name), None)
            plain.pop(name, None)
        else:
            groups[keyed(name)] = root(parent=said[0])
            plain[name] = said[0]
    changes = {keyed(name): None if said is None else root(parent=said[0]) for name, said in second}
    over = groups.overlaid(changes)
    for name, said in dict(second).items():
        plain.pop(name, None)
        if said is not None:
            plain[name] = said[0]
    for name in "abcde":
        key = keyed(name)
        assert sorted(over.below(key)) == sorted(keyed(child) for child, parent in plain.items() if parent == name)
        assert (key in over, over.get(key)) == (name in plain, root(parent=plain[name]) if name in plain else None)


def test_one_live_read_copies_no_groups() -> None:
    groups = Unwalked({keyed(f"g{index}"): root() for index in range(100)})
    facts = ClusterFacts(composite_pod_groups=groups)
    needed = Needed("composite_pod_groups", keyed("new"))
    learned = facts.learned({needed: root(parent="g1")})
    assert not learned.lacks(needed)
    assert learned.composite_pod_groups is not None
    assert learned.composite_pod_groups[keyed("g5")] == root()
    assert list(learned.composite_pod_groups.below(keyed("g1"))) == [keyed("new")]
    assert facts.lacks(needed)
    again = learned.learned({needed: None})
    assert again.lacks(needed)


class Unwalked(Groups):
    """Groups that count the lookups, and forbid iteration."""

    def __init__(self, known: dict[ObjectKey, TreeGroup]) -> None:
        self.asked = 0
        super().__init__(known)
        self.asked = 0

    def get(self, key: ObjectKey, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def __getitem__(self, key: ObjectKey) -> TreeGroup:
        self.asked += 1
        return super().__getitem__(key)

    def below(self, parent: ObjectKey) -> Iterable[ObjectKey]:
        for key in super().below(parent):
            self.asked += 1
            yield key

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("all groups of the cluster are gone through")

    keys = values = items = __iter__  # type: ignore[assignment]


# A group asks for itself, its parents, and so many below it; several rules do.
MOST_ASKED = 16 * MOST_BELOW


@pytest.mark.parametrize(
    "manifest",
    [
        pod_group("new", **parent_fields("root")),
        composite("root"),
        composite("inner", **parent_fields("root", "inner")),
        member("worker-7"),
        workload_of(branch("root", leaf())),
    ],
    ids=lambda manifest: f"{manifest['kind']} {manifest['metadata']['name']}",
)
def test_a_lookup_among_five_thousand_groups_costs_no_more_than_among_a_few(manifest: Manifest) -> None:
    """They are all below one composite, and a thousand composites besides."""
    asked = []
    for number in (MOST_BELOW, 5000):
        workers = {
            keyed(f"worker-{index}"): TreeGroup(composite=False, minimum=2, parent="root") for index in range(number)
        }
        above = {keyed("root"): root(), **{keyed(f"c{index}"): root(parent="root") for index in range(number // 5)}}
        groups, composites = Unwalked(workers), Unwalked(above)
        facts = replace(example_cluster(workloads={"demo": TREE}), pod_groups=groups, composite_pod_groups=composites)
        validate(manifest, settings=ON, facts=facts)
        asked.append(groups.asked + composites.asked)
    assert asked[1] <= MOST_ASKED
    # Beyond the bound it is the same, but that a few composites more are met than there were in the small one.
    assert asked[1] - asked[0] <= 8 * MOST_BELOW


FIELDS = st.sampled_from(
    [
        "workloadRef",
        "workloadName",
        "templateName",
        "podGroupTemplateRef",
        "workload",
        "parentCompositePodGroupName",
        "schedulingPolicy",
        "gang",
        "basic",
        "minCount",
        "minGroupCount",
        "disruptionMode",
        "all",
        "priority",
        "priorityClassName",
        "schedulingConstraints",
        "topology",
        "key",
        "podGroups",
        "podGroupTemplates",
        "compositePodGroupTemplates",
        "schedulingGroup",
        "podGroupName",
        "schedulerName",
        "name",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["root", "worker", "demo"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | FIELDS, inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [("v1", "Pod")]
    + [(f"scheduling.k8s.io/{version}", "Workload") for version in ("v1alpha1", "v1alpha2", "v1beta1")]
    + [(f"scheduling.k8s.io/{version}", "PodGroup") for version in ("v1alpha2", "v1beta1")]
    + [(f"scheduling.k8s.io/{version}", "CompositePodGroup") for version in ("v1alpha3", "v1beta1")]
)
FACTS = example_cluster(
    workloads={"demo": TREE},
    pod_groups={"worker": TreeGroup(composite=False, minimum=2, parent="root")},
    composite_pod_groups={"root": root()},
)


@given(KINDS, st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON, max_size=3), max_size=6) | JSON, JSON)
def test_any_group_object_gets_a_verdict(kind: tuple[str, str], spec: Any, old: Any) -> None:
    metadata = {"name": "worker", "namespace": "default"}
    manifest = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}
    for before in (None, {**manifest, "spec": old}):
        verdict = admission.validate(request(manifest, before), FACTS, ON)
        assert verdict.allowed is not bool(verdict.denials)
        assert all(len(str(finding).encode()) < 2048 for finding in verdict.findings)
        assert len(rules(verdict)) < 20
