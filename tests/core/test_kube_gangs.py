"""PodGang to the Workload API, in each of its generations, against objects written out by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.core.worlds import gang_pod, request, settings_of
from webhook import admission
from webhook.backends.base import GangMember, PodPriority
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.generation import COMPOSITE, GROUP, Generation, generation
from webhook.backends.kube.settings import KubeSettings
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.model.facts import NOTHING_KNOWN, Api, ClusterFacts, PriorityClass, Record
from webhook.model.podgang import PodGang
from webhook.model.reading import Manifest

V1ALPHA1 = frozenset({Api(GROUP, "v1alpha1", "Workload")})
V1ALPHA2 = frozenset(Api(GROUP, "v1alpha2", kind) for kind in ("Workload", "PodGroup"))
V1BETA1 = frozenset(Api(GROUP, "v1beta1", kind) for kind in ("Workload", "PodGroup"))
TREE = V1BETA1 | {COMPOSITE}
# What every cluster serves of the group, and what a file of CRDs says.
NEITHER = frozenset({Api(GROUP, "v1", "PriorityClass")})
COORDINATED = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
RECORD = Record("default-scheduler")


def backend(**config: Any) -> KubeBackend:
    return KubeBackend(KubeSettings(gangScheduling=True, **config))


def member(name: str, minimum: int, pods: int = 0, **fields: Any) -> Manifest:
    references = [{"namespace": "ml", "name": f"{name}-{index}"} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def constraint(required: str | None = None, preferred: str | None = None) -> Manifest:
    pack = {"required": required, "preferred": preferred}
    return {"topologyConstraint": {"packConstraint": {key: value for key, value in pack.items() if value}}}


def podgang(*members: Manifest, labels: Manifest | None = None, **spec: Any) -> PodGang:
    metadata = {"name": "demo-0", "namespace": "ml", "uid": "u-1", "labels": labels or {}}
    return PodGang({"kind": "PodGang", "metadata": metadata, "spec": {"podgroups": list(members), **spec}})


def bare(objects: list[Manifest]) -> list[Manifest]:
    """Without what all objects have in common, which a test of its own looks at."""
    return [{"is": _title(found), **found["spec"]} for found in objects]


def _title(found: Manifest) -> str:
    version = found["apiVersion"].removeprefix("scheduling.k8s.io/")
    return f"{version} {found['kind']} {found['metadata']['name']}"


def made(gang: PodGang, apis: frozenset[Api], record: Record = RECORD, **config: Any) -> list[Manifest]:
    used = backend(**config)
    facts = ClusterFacts(apis=apis)
    return [used.adopt(found, None) for found in used.gang_objects(gang, record, facts)]


def gang(minimum: int) -> Manifest:
    return {"gang": {"minCount": minimum}}


TWO = (member("demo-0-lead", 1, 1), member("demo-0-wrk", 4, 4))

TRANSLATIONS: dict[str, tuple[PodGang, frozenset[Api], dict[str, Any], list[Manifest]]] = {
    "1.35, merged": (
        podgang(*TWO),
        V1ALPHA1,
        {},
        [{"is": "v1alpha1 Workload demo-0", "podGroups": [{"name": "gang", "policy": gang(5)}]}],
    ),
    "1.35, each for itself": (
        podgang(*TWO),
        V1ALPHA1,
        {"flat": "allow"},
        [
            {
                "is": "v1alpha1 Workload demo-0",
                "podGroups": [
                    {"name": "demo-0-lead", "policy": gang(1)},
                    {"name": "demo-0-wrk", "policy": gang(4)},
                ],
            }
        ],
    ),
    "1.36, merged": (
        podgang(*TWO),
        V1ALPHA2,
        {},
        [
            {
                "is": "v1alpha2 Workload demo-0",
                "podGroupTemplates": [{"name": "gang", "schedulingPolicy": gang(5)}],
            },
            {
                "is": "v1alpha2 PodGroup demo-0",
                "podGroupTemplateRef": {"workload": {"workloadName": "demo-0", "podGroupTemplateName": "gang"}},
                "schedulingPolicy": gang(5),
            },
        ],
    ),
    "1.36, a gang of one clique, each for itself": (
        podgang(member("demo-0-wrk", 2, 4)),
        V1ALPHA2,
        {"flat": "refuse"},
        [
            {
                "is": "v1alpha2 Workload demo-0",
                "podGroupTemplates": [{"name": "demo-0-wrk", "schedulingPolicy": gang(2)}],
            },
            {
                "is": "v1alpha2 PodGroup demo-0-wrk",
                "podGroupTemplateRef": {"workload": {"workloadName": "demo-0", "podGroupTemplateName": "demo-0-wrk"}},
                "schedulingPolicy": gang(2),
            },
        ],
    ),
    "1.37 without trees, merged": (
        podgang(*TWO),
        V1BETA1,
        {},
        [
            {"is": "v1beta1 Workload demo-0", "podGroupTemplates": [{"name": "gang", "schedulingPolicy": gang(5)}]},
            {
                "is": "v1beta1 PodGroup demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "gang"},
                "schedulingPolicy": gang(5),
            },
        ],
    ),
    "1.37, a tree of two cliques": (
        podgang(*TWO),
        TREE,
        {},
        [
            {
                "is": "v1beta1 Workload demo-0",
                "compositePodGroupTemplates": [
                    {
                        "name": "root",
                        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                        "podGroupTemplates": [
                            {"name": "demo-0-lead", "schedulingPolicy": gang(1)},
                            {"name": "demo-0-wrk", "schedulingPolicy": gang(4)},
                        ],
                    }
                ],
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            },
            {
                "is": "v1beta1 PodGroup demo-0-lead",
                "parentCompositePodGroupName": "demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-lead"},
                "schedulingPolicy": gang(1),
            },
            {
                "is": "v1beta1 PodGroup demo-0-wrk",
                "parentCompositePodGroupName": "demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-wrk"},
                "schedulingPolicy": gang(4),
            },
        ],
    ),
    "1.37, topology at three levels": (
        podgang(
            member("demo-0-router", 1),
            member("demo-0-pf-0-lead", 1, **constraint("example.com/host")),
            member("demo-0-pf-0-wrk", 4),
            topologyConstraintGroupConfigs=[
                {
                    "name": "demo-0-pf-0",
                    "podGroupNames": ["demo-0-pf-0-lead", "demo-0-pf-0-wrk"],
                    **constraint("example.com/rack"),
                }
            ],
            **constraint("example.com/zone"),
        ),
        TREE,
        {},
        [
            {
                "is": "v1beta1 Workload demo-0",
                "compositePodGroupTemplates": [
                    {
                        "name": "root",
                        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                        "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]},
                        "podGroupTemplates": [{"name": "demo-0-router", "schedulingPolicy": gang(1)}],
                        "compositePodGroupTemplates": [
                            {
                                "name": "demo-0-pf-0",
                                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
                                "podGroupTemplates": [
                                    {
                                        "name": "demo-0-pf-0-lead",
                                        "schedulingPolicy": gang(1),
                                        "schedulingConstraints": {"topology": [{"key": "example.com/host"}]},
                                    },
                                    {"name": "demo-0-pf-0-wrk", "schedulingPolicy": gang(4)},
                                ],
                            }
                        ],
                    }
                ],
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]},
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0-demo-0-pf-0",
                "parentCompositePodGroupName": "demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            },
            {
                "is": "v1beta1 PodGroup demo-0-router",
                "parentCompositePodGroupName": "demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-router"},
                "schedulingPolicy": gang(1),
            },
            {
                "is": "v1beta1 PodGroup demo-0-pf-0-lead",
                "parentCompositePodGroupName": "demo-0-demo-0-pf-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0-lead"},
                "schedulingPolicy": gang(1),
                "schedulingConstraints": {"topology": [{"key": "example.com/host"}]},
            },
            {
                "is": "v1beta1 PodGroup demo-0-pf-0-wrk",
                "parentCompositePodGroupName": "demo-0-demo-0-pf-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0-wrk"},
                "schedulingPolicy": gang(4),
            },
        ],
    ),
    "an external owner has the objects": (
        podgang(*TWO, labels={"grove.io/external-workload-managed": "true"}),
        TREE,
        {},
        [],
    ),
}


@pytest.mark.parametrize(("given", "apis", "config", "expected"), TRANSLATIONS.values(), ids=TRANSLATIONS)
def test_a_pod_gang_becomes(
    given: PodGang, apis: frozenset[Api], config: dict[str, Any], expected: list[Manifest]
) -> None:
    assert bare(made(given, apis, **config)) == expected


def test_every_object_goes_with_its_pod_gang() -> None:
    owner = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "name": "demo-0",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for found in made(podgang(*TWO), TREE):
        metadata = found["metadata"]
        assert (metadata["namespace"], metadata["ownerReferences"]) == ("ml", [owner])
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "rollcall"


def test_the_priority_class_is_on_every_level_from_1_37_on() -> None:
    record = Record("default-scheduler", priority_class="high")
    assert {found["spec"].get("priorityClassName") for found in made(podgang(*TWO), TREE, record)[1:]} == {"high"}
    assert "priorityClassName" not in str(made(podgang(*TWO), V1ALPHA2, record))


def test_without_gang_scheduling_nothing_is_written() -> None:
    plain = KubeBackend(KubeSettings())
    assert plain.gang_objects(podgang(*TWO), RECORD, ClusterFacts(apis=TREE)) == []


CLASSES = {"high": PriorityClass(1000, is_default=False), "system-node-critical": PriorityClass(2000001000, False)}
CANNOT_BE_SAID: dict[str, tuple[PodGang, frozenset[Api] | None, dict[str, Any], str]] = {
    "no API": (podgang(*TWO), NEITHER, {}, "kube/workload-api"),
    "only what kube-scheduler does not read": (podgang(*TWO), frozenset({COMPOSITE}), {}, "kube/workload-api"),
    "an API that is not known": (podgang(*TWO), None, {}, "kube/workload-api"),
    "trees are required and not there": (
        podgang(*TWO),
        V1BETA1,
        {"hierarchical": "required"},
        "kube/workload-api",
    ),
    "two groups and no tree": (podgang(*TWO), V1ALPHA2, {"flat": "refuse"}, "kube/flat-gang"),
    "merged with pods to spare": (
        podgang(member("a", 1, 1), member("b", 1, 2)),
        V1ALPHA2,
        {},
        "kube/flat-gang",
    ),
    "topology without a tree": (podgang(*TWO, **constraint("rack")), V1ALPHA2, {}, "kube/topology"),
    "a preference": (podgang(*TWO, **constraint(preferred="rack")), TREE, {}, "kube/preferred-topology"),
    "nine leaves": (podgang(*(member(f"m{index}", 1) for index in range(9))), TREE, {}, "kube/too-many-groups"),
    "a group of strangers": (
        podgang(
            *TWO,
            topologyConstraintGroupConfigs=[{"name": "g", "podGroupNames": ["nobody"], **constraint("rack")}],
        ),
        TREE,
        {},
        "kube/tree",
    ),
    "a class that is not there": (podgang(*TWO), TREE, {"class": "nobody"}, "kube/priority-class"),
    "a class of the system's own": (podgang(*TWO), TREE, {"class": "system-node-critical"}, "kube/priority-class"),
    "a class of the system's own, without trees": (
        podgang(*TWO),
        V1BETA1,
        {"class": "system-node-critical"},
        "kube/priority-class",
    ),
    "a member of two groups": (
        podgang(
            *TWO,
            topologyConstraintGroupConfigs=[
                {"name": name, "podGroupNames": ["demo-0-wrk"], **constraint("rack")} for name in ("g", "h")
            ],
        ),
        TREE,
        {},
        "kube/tree",
    ),
}


@pytest.mark.parametrize(("given", "apis", "config", "rule"), CANNOT_BE_SAID.values(), ids=CANNOT_BE_SAID)
def test_what_cannot_be_said_as_a_whole_is_not_said_in_part(
    given: PodGang, apis: frozenset[Api] | None, config: dict[str, Any], rule: str
) -> None:
    chosen = dict(config)
    record = Record("default-scheduler", priority_class=chosen.pop("class", None))
    with pytest.raises(Inexpressible) as error:
        backend(**chosen).gang_objects(given, record, ClusterFacts(apis=apis, priority_classes=CLASSES))
    found = [finding.rule for finding in error.value.findings] + [missing.rule for missing in error.value.unjudged]
    assert found == [rule]


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_released_minimum_keeps_the_last_positive_one(apis: frozenset[Api]) -> None:
    """Grove releases a gang's minimums to 0 so that a rolling update goes on; 0 is no gang to the API server."""
    before = made(podgang(*TWO), apis, flat="allow")
    used = backend(flat="allow")
    free = podgang(member("demo-0-lead", 0, 1), member("demo-0-wrk", 0, 4))
    released = used.gang_objects(free, RECORD, ClusterFacts(apis=apis))
    assert "'minCount': 0" in str(released)
    assert [used.adopt(found, live) for found, live in zip(released, before, strict=True)] == before
    assert "'minCount': 0" not in str([used.adopt(found, None) for found in released])


@pytest.mark.parametrize(("lead", "work"), [(0, 4), (1, 0), (0, 0)])
@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1])
def test_merged_members_keep_their_sum_when_any_is_released(apis: frozenset[Api], lead: int, work: int) -> None:
    """Up to 1.36 the sum is frozen, so one without those that are released would be refused for ever."""
    before = made(podgang(*TWO), apis)
    used = backend()
    given = podgang(member("demo-0-lead", lead, 1), member("demo-0-wrk", work, 4))
    released = used.gang_objects(given, RECORD, ClusterFacts(apis=apis))
    assert [used.adopt(found, live) for found, live in zip(released, before, strict=True)] == before
    # Where nothing is recorded, a member that is released counts for one pod.
    expected = f"'minCount': {max(lead, 1) + max(work, 1)}}}"
    assert all(expected in str(used.adopt(found, None)) for found in released)


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_gang_without_members_is_not_written_yet(apis: frozenset[Api]) -> None:
    """Its shape would be frozen before anybody knows it, or refused."""
    assert made(podgang(), apis) == []
    assert made(podgang(), apis, flat="allow") == []


def test_a_composite_is_never_called_as_a_member_of_its_gang_is() -> None:
    # kube-scheduler 1.37 never finds room for such a PodGroup.
    assert bare(made(podgang(member("demo-0", 2)), TREE)) == [
        {
            "is": "v1beta1 Workload demo-0",
            "compositePodGroupTemplates": [
                {
                    "name": "root",
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    "podGroupTemplates": [{"name": "demo-0", "schedulingPolicy": {"gang": {"minCount": 2}}}],
                }
            ],
        },
        {
            "is": "v1alpha3 CompositePodGroup demo-0-root",
            "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        },
        {
            "is": "v1beta1 PodGroup demo-0",
            "parentCompositePodGroupName": "demo-0-root",
            "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
        },
    ]


def test_a_scaling_group_s_replica_may_be_called_as_a_clique_is() -> None:
    """A Workload has each template name once, in all of its tree."""
    config = {"name": "demo-0-g-0", "podGroupNames": ["demo-0-g-0-wrk"], **constraint("example.com/rack")}
    given = podgang(member("demo-0-g-0", 1), member("demo-0-g-0-wrk", 2), topologyConstraintGroupConfigs=[config])
    workload, _, below, *groups = made(given, TREE)
    (root,) = workload["spec"]["compositePodGroupTemplates"]
    # printf demo-0-g-0 | sha256sum
    assert [found["name"] for found in root["podGroupTemplates"]] == ["demo-0-g-0"]
    assert [found["name"] for found in root["compositePodGroupTemplates"]] == ["group-403c22b71ea86311b5d3"]
    assert below["metadata"]["name"] == "demo-0-demo-0-g-0"
    assert below["spec"]["workloadRef"]["templateName"] == "group-403c22b71ea86311b5d3"
    assert [found["spec"]["parentCompositePodGroupName"] for found in groups] == ["demo-0", "demo-0-demo-0-g-0"]


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_label_is_cut_where_a_name_is_longer_than_one_may_be(apis: frozenset[Api]) -> None:
    """The API server would refuse the whole object."""
    name, clique = "g" * 100, "c" * 63
    raw = podgang(member(clique, 1), member("d" * 64, 1)).raw
    given = PodGang({**raw, "metadata": {**raw["metadata"], "name": name}})
    labels = [found["metadata"]["labels"] for found in made(given, apis, flat="allow")]
    # printf 'g%.0s' {1..100} | sha256sum
    assert {found["grove.io/podgang"] for found in labels} == {"g" * 52 + "-6802f092c0"}
    # printf 'd%.0s' {1..64} | sha256sum
    cliques = {found["grove.io/podclique"] for found in labels if "grove.io/podclique" in found}
    assert cliques <= {clique, "d" * 52 + "-d91323a529"}


# Pods and names.

STANDING = GangMember("default", "demo-0", "demo-0-wrk", RECORD)
MEMBERSHIPS: dict[str, tuple[Generation, dict[str, Any], Manifest]] = {
    "1.35, merged": (Generation.V1ALPHA1, {}, {"workloadRef": {"name": "demo-0", "podGroup": "gang"}}),
    "1.35": (
        Generation.V1ALPHA1,
        {"flat": "allow"},
        {"workloadRef": {"name": "demo-0", "podGroup": "demo-0-wrk"}},
    ),
    "1.36, merged": (Generation.V1ALPHA2, {}, {"schedulingGroup": {"podGroupName": "demo-0"}}),
    "1.36": (Generation.V1ALPHA2, {"flat": "refuse"}, {"schedulingGroup": {"podGroupName": "demo-0-wrk"}}),
    "1.37, merged": (Generation.V1BETA1, {}, {"schedulingGroup": {"podGroupName": "demo-0"}}),
    "1.37, a tree": (Generation.TREE, {}, {"schedulingGroup": {"podGroupName": "demo-0-wrk"}}),
}


@pytest.mark.parametrize(("spoken", "config", "expected"), MEMBERSHIPS.values(), ids=MEMBERSHIPS)
def test_a_pod_names_its_group(spoken: Generation, config: dict[str, Any], expected: Manifest) -> None:
    assert backend(**config).prepare_pod(STANDING._replace(dialect=spoken)).default_fields == expected


NAMES = ["demo-0-wrk", "demo-0-a.b", "x" * 64, "y" * 300, "root", "Ä"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_the_group_that_a_pod_names_is_one_that_is_written(name: str, apis: frozenset[Api]) -> None:
    used, facts = backend(flat="allow"), ClusterFacts(apis=apis)
    objects = used.gang_objects(podgang(member(name, 1)), RECORD, facts)
    spoken = used.dialect(facts)
    assert spoken is not None
    fields = used.prepare_pod(GangMember("default", "demo-0", name, RECORD, spoken)).default_fields
    if apis is V1ALPHA1:
        entries = [entry["name"] for entry in objects[0]["spec"]["podGroups"]]
        assert fields["workloadRef"] == {"name": objects[0]["metadata"]["name"], "podGroup": entries[0]}
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", entries[0])
    else:
        group = objects[-1]
        assert (group["kind"], group["metadata"]["name"]) == ("PodGroup", fields["schedulingGroup"]["podGroupName"])
        assert len(group["metadata"]["name"]) <= 253


def on(apis: frozenset[Api] | None, **facts: Any) -> ClusterFacts:
    owner = {("default", "demo"): Record("default-scheduler", priority_class="high")}
    return ClusterFacts(apis=apis, pod_clique_sets=owner, **facts)


def test_a_pod_arrives_with_its_group_and_its_priority_together() -> None:
    classes = {"high": PriorityClass(1000, is_default=False, preemption_policy="Never")}
    asked = request(gang_pod(priority=0, preemptionPolicy="PreemptLowerPriority"))
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    verdict = admission.mutate(asked, on(TREE, priority_classes=classes), settings)
    assert asked.object is not None
    spec = asked.object["spec"]
    assert spec["schedulingGroup"] == {"podGroupName": "demo-0-worker"}
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("high", 1000, "Never")
    assert verdict.patch
    again = request(asked.object)
    assert admission.mutate(again, on(TREE, priority_classes=classes), settings).patch == ()


def test_a_membership_that_is_there_is_kept() -> None:
    asked = request(gang_pod(schedulingGroup={"podGroupName": "mine"}))
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    admission.mutate(asked, on(TREE), settings)
    assert asked.object is not None
    assert asked.object["spec"]["schedulingGroup"] == {"podGroupName": "mine"}
    assert asked.object["metadata"]["annotations"]["rollcall.dev/stamp"].startswith("default-scheduler/")


@pytest.mark.parametrize("apis", [None, NEITHER, frozenset({COORDINATED})])
def test_a_pod_whose_membership_would_be_dropped_is_not_admitted(apis: frozenset[Api] | None) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    with pytest.raises(FactsUnavailable, match="serves no form of its API"):
        admission.mutate(request(gang_pod()), on(apis), settings)


def test_the_stamp_changes_with_what_a_pod_is_prepared_from() -> None:
    used = backend()
    member_of = STANDING._replace(dialect=Generation.TREE)
    priority = PodPriority("high", 1, "Never")
    inputs = {
        used.prepare_pod(member_of).inputs,
        used.prepare_pod(member_of._replace(podclique="demo-0-lead")).inputs,
        used.prepare_pod(member_of._replace(priority=priority)).inputs,
    }
    assert len(inputs) == 3


GENERATIONS: dict[str, tuple[frozenset[Api] | None, dict[str, Any], Generation | None]] = {
    "1.35": (V1ALPHA1, {}, Generation.V1ALPHA1),
    "1.36": (V1ALPHA2, {}, Generation.V1ALPHA2),
    "1.37 without composites": (V1BETA1, {}, Generation.V1BETA1),
    "1.37": (TREE, {}, Generation.TREE),
    "1.37, trees off": (TREE, {"hierarchical": "off"}, Generation.V1BETA1),
    "1.37, the scheduler's gate off": (TREE, {"schedulerGates": ["GenericWorkload"]}, Generation.V1BETA1),
    "another one is wanted": (TREE, {"apiGeneration": "v1alpha2"}, None),
    "nothing": (NEITHER, {}, None),
    "only the kinds of CRDs in files": (frozenset({COORDINATED}), {}, None),
    "only the kinds of CRDs in files, and a statement": (
        frozenset({COORDINATED}),
        {"apiGeneration": "v1alpha2"},
        Generation.V1ALPHA2,
    ),
    "only PodGroup": (frozenset({Api(GROUP, "v1alpha2", "PodGroup")}), {}, None),
    "unknown": (None, {}, None),
    "unknown, but stated": (None, {"apiGeneration": "v1alpha2"}, Generation.V1ALPHA2),
    "unknown, stated, with trees": (None, {"apiGeneration": "v1beta1"}, Generation.TREE),
    "unknown, stated, without": (None, {"apiGeneration": "v1beta1", "hierarchical": "off"}, Generation.V1BETA1),
}


@pytest.mark.parametrize(("apis", "config", "expected"), GENERATIONS.values(), ids=GENERATIONS)
def test_the_generation_is_told_by_the_kinds_that_are_served(
    apis: frozenset[Api] | None, config: dict[str, Any], expected: Generation | None
) -> None:
    assert generation(KubeSettings(gangScheduling=True, **config), apis) is expected


def test_what_is_missing_is_said_once_discovery_knows() -> None:
    assert backend().init(NOTHING_KNOWN) == ()
    assert backend().init(ClusterFacts(apis=frozenset({COORDINATED}))) == ()
    assert backend().init(ClusterFacts(apis=TREE)) == ()
    (told,) = backend().init(ClusterFacts(apis=NEITHER))
    assert told.startswith(
        "default-scheduler: the cluster does not serve scheduling.k8s.io/v1beta1 Workload and PodGroup"
    )
