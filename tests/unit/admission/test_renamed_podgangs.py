"""A pod that Grove replaces after it renamed the PodGang joins the gang that its living siblings are in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import gang_pod, request, settings_of
from webhook import admission
from webhook.backends.kai.keys import POD_GROUP as KAI
from webhook.backends.volcano.keys import POD_GROUP as VOLCANO
from webhook.errors import FactsUnavailable
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import GangObjects, LivingGang
from webhook.model.keys import Api, Record
from webhook.model.pod_gang_map import POD_GANG_MAPS, PodGangEntry, PodGangMap

OLD, NEW, OTHER = "demo-0", "demo-0-1795344276589742021", "demo-0-1795344276589742999"
HEAD = Api("example.com", "v1", "PodGroup")
MEMBER = ("demo-0-worker",)
LIVING = LivingGang(OLD, OLD, MEMBER, moved=True)

# By scheduler: where its pods name the group, the name in the gang demo-0, and in a gang of the PodGang's name.
PLACES: dict[str, tuple[str, dict[str, Any], tuple[str, ...], Any, Any]] = {
    "koordinator": (
        "koord-scheduler",
        {},
        ("metadata", "labels", "pod-group.scheduling.sigs.k8s.io"),
        "demo-0-worker",
        "demo-0-1795344276589742021-demo-0-worker",
    ),
    "KAI": (
        "kai-scheduler",
        {"defaultQueue": "team-a"},
        ("metadata", "annotations", "pod-group-name"),
        "demo-0-8aaf2c3d",
        "demo-0-1795344276589742021-e92fde96",
    ),
    "Volcano": (
        "volcano",
        {},
        ("metadata", "annotations", "scheduling.k8s.io/group-name"),
        "demo-0",
        "demo-0-1795344276589742021",
    ),
    "kube-scheduler 1.36": (
        "default-scheduler",
        {"gangScheduling": True, "apiGeneration": "v1alpha2"},
        ("spec", "schedulingGroup", "podGroupName"),
        "demo-0",
        "demo-0-1795344276589742021",
    ),
}


def pod_gang_map(*epochs: str) -> PodGangMap:
    return PodGangMap("demo-0", tuple(PodGangEntry("Anchor", epoch, frozenset({"worker"}), {}, ()) for epoch in epochs))


def group_of(
    place: tuple[str, ...],
    scheduler: str,
    config: dict[str, Any],
    *gangs: LivingGang,
    known: PodGangMap | None,
    namespace: str = "default",
) -> Any:
    """The group that a pod of the PodGang NEW names once it is prepared."""
    objects = GangObjects({(HEAD, namespace, f"object-{at}"): gang for at, gang in enumerate(gangs)})
    facts = ClusterFacts(
        pod_clique_sets={("default", "demo"): Record(scheduler)},
        pod_gang_maps={} if known is None else {("default", "demo-0"): known},
        gang_objects=objects,
        namespaces={},
        elastic_quotas={},
        priority_classes={},
        apis=frozenset(),
    )
    labels = {"grove.io/podgang": NEW, "grove.io/podcliqueset-replica-index": "0"}
    asked = request(gang_pod(labels=labels))
    verdict = admission.mutate(asked, facts, settings_of(scheduler, config, standalone=False, gate=False))
    assert verdict.allowed
    found: Any = asked.object
    for step in place:
        found = found[step]
    return found


@pytest.mark.parametrize(("scheduler", "config", "place", "old", "new"), PLACES.values(), ids=PLACES)
def test_a_pod_of_a_renamed_podgang_is_prepared_for_its_living_gang(
    scheduler: str, config: dict[str, Any], place: tuple[str, ...], old: str, new: str
) -> None:
    known = pod_gang_map("1795344276589742021")
    assert group_of(place, scheduler, config, LIVING, known=known) == old
    assert group_of(place, scheduler, config, LIVING._replace(podgang=NEW), known=known) == old
    assert group_of(place, scheduler, config, LIVING, known=None) == old
    assert group_of(place, scheduler, config, known=known) == new


@pytest.mark.parametrize(("scheduler", "config", "place", "old", "new"), PLACES.values(), ids=PLACES)
def test_a_pod_does_not_join_the_gang_of_another_podgang_that_its_map_still_has(
    scheduler: str, config: dict[str, Any], place: tuple[str, ...], old: str, new: str
) -> None:
    other = LivingGang(OTHER, OTHER, MEMBER, moved=True)
    both = pod_gang_map("1795344276589742021", "1795344276589742999")
    assert group_of(place, scheduler, config, other, known=both) == new
    # Its own is preferred, also if the other one was made first.
    own = LivingGang(OLD, NEW, MEMBER, moved=True)
    assert group_of(place, scheduler, config, other, own, known=both) == old


@pytest.mark.parametrize(("scheduler", "config", "place", "old", "new"), PLACES.values(), ids=PLACES)
def test_gangs_of_other_namespaces_and_other_podcliques_do_not_count(
    scheduler: str, config: dict[str, Any], place: tuple[str, ...], old: str, new: str
) -> None:
    known = pod_gang_map("1795344276589742021")
    assert old != new
    assert group_of(place, scheduler, config, LIVING, known=known, namespace="team-b") == new
    assert group_of(place, scheduler, config, LIVING._replace(members=("demo-0-a",)), known=known) == new


def test_no_pod_is_prepared_while_the_gang_objects_of_its_scheduler_are_not_read() -> None:
    facts = ClusterFacts(
        pod_clique_sets={("default", "demo"): Record("volcano")},
        gang_objects=GangObjects(),
        unread_gang_kinds=frozenset({VOLCANO}),
        namespaces={},
        apis=frozenset({VOLCANO}),
    )
    asked = request(gang_pod(labels={"grove.io/podgang": NEW}))
    with pytest.raises(FactsUnavailable, match="the PodGroup objects are not read"):
        admission.mutate(asked, facts, settings_of("volcano", standalone=False))
    others = replace(facts, unread_gang_kinds=frozenset({KAI}))
    assert admission.mutate(asked, others, settings_of("volcano", standalone=False)).scheduler == "volcano"


def test_a_pod_with_living_siblings_is_not_prepared_while_the_podgangmaps_are_not_read() -> None:
    """They say whether the gang of the siblings is that of another PodGang."""
    maps = POD_GANG_MAPS.resource.api
    facts = ClusterFacts(
        pod_clique_sets={("default", "demo"): Record("volcano")},
        gang_objects=GangObjects({(VOLCANO, "default", "demo-0"): LIVING}),
        namespaces={},
        apis=frozenset({VOLCANO, maps}),
    )
    asked = request(gang_pod(labels={"grove.io/podgang": NEW, "grove.io/podcliqueset-replica-index": "0"}))
    with pytest.raises(FactsUnavailable, match="PodGangMaps"):
        admission.mutate(asked, facts, settings_of("volcano", standalone=False))
    alone = replace(facts, gang_objects=GangObjects())
    assert admission.mutate(asked, alone, settings_of("volcano", standalone=False)).scheduler == "volcano"


def test_unknown_gang_objects_leave_the_pod_in_the_gang_of_its_podgang() -> None:
    facts = ClusterFacts(pod_clique_sets={("default", "demo"): Record("volcano")}, namespaces={}, apis=frozenset())
    asked = request(gang_pod(labels={"grove.io/podgang": NEW}))
    admission.mutate(asked, facts, settings_of("volcano", standalone=False))
    assert asked.object is not None
    assert asked.object["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == NEW
