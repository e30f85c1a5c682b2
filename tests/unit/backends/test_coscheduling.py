"""The backend of scheduler-plugins: the PodGroup compared with one written by hand, refusals, and the keys of pods."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.backends.pod_gangs import OWNER, asks, member, of_group, podgang
from tests.unit.worlds import settings_of
from webhook.backends.base import GangMember, PodPriority
from webhook.backends.coscheduling import NAME, CoschedulingBackend
from webhook.errors import Inexpressible
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.known_objects import PriorityClass
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge
from webhook.offline.translation import gang_objects
from webhook.validators.examples import clique, pod_clique_set, scaling_group

LEADER, WORKER = member("demo-0-leader", 1, 1), member("demo-0-worker", 2, 2)


def translated(gang: PodGang, **config: Any) -> Manifest:
    (group,) = gang_objects(gang, Record(NAME), settings_of(NAME, config).profiles[NAME], NO_FACTS)
    return group


def backend() -> CoschedulingBackend:
    found = settings_of(NAME).profiles[NAME].backend
    assert isinstance(found, CoschedulingBackend)
    return found


def test_a_gang_is_one_pod_group_of_all_its_pods() -> None:
    assert translated(podgang(LEADER, WORKER), scheduleTimeoutSeconds=300) == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": "demo-0",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/managed-by": "rollcall",
                "grove.io/podgang": "demo-0",
                "rollcall.dev/gang": "demo-0",
            },
            "annotations": {"rollcall.dev/members": "demo-0-leader,demo-0-worker"},
            "ownerReferences": [OWNER],
        },
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 300},
    }


def test_a_gang_of_one_clique_can_have_more_pods_than_its_minimum() -> None:
    assert translated(podgang(member("demo-0-worker", 2, 4)))["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 60}


CANNOT_BE_SAID = {
    "pods to spare": (podgang(LEADER, member("demo-0-worker", 2, 3)), "coscheduling/spare-pods"),
    "two members of one name": (podgang(WORKER, WORKER), "coscheduling/twins"),
    "a topology of the whole": (podgang(WORKER, **asks("example.com/rack")), "coscheduling/topology"),
    "a preferred one": (podgang(WORKER, **asks(preferred="example.com/rack")), "coscheduling/topology"),
    "of a member": (podgang(member("demo-0-w", 2, **asks("example.com/rack"))), "coscheduling/topology"),
    "of some members": (podgang(WORKER, **of_group("example.com/rack", "demo-0-worker")), "coscheduling/topology"),
}


@pytest.mark.parametrize(("gang", "rule"), CANNOT_BE_SAID.values(), ids=CANNOT_BE_SAID)
def test_a_gang_that_one_sum_cannot_express_is_not_translated(gang: PodGang, rule: str) -> None:
    with pytest.raises(Inexpressible) as error:
        translated(gang)
    assert [finding.rule for finding in error.value.findings] == [rule]


def group_of(minimum: int) -> Manifest:
    return {"kind": "PodGroup", "spec": {"minMember": minimum, "minResources": {"cpu": "3"}}, "status": {"running": 3}}


RELEASED = member("demo-0-worker", 0, 2)
MINIMUMS: dict[str, tuple[PodGang, Manifest | None, int]] = {
    "nothing is released": (podgang(LEADER, WORKER), group_of(5), 3),
    "a member, of a living gang": (podgang(LEADER, RELEASED), group_of(3), 3),
    "a member, before anything was written": (podgang(LEADER, RELEASED), None, 2),
    "every member": (podgang(RELEASED), group_of(2), 2),
    "every member, before anything was written": (podgang(RELEASED), None, 1),
    "a gang without members": (podgang(), None, 1),
    "what is live says nothing": (podgang(LEADER, RELEASED), {"spec": {}}, 2),
}


@pytest.mark.parametrize(("gang", "live", "minimum"), MINIMUMS.values(), ids=MINIMUMS)
def test_a_released_minimum_keeps_its_last_value_and_is_at_least_one(
    gang: PodGang, live: Manifest | None, minimum: int
) -> None:
    (desired,) = backend().gang_objects(gang, Record(NAME), NO_FACTS)
    before = deepcopy((desired, live))
    assert backend().adopt(desired, live)["spec"] == {"minMember": minimum, "scheduleTimeoutSeconds": 60}
    assert (desired, live) == before


def test_a_pod_names_its_pod_group_and_has_its_set_s_priority() -> None:
    priority = PodPriority("high", 1000, "Never")
    changes = backend().prepare_pod(GangMember("team-a", "demo-0", "demo-0-worker", Record(NAME), priority=priority))
    assert changes.scheduler_name == "scheduler-plugins-scheduler"
    assert (changes.labels, changes.annotations) == ({"scheduling.x-k8s.io/pod-group": "demo-0"}, {})
    assert changes.priority == priority


def test_a_name_too_long_for_a_label_is_cut_the_same_way_on_pods_and_pod_group() -> None:
    long = "a" * 80
    gang = PodGang({"metadata": {"name": long, "namespace": "team-a"}, "spec": {"podgroups": [WORKER]}})
    changes = backend().prepare_pod(GangMember("team-a", long, "demo-0-worker", Record(NAME)))
    name = translated(gang)["metadata"]["name"]
    assert changes.labels == {"scheduling.x-k8s.io/pod-group": name}
    assert len(name) == 63


CLASSES = ClusterFacts(priority_classes={"high": PriorityClass(1000, is_default=False)})
JUDGED: dict[str, tuple[Manifest, list[str]]] = {
    "cliques without pods to spare": (pod_clique_set(clique("leader", replicas=1), clique("worker")), []),
    "one clique with pods to spare": (pod_clique_set(clique("worker", replicas=4, minimum=2)), []),
    "cliques with pods to spare": (
        pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2)),
        ["coscheduling/spare-pods"],
    ),
    "a clique that scales by itself": (
        pod_clique_set(
            clique("leader", replicas=1),
            {**clique("worker"), "spec": {**clique("worker")["spec"], "autoScalingConfig": {"maxReplicas": 4}}},
        ),
        ["coscheduling/spare-pods"],
    ),
    "two replicas of a clique with pods to spare": (
        pod_clique_set(
            clique("worker", replicas=4, minimum=2), groups=[scaling_group("g", "worker", replicas=2, minAvailable=2)]
        ),
        ["coscheduling/spare-pods"],
    ),
    "a class that is there": (pod_clique_set(priorityClassName="high"), []),
    "a class that is not": (pod_clique_set(priorityClassName="higher"), ["coscheduling/priority-class"]),
    "a foreign gang": (
        pod_clique_set(clique("worker", annotations={"pod-group-name": "training"})),
        ["coscheduling/claimed-pods"],
    ),
}


@pytest.mark.parametrize(("manifest", "rules"), JUDGED.values(), ids=JUDGED)
def test_a_workload_is_refused_for_constraints_that_coscheduling_would_ignore(
    manifest: Manifest, rules: list[str]
) -> None:
    verdict = next(iter(judge(manifest, CLASSES, settings_of(NAME)))).verdict
    assert [finding.rule for finding in verdict.findings] == rules


def test_a_scheduler_without_scheduling_gates_is_refused() -> None:
    assert CoschedulingBackend.version_problem(Version(0, 26, 7)) is not None
    assert CoschedulingBackend.version_problem(Version(0, 27)) is None
