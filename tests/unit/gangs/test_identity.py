"""The name of a gang's objects after Grove has renamed its PodGang: from the objects and the pods that exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from tests.unit.worlds import settings_of
from webhook.backends.base import PodChanges
from webhook.errors import FactsUnavailable
from webhook.gangs.members import GangPod, read_gang_pod
from webhook.gangs.object_plan import NameEvidence, gang_of
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.gang_objects import LivingGang
from webhook.model.grove import PodGang, no_count
from webhook.model.keys import Record
from webhook.model.pod_gang_map import PodGangEntry, PodGangMap
from webhook.model.reading import Manifest
from webhook.workloads.pod_clique_set import PodCliqueSet

OLD, NEW, SCALED = "demo-0", "demo-0-1795344276589742021", "demo-0-1795344276589742021-prefill-2"
LABELS = {"app.kubernetes.io/part-of": "demo", "grove.io/podcliqueset-replica-index": "0"}

# What the pods of PodClique demo-0-worker in the gang demo-0 have, as Rollcall has prepared them, by scheduler.
PREPARED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "koordinator": (
        "koord-scheduler",
        {},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "demo-0-worker"}},
    ),
    "KAI": (
        "kai-scheduler",
        {},
        {
            "labels": {"kai.scheduler/subgroup-name": "demo-0-worker"},
            "annotations": {"pod-group-name": "demo-0-71f2c73e", "kai.scheduler/skip-podgrouper": "true"},
        },
    ),
    "Volcano": (
        "volcano",
        {},
        {"annotations": {"scheduling.k8s.io/group-name": "demo-0", "scheduling.volcano.sh/group-name": "demo-0"}},
    ),
    "kube-scheduler 1.36": (
        "default-scheduler",
        {"gangScheduling": True, "apiGeneration": "v1alpha2"},
        {"spec": {"schedulingGroup": {"podGroupName": "demo-0"}}},
    ),
    "kube-scheduler 1.35": (
        "default-scheduler",
        {"gangScheduling": True, "apiGeneration": "v1alpha1"},
        {"spec": {"workloadRef": {"name": "demo-0", "podGroup": "gang"}}},
    ),
}
KOORDINATOR = PREPARED["koordinator"][2]
UNPREPARED: dict[str, Any] = {}

Prepared = Callable[[GangPod, str], PodChanges]


def podgang(name: str, clique: str = "demo-0-worker") -> Manifest:
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "s", "controller": True}
    metadata = {"name": name, "namespace": "team-a", "uid": "g", "labels": LABELS, "ownerReferences": [owner]}
    references = [{"namespace": "team-a", "name": "p"}]
    return {"metadata": metadata, "spec": {"podgroups": [{"name": clique, "podReferences": references}]}}


def pod(
    has: Mapping[str, Any], *, name: str = "p", node: str | None = "n", clique: str = "demo-0-worker", **labels: str
) -> GangPod:
    """A pod of today's PodGang. Keywords name the labels of its scaling group."""
    said = {"group": "grove.io/podcliquescalinggroup", "index": "grove.io/podcliquescalinggroup-replica-index"}
    own = {said[key]: value for key, value in labels.items()}
    grove = {"grove.io/podgang": NEW, "grove.io/podclique": clique, **LABELS, **own}
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": name,
        "labels": {**grove, **has.get("labels", {})},
        "annotations": has.get("annotations", {}),
    }
    spec = {"schedulerName": "a", **has.get("spec", {}), **({} if node is None else {"nodeName": node})}
    return read_gang_pod({"metadata": metadata, "spec": spec, "status": {}})[1]


def preparing(scheduler: str = "koord-scheduler", config: Mapping[str, Any] | None = None) -> Prepared:
    profile = settings_of(scheduler, config, standalone=False).profiles[scheduler]

    def prepared(found: GangPod, gang: str) -> PodChanges:
        member = profile.member(found.namespace, gang, found.podclique, Record(scheduler), NO_FACTS)
        return profile.backend.prepare_pod(member)

    return prepared


def unread() -> Sequence[GangPod]:
    raise FactsUnavailable("the pods are not read yet")


def decided(
    name: str,
    holders: Sequence[LivingGang] = (),
    pods: Sequence[GangPod] | Callable[[], Sequence[GangPod]] = (),
    *,
    prepared: Prepared | None = preparing(),  # noqa: B008 - pure
    known: PodGangMap | None = None,
    workload: PodCliqueSet | None = None,
    clique: str = "demo-0-worker",
) -> tuple[str, bool]:
    """The name of the gang, and whether pods on nodes have it."""
    facts = ClusterFacts(pod_gang_maps={} if known is None else {("team-a", "demo-0"): known})
    read = pods if callable(pods) else partial(list, pods)
    found = gang_of(PodGang(podgang(name, clique)), NameEvidence(holders, read, prepared, facts, lambda: workload))
    assert found.name == name, "the PodGang keeps its own name"
    return found.gang, found.present is not no_count


def gang(name: str, of: str) -> LivingGang:
    return LivingGang(name, of, ("demo-0-worker",), moved=True)


def test_a_new_gang_has_the_name_of_its_podgang() -> None:
    assert decided(NEW) == (NEW, False)


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_gang_whose_objects_are_in_step_keeps_its_name_and_its_pods_are_not_read(name: str) -> None:
    assert decided(name, [gang(OLD, name), gang(OLD, name)], unread) == (OLD, False)


def test_a_renamed_gang_keeps_the_name_of_its_objects() -> None:
    known = PodGangMap("demo-0", (PodGangEntry("Anchor", "1795344276589742021", frozenset({"worker"}), {}, ()),))
    assert decided(NEW, [gang(OLD, OLD)], known=known) == (OLD, False)
    assert decided(NEW, [gang(OLD, OLD)], [pod(KOORDINATOR)], known=known) == (OLD, True)


def test_a_gang_whose_podclique_is_also_in_another_podgang_gets_its_own_name() -> None:
    tail = "demo-0-1795344276589742999"
    entries = (PodGangEntry("Anchor", epoch[7:], frozenset({"worker"}), {}, ()) for epoch in (NEW, tail))
    assert decided(tail, [gang(NEW, NEW)], known=PodGangMap("demo-0", tuple(entries))) == (tail, False)


@pytest.mark.parametrize(("scheduler", "config", "has"), PREPARED.values(), ids=PREPARED)
def test_the_name_is_repaired_from_the_pods_on_nodes_when_the_objects_are_gone(
    scheduler: str, config: dict[str, Any], has: dict[str, Any]
) -> None:
    assert decided(NEW, [], [pod(has)], prepared=preparing(scheduler, config)) == (OLD, True)


def test_the_pods_on_nodes_that_are_in_the_gang_are_counted_if_a_member_lacks_some() -> None:
    other = {"labels": {"pod-group.scheduling.sigs.k8s.io": f"{NEW}-demo-0-worker"}}
    strayed = [pod(KOORDINATOR, name="a"), pod(KOORDINATOR, name="b", node=None), pod(other, name="c")]
    raw = podgang(NEW)
    raw["spec"]["podgroups"][0]["minReplicas"] = 2
    known = NameEvidence([], lambda: strayed, preparing(), ClusterFacts(pod_gang_maps={}), lambda: None)
    assert gang_of(PodGang(raw), known).present() == {"demo-0-worker": 1}
    raw["spec"]["podgroups"][0]["minReplicas"] = 1
    assert gang_of(PodGang(raw), known).present() is None


def test_pods_that_wait_decide_as_well() -> None:
    assert decided(NEW, [], [pod(KOORDINATOR, node=None)]) == (OLD, False)


def test_pods_on_nodes_decide_before_pods_that_wait() -> None:
    new = {"labels": {"pod-group.scheduling.sigs.k8s.io": "demo-0-1795344276589742021-demo-0-worker"}}
    waiting, running = pod(new, name="a", node=None), pod(KOORDINATOR, name="b")
    assert decided(NEW, [], [waiting, running]) == (OLD, True)


def test_pods_that_are_being_replaced_do_not_decide() -> None:
    leaving = pod(KOORDINATOR)._replace(leaving=True)
    failed = pod(KOORDINATOR)._replace(failed=True)
    assert decided(NEW, [], [leaving, failed]) == (NEW, False)


def test_unprepared_pods_decide_nothing() -> None:
    assert decided(NEW, [], [pod(UNPREPARED)]) == (NEW, False)
    assert decided(NEW, [gang(OLD, OLD)], [pod(UNPREPARED)]) == (OLD, False)


def test_pods_of_an_unknown_group_decide_nothing() -> None:
    other = {"labels": {"pod-group.scheduling.sigs.k8s.io": "mine"}}
    assert decided(NEW, [], [pod(other)]) == (NEW, False)


def test_a_gang_without_a_known_scheduler_is_named_by_its_objects() -> None:
    assert decided(NEW, [gang(OLD, OLD)], unread, prepared=None) == (OLD, False)
    assert decided(NEW, [], unread, prepared=None) == (NEW, False)


def test_pods_that_cannot_be_prepared_yet_decide_nothing() -> None:
    def unknown(_: GangPod, __: str) -> PodChanges:
        raise FactsUnavailable("discovery has failed")

    assert decided(NEW, [], [pod(KOORDINATOR)], prepared=unknown) == (NEW, False)


@pytest.mark.parametrize("holders", [[], [gang(OLD, OLD)]])
def test_nothing_is_decided_in_doubt_before_the_pods_are_read(holders: list[LivingGang]) -> None:
    with pytest.raises(FactsUnavailable, match="not read yet"):
        decided(NEW, holders, unread)


def scaling(minimum: int) -> PodCliqueSet:
    group = {"name": "prefill", "cliqueNames": ["worker"], "replicas": 4, "minAvailable": minimum}
    return PodCliqueSet({"metadata": {"name": "demo"}, "spec": {"template": {"podCliqueScalingGroups": [group]}}})


@pytest.mark.parametrize(
    ("minimum", "index", "expected"),
    [
        # Grove up to v0.1.0-alpha.11 counted the scaled gangs from 0, beginning after the minimum.
        (1, 2, "demo-0-prefill-1"),
        (2, 2, "demo-0-prefill-0"),
        (3, 2, "demo-0"),
    ],
)
def test_the_pods_of_a_scaled_gang_are_found_in_the_gang_of_the_earlier_name(
    minimum: int, index: int, expected: str
) -> None:
    clique = f"demo-0-prefill-{index}-worker"
    groups = {"demo-0": clique, "demo-0-prefill-0": f"demo-0-prefill-0-{clique}"}
    prefixed = groups.get(expected, f"{expected}-{clique}")
    has = {"labels": {"pod-group.scheduling.sigs.k8s.io": prefixed}}
    found = pod(has, clique=clique, group="demo-0-prefill", index=str(index))
    assert decided(SCALED, [], [found], workload=scaling(minimum), clique=clique) == (expected, True)


def test_without_its_podcliqueset_a_scaled_gang_has_no_earlier_name() -> None:
    clique = "demo-0-prefill-2-worker"
    has = {"labels": {"pod-group.scheduling.sigs.k8s.io": f"demo-0-prefill-1-{clique}"}}
    assert decided(SCALED, [], [pod(has, clique=clique, group="demo-0-prefill", index="2")], clique=clique) == (
        SCALED,
        False,
    )


def test_the_map_of_a_podgang_is_that_of_its_replica() -> None:
    known = PodGangMap("demo-0", ())
    found = gang_of(PodGang(podgang(NEW)), NameEvidence((), list, None, NO_FACTS, lambda: None))
    here, elsewhere = (ClusterFacts(pod_gang_maps={(namespace, "demo-0"): known}) for namespace in ("team-a", "team-b"))
    assert here.pod_gang_map(found.namespace, found.labels) is known
    assert elsewhere.pod_gang_map(found.namespace, found.labels) is None
    assert NO_FACTS.pod_gang_map(found.namespace, found.labels) is None
