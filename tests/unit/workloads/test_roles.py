"""Workloads with roles: the first groups of all roles start together, and each further group by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, validate
from tests.unit.workloads.workloads import RECORD, disaggregated_set, known_shaped, view
from tests.unit.worlds import request
from webhook import admission
from webhook.admission.decision import required_facts
from webhook.gangs.members import read_opted_in_pod
from webhook.gangs.object_plan import gangs_of_sets
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed, Record
from webhook.model.place import MOST_TOGETHER, surge_of, together_in
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest, mapping
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of

TOGETHER = "rollcall.dev/groups-together"
NAME, ROLE = "disaggregatedset.x-k8s.io/name", "disaggregatedset.x-k8s.io/role"
LWS = "leaderworkerset.sigs.k8s.io"
CRD = "disaggregatedsets.disaggregatedset.x-k8s.io"


def serving(together: str | None = None, **role: Any) -> Manifest:
    """A DisaggregatedSet with that annotation."""
    found = disaggregated_set(**role)
    found["metadata"]["uid"] = "set"
    if together is not None:
        found["metadata"]["annotations"] = {TOGETHER: together}
    return found


def made_for(
    role: str, replicas: int = 1, *, revision: str = "5f8", uid: str = "set", created: str = "2026-11-27T08:00:00Z"
) -> LeaderWorkerSet:
    """The LeaderWorkerSet that is made for a role."""
    owner = {"apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": "DisaggregatedSet", "name": "demo", "uid": uid}
    metadata = {
        "name": f"demo-{revision}-{role}",
        "namespace": "default",
        "labels": {NAME: "demo", ROLE: role},
        "ownerReferences": [{**owner, "controller": True}],
        "creationTimestamp": created,
    }
    return LeaderWorkerSet({"metadata": metadata, "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": 2}}})


def pod(
    role: str = "decode", index: int = 0, *, made: str = "demo-5f8", labels: Mapping[str, str] | None = None
) -> Manifest:
    """The leader of a group, as its StatefulSet creates it."""
    name = f"{made}-{role}"
    own = {NAME: "demo", ROLE: role, f"{LWS}/name": name, f"{LWS}/template-revision-hash": "9c4"}
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{index}",
            "namespace": "default",
            "labels": {RECORD: "koord-scheduler", **own, **(labels or {})},
            "ownerReferences": [controller],
        },
        "spec": {"containers": [{"name": "server", "image": "example.com/server"}]},
    }


def gang_of(raw: Manifest, facts: ClusterFacts) -> tuple[str, str]:
    """The gang and member that admission gives a pod."""
    verdict = admission.mutate(request(raw), facts, EVERY)
    added = {str(one["path"]).rpartition("/")[2]: one.get("value") for one in verdict.patch}
    return str(added["rollcall.dev~1gang"]), str(added["rollcall.dev~1gang-member"])


@pytest.mark.parametrize(
    ("said", "together"),
    [
        (None, {}),
        ("prefill=2,decode=3", {"prefill": 2, "decode": 3}),
        (" prefill=2 , decode=1", {"prefill": 2, "decode": 1}),
        ("prefill=0,decode=65,encode=x,=1,,prefill", {}),
        (f"prefill={MOST_TOGETHER}", {"prefill": MOST_TOGETHER}),
        ("prefill=" + "9" * 10_000, {}),
        (",".join(f"r{index}=2" for index in range(10_000)), {f"r{index}": 2 for index in range(16)}),
    ],
)
def test_the_annotation_says_how_many_groups_start_together(said: str | None, together: dict[str, int]) -> None:
    assert together_in({} if said is None else {TOGETHER: said}) == together


def test_the_gangs_of_a_set_are_its_first_groups_and_one_further_group_of_each_role() -> None:
    found = list(gangs_of(view(serving("prefill=2", replicas=3))))
    assert [(gang.name, [(one.name, one.min_replicas) for one in gang.members]) for gang in found] == [
        ("demo", [("demo-prefill-0", 2), ("demo-prefill-1", 2), ("demo-decode-0", 2)]),
        ("demo-prefill-2", [("demo-prefill-2", 2)]),
        ("demo-decode-1", [("demo-decode-1", 2)]),
    ]


def test_a_role_without_groups_is_not_waited_for() -> None:
    assert list(gangs_of(view(serving(replicas=0)))) == []


@pytest.mark.parametrize(
    ("index", "together", "expected"),
    [
        (0, None, ("demo-5f8", "demo-5f8-decode-0")),
        (1, None, ("demo-5f8-decode-1-9c4", "demo-5f8-decode-1-9c4")),
        (1, "decode=2", ("demo-5f8", "demo-5f8-decode-1")),
    ],
)
def test_the_index_of_its_group_decides_the_gang_of_a_pod(
    index: int, together: str | None, expected: tuple[str, str]
) -> None:
    facts = known_shaped(serving(together))
    assert gang_of(pod(index=index), facts) == expected


def test_without_the_set_a_pod_belongs_to_its_leader_worker_set() -> None:
    """Only that may be opted in."""
    known = WorkloadFacts(Record("koord-scheduler"))
    facts = replace(NO_FACTS, shaped_workloads={}, leader_worker_sets={("default", "demo-5f8-decode"): known})
    assert gang_of(pod(), facts) == ("demo-5f8-decode-0-9c4", "demo-5f8-decode-0-9c4")


def test_both_are_read_before_a_pod_is_prepared() -> None:
    facts = replace(NO_FACTS, shaped_workloads={}, leader_worker_sets={})
    assert required_facts(request(pod()), facts, kinds=EVERY.kinds) == (
        Needed("shaped_workloads", (CRD, "default", "demo")),
        Needed("leader_worker_sets", ("default", "demo-5f8-decode")),
    )


@pytest.mark.parametrize(
    "labels", [{ROLE: "prefill"}, {NAME: "other"}, {ROLE: ""}, {NAME: "demo-5f8-decode"}, {ROLE: "demo-5f8-decode"}]
)
def test_labels_that_contradict_the_name_of_the_leader_worker_set_do_not_count(labels: dict[str, str]) -> None:
    place = EVERY.kinds.place_of(Pod(pod(labels=labels)))
    assert place is not None
    assert place.workload == Needed("leader_worker_sets", ("default", "demo-5f8-decode"))


@pytest.mark.parametrize(
    ("index", "gang", "kind"),
    [
        (0, None, "DisaggregatedSet"),
        (1, None, "LeaderWorkerSet"),
        (0, "demo-5f8", "DisaggregatedSet"),
        (1, "demo-5f8", "DisaggregatedSet"),
        (0, "demo-5f8-decode-0-9c4", "LeaderWorkerSet"),
        (1, "demo-5f8-decode-1-9c4", "LeaderWorkerSet"),
    ],
)
def test_the_label_of_a_pod_tells_whether_its_group_starts_with_others(index: int, gang: str | None, kind: str) -> None:
    labels = {} if gang is None else {"rollcall.dev/gang": gang}
    _, found = read_opted_in_pod(pod(index=index, labels=labels), EVERY.kinds)
    assert found.kind == kind


def gangs_by_name(*made: LeaderWorkerSet, together: str | None = None, **role: Any) -> dict[str, list[str]]:
    """The members of each gang of the first groups."""
    workload = view(serving(together, **role))
    found = gangs_of_sets(workload, made)
    return {gang.name: [one.name for one in gang.members] for gang in found}


def test_each_revision_has_a_gang_of_its_first_groups() -> None:
    made = (made_for(role, 2, revision=one) for role in ("prefill", "decode") for one in ("5f8", "77a"))
    assert gangs_by_name(*made) == {
        "demo-5f8": ["demo-5f8-prefill-0", "demo-5f8-decode-0"],
        "demo-77a": ["demo-77a-prefill-0", "demo-77a-decode-0"],
    }


def test_a_role_whose_leader_worker_set_is_still_missing_is_waited_for() -> None:
    old = [made_for(role, revision="77a", created="2026-11-26T08:00:00Z") for role in ("prefill", "decode", "encode")]
    assert gangs_by_name(made_for("prefill"), *old) == {
        "demo-5f8": ["demo-5f8-prefill-0", "demo-5f8-decode-0"],
        "demo-77a": ["demo-77a-prefill-0", "demo-77a-decode-0", "demo-77a-encode-0"],
    }


def test_a_role_without_groups_is_not_waited_for_in_the_cluster() -> None:
    made = made_for("prefill", 0), made_for("decode", 0)
    assert gangs_by_name(*made, replicas=0) == {}


def test_another_object_may_hold_the_number_of_groups() -> None:
    """Then the gang waits for a first one: the members of a running gang cannot change."""
    external = serving("prefill=2")
    for role in external["spec"]["roles"]:
        role["scaling"] = {"mode": "External"}
        role["spec"]["replicas"] = 0
    (found,) = gangs_of_sets(view(external), [made_for("prefill", 8)])
    assert [one.name for one in found.members] == ["demo-5f8-prefill-0", "demo-5f8-prefill-1", "demo-5f8-decode-0"]
    assert {finding.rule for finding in validate(external).findings} == set()


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_the_members_are_the_same_however_many_groups_there_are(replicas: int) -> None:
    """A rollout begins with none, and the members of a running gang cannot change."""
    made = made_for("prefill", replicas), made_for("decode", replicas)
    assert gangs_by_name(*made, together="prefill=2", replicas=2) == {
        "demo-5f8": ["demo-5f8-prefill-0", "demo-5f8-prefill-1", "demo-5f8-decode-0"]
    }


def test_a_leader_worker_set_of_another_set_with_that_name_does_not_count() -> None:
    assert gangs_by_name(made_for("prefill", uid="earlier")) == {}


def test_a_leader_worker_set_whose_name_has_no_role_does_not_count() -> None:
    made = made_for("prefill")
    made.labels = {**mapping(made.labels), ROLE: "decode"}
    assert gangs_by_name(made) == {}


@pytest.mark.parametrize(
    ("stated", "groups", "surge"),
    [
        ({}, 4, 1),
        ({"maxSurge": 2}, 4, 2),
        ({"maxSurge": 2, "maxUnavailable": 3}, 4, 2),
        ({"maxSurge": 0, "maxUnavailable": 3}, 4, 3),
        ({"maxSurge": "30%"}, 4, 2),
        ({"maxUnavailable": "30%"}, 4, 1),
        ({"maxSurge": "many", "maxUnavailable": "x%"}, 4, 1),
        ({"maxSurge": -2}, 4, 1),
    ],
)
def test_a_step_of_a_rollout_makes_as_many_groups_as_the_planner_does(
    stated: dict[str, Any], groups: int, surge: int
) -> None:
    assert surge_of({"rolloutStrategy": {"rollingUpdateConfiguration": stated}}, groups) == surge


@pytest.mark.parametrize(
    ("together", "strategy", "rules"),
    [
        (None, None, set()),
        ("prefill=2", None, {"owner/groups-rollout"}),
        ("prefill=2", {"maxSurge": 2}, set()),
        ("prefill=3", None, {"owner/groups-together"}),
        ("prefill=two", None, {"owner/groups-together"}),
        ("encode=1", None, {"owner/groups-together"}),
        ("prefill=1,prefill=1", None, {"owner/groups-together"}),
        (",".join(["prefill=1", *(f"r{index}=1" for index in range(16))]), None, {"owner/groups-together"}),
        ("p" * 64 + "=1", None, {"owner/groups-together"}),
    ],
)
def test_a_number_of_groups_that_cannot_start_together_is_found(
    together: str | None, strategy: dict[str, Any] | None, rules: set[str]
) -> None:
    rollout = {} if strategy is None else {"rolloutStrategy": {"rollingUpdateConfiguration": strategy}}
    verdict = validate(serving(together, replicas=2, **rollout))
    assert {finding.rule for finding in verdict.findings} == rules


@pytest.mark.parametrize(
    ("before", "now", "replicas", "changed"),
    [
        (None, "prefill=2", 2, True),
        ("prefill=2", None, 2, True),
        (None, "prefill=1", 2, False),
        ("prefill=2", "prefill=3", 0, False),
    ],
)
def test_the_number_of_groups_stays_as_it_is_while_there_are_groups(
    before: str | None, now: str | None, replicas: int, changed: bool
) -> None:
    verdict = validate(serving(now, replicas=replicas), serving(before, replicas=replicas))
    assert ("owner/groups-changed" in {finding.rule for finding in verdict.findings}) is changed


def test_a_set_can_be_scaled_to_nothing() -> None:
    assert validate(serving("prefill=2", replicas=0), serving("prefill=2", replicas=2)).findings == ()


@pytest.mark.parametrize("digits", [11, 5000])
def test_the_name_of_a_controller_is_no_number_of_any_length(digits: int) -> None:
    raw = pod()
    raw["metadata"]["ownerReferences"][0]["name"] = f"demo-5f8-decode-{'1' * digits}"
    place = EVERY.kinds.place_of(Pod(raw))
    assert place is not None
    assert (place.role_place, place.workload.part) == (None, "shaped_workloads"), "it is that of a StatefulSet"


def test_exclusive_topology_of_a_role_is_refused() -> None:
    raw = serving()
    raw["spec"]["roles"][0]["metadata"] = {"annotations": {f"{LWS}/exclusive-topology": "rack"}}
    assert {finding.rule for finding in validate(raw).findings} == {"owner/incomplete"}
