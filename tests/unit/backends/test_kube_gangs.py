"""PodGang to the Workload API, in each of its versions, compared with objects written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.kube_gangs import (
    RECORD,
    TREE,
    TWO,
    V1ALPHA1,
    V1ALPHA2,
    V1BETA1,
    backend,
    bare,
    constraint,
    made,
    member,
    podgang,
)
from tests.unit.backends.pod_gangs import OWNER
from webhook.backends.kube import workload_api
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import Generation, KubeSettings
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record, is_subdomain
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import Manifest

# In each group and template of 1.37 if the gang needs every pod.
ALL: Manifest = {"disruptionMode": {"all": {}}}


def gang(minimum: int) -> Manifest:
    return {"gang": {"minCount": minimum}}


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
                "podGroupTemplates": [{"name": "gang", "schedulingPolicy": gang(5), "disruptionMode": "PodGroup"}],
            },
            {
                "is": "v1alpha2 PodGroup demo-0",
                "podGroupTemplateRef": {"workload": {"workloadName": "demo-0", "podGroupTemplateName": "gang"}},
                "schedulingPolicy": gang(5),
                "disruptionMode": "PodGroup",
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
                "podGroupTemplates": [{"name": "demo-0-wrk", "schedulingPolicy": gang(2), "disruptionMode": "Pod"}],
            },
            {
                "is": "v1alpha2 PodGroup demo-0-wrk",
                "podGroupTemplateRef": {"workload": {"workloadName": "demo-0", "podGroupTemplateName": "demo-0-wrk"}},
                "schedulingPolicy": gang(2),
                "disruptionMode": "Pod",
            },
        ],
    ),
    "1.37 without trees, merged": (
        podgang(*TWO),
        V1BETA1,
        {},
        [
            {
                "is": "v1beta1 Workload demo-0",
                "podGroupTemplates": [{"name": "gang", "schedulingPolicy": gang(5), **ALL}],
            },
            {
                "is": "v1beta1 PodGroup demo-0",
                "workloadRef": {"workloadName": "demo-0", "templateName": "gang"},
                "schedulingPolicy": gang(5),
                **ALL,
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
                        **ALL,
                        "podGroupTemplates": [
                            {"name": "demo-0-lead", "schedulingPolicy": gang(1), **ALL},
                            {"name": "demo-0-wrk", "schedulingPolicy": gang(4), **ALL},
                        ],
                    }
                ],
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                **ALL,
            },
            {
                "is": "v1beta1 PodGroup demo-0-lead",
                "parentCompositePodGroupName": "demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-lead"},
                "schedulingPolicy": gang(1),
                **ALL,
            },
            {
                "is": "v1beta1 PodGroup demo-0-wrk",
                "parentCompositePodGroupName": "demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-wrk"},
                "schedulingPolicy": gang(4),
                **ALL,
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
                        **ALL,
                        "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]},
                        "podGroupTemplates": [{"name": "demo-0-router", "schedulingPolicy": gang(1), **ALL}],
                        "compositePodGroupTemplates": [
                            {
                                "name": "demo-0-pf-0",
                                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                                **ALL,
                                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
                                "podGroupTemplates": [
                                    {
                                        "name": "demo-0-pf-0-lead",
                                        "schedulingPolicy": gang(1),
                                        **ALL,
                                        "schedulingConstraints": {"topology": [{"key": "example.com/host"}]},
                                    },
                                    {"name": "demo-0-pf-0-wrk", "schedulingPolicy": gang(4), **ALL},
                                ],
                            }
                        ],
                    }
                ],
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                **ALL,
                "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]},
            },
            {
                "is": "v1alpha3 CompositePodGroup demo-0-demo-0-pf-0.composite",
                "parentCompositePodGroupName": "demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                **ALL,
                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            },
            {
                "is": "v1beta1 PodGroup demo-0-router",
                "parentCompositePodGroupName": "demo-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-router"},
                "schedulingPolicy": gang(1),
                **ALL,
            },
            {
                "is": "v1beta1 PodGroup demo-0-pf-0-lead",
                "parentCompositePodGroupName": "demo-0-demo-0-pf-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0-lead"},
                "schedulingPolicy": gang(1),
                **ALL,
                "schedulingConstraints": {"topology": [{"key": "example.com/host"}]},
            },
            {
                "is": "v1beta1 PodGroup demo-0-pf-0-wrk",
                "parentCompositePodGroupName": "demo-0-demo-0-pf-0.composite",
                "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0-pf-0-wrk"},
                "schedulingPolicy": gang(4),
                **ALL,
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
def test_a_pod_gang_becomes_the_expected_objects(
    given: PodGang, apis: frozenset[Api], config: dict[str, Any], expected: list[Manifest]
) -> None:
    assert bare(made(given, apis, **config)) == expected


def test_every_object_is_deleted_with_its_pod_clique_set_and_names_its_gang() -> None:
    for found in made(podgang(*TWO), TREE):
        metadata = found["metadata"]
        assert (metadata["namespace"], metadata["ownerReferences"]) == ("ml", [OWNER])
        own = {key: value for key, value in metadata["labels"].items() if key != "grove.io/podclique"}
        assert own == {
            "app.kubernetes.io/managed-by": "rollcall",
            "grove.io/podgang": "demo-0",
            "rollcall.dev/gang": "demo-0",
        }


def test_an_object_of_one_member_names_it_and_the_others_list_all_members() -> None:
    found = [
        (found["kind"], found["metadata"]["labels"].get("grove.io/podclique"), found["metadata"].get("annotations"))
        for found in made(podgang(*TWO), TREE)
    ]
    both = {"rollcall.dev/members": "demo-0-lead,demo-0-wrk"}
    assert found == [
        ("Workload", None, both),
        ("CompositePodGroup", None, both),
        ("PodGroup", "demo-0-lead", None),
        ("PodGroup", "demo-0-wrk", None),
    ]


def classes(objects: list[Manifest]) -> list[Any]:
    """The class of the first template of the Workload, and of each other object."""
    (head, *groups) = (found["spec"] for found in objects)
    (templates,) = head.values()
    return [spec.get("priorityClassName") for spec in (templates[0], *groups)]


def test_the_priority_class_is_on_every_level_from_1_36_on() -> None:
    record = Record("default-scheduler", priority_class="high")
    assert set(classes(made(podgang(*TWO), TREE, record))) == {"high"}
    assert classes(made(podgang(*TWO), V1ALPHA2, record)) == ["high", "high"]
    assert "priorityClassName" not in str(made(podgang(*TWO), V1ALPHA1, record))


def test_in_1_36_a_group_has_no_class_that_only_its_gate_would_allow() -> None:
    """With the gate off the API server drops the class. With the gate on it refuses these."""
    record, used = Record("default-scheduler", priority_class="system-node-critical"), backend()
    known = {"system-node-critical": PriorityClass(2_000_001_000, is_default=False)}
    facts = ClusterFacts(apis=V1ALPHA2, priority_classes=known)
    assert classes(used.gang_objects(podgang(*TWO), record, facts)) == [None, None]
    assert classes(made(podgang(*TWO), V1ALPHA2, record, schedulerGates=["GangScheduling"])) == [None, None]


def test_in_1_36_a_living_gang_stays_without_a_class() -> None:
    """The API server dropped it while its gate was off. The field is immutable."""
    used = backend()
    desired = made(podgang(*TWO), V1ALPHA2, Record("default-scheduler", priority_class="high"))
    live = made(podgang(*TWO), V1ALPHA2)
    wanted = [used.adopt(one, other) for one, other in zip(desired, live, strict=True)]
    assert wanted == live
    assert used.frozen(wanted, live) is None
    assert [used.adopt(one, one) for one in desired] == desired


def test_without_gang_scheduling_nothing_is_written() -> None:
    plain = KubeBackend(KubeSettings())
    assert plain.gang_objects(podgang(*TWO), RECORD, ClusterFacts(apis=TREE)) == []


@pytest.mark.parametrize(
    "name",
    ["demo-0", "demo-0-sg-0", "demo-0.composite", "demo-0-sg-0.composite", "d" * 253, f"{'d' * 243}.composite"],
)
def test_no_composite_has_the_name_of_a_pod_group(name: str) -> None:
    """kube-scheduler 1.37 confuses them, and PodCliques and Jobs may have any name, such as that of a PodGang."""
    composites = {workload_api.root(name), workload_api.composite(name, "sg-0"), workload_api.composite(name, name)}
    groups = {
        workload_api.pod_group(name, clique, generation, merged=merged, divided=divided)
        for clique in (name, f"{name}.composite", "sg-0")
        for generation in Generation
        for merged in (True, False)
        for divided in (True, False)
    }
    assert not composites & groups
    assert all(workload_api.is_composite(one) for one in composites)
    assert not any(workload_api.is_composite(one) for one in groups)
    assert all(is_subdomain(one) for one in composites | groups)


@pytest.mark.parametrize(("apis", "config"), [(TREE, {}), (V1BETA1, {}), (V1ALPHA2, {}), (V1ALPHA2, {"flat": "allow"})])
def test_a_workload_that_is_made_again_has_the_minimums_of_the_pod_groups(
    apis: frozenset[Api], config: dict[str, Any]
) -> None:
    """Grove has released the members since, which must not lower them."""
    used, facts = backend(**config), ClusterFacts(apis=apis)
    live = made(podgang(*TWO), apis, **config)
    released = podgang(*({**one, "minReplicas": 0} for one in TWO))
    found = [one if one["kind"] != "Workload" else None for one in live]
    settled = used.settle(used.gang_objects(released, RECORD, facts), [one for one in found if one is not None])
    assert [used.adopt(one, old) for one, old in zip(settled, found, strict=True)] == live
