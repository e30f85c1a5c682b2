"""Which changes of a gang with pods each scheduler follows, and up to which stage: the shape before and after, and the
verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import pytest

from tests.unit.backends.pod_gangs import asks, member, podgang
from tests.unit.worlds import settings_of
from webhook.backends.base import Backend
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.gang_objects import Stage
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import EMPTY, Manifest

V1ALPHA1 = ClusterFacts(apis=frozenset({Api("scheduling.k8s.io", "v1alpha1", "Workload")}))
V1ALPHA2 = ClusterFacts(apis=frozenset(Api("scheduling.k8s.io", "v1alpha2", kind) for kind in ("Workload", "PodGroup")))
V1BETA1 = ClusterFacts(apis=frozenset(Api("scheduling.k8s.io", "v1beta1", kind) for kind in ("Workload", "PodGroup")))
TREE = ClusterFacts(apis=(V1BETA1.apis or frozenset()) | {Api("scheduling.k8s.io", "v1alpha3", "CompositePodGroup")})
BETA_TREE = ClusterFacts(
    apis=(V1BETA1.apis or frozenset()) | {Api("scheduling.k8s.io", "v1beta1", "CompositePodGroup")}
)
APART = {"flat": "allow"}

LEAD, WORK, MORE_WORK = member("demo-0-lead", 1, 1), member("demo-0-w", 2, 2), member("demo-0-w", 3, 3)
HELP = member("demo-0-help", 1, 1)
PLAIN = podgang(LEAD, WORK)
RAISED = podgang(LEAD, MORE_WORK)
WIDER = podgang(LEAD, WORK, HELP)
OTHER_WAY_ROUND = podgang(WORK, LEAD)
RACKED = podgang(LEAD, WORK, **asks("example.com/rack"))
OTHERS = podgang(HELP)


class Case(NamedTuple):
    """A change of a gang's shape. Nothing is `said` where it may be written at any stage."""

    before: PodGang
    after: PodGang
    said: str = ""
    until: Stage = Stage.BOUND
    # What is recreated, as `Kind name`.
    recreated: tuple[str, ...] = ()
    facts: ClusterFacts = NO_FACTS
    config: Mapping[str, Any] = EMPTY
    classes: tuple[str | None, str | None] = (None, None)


WORKLOAD, ROOT, GROUPS = (
    "Workload demo-0",
    "CompositePodGroup demo-0.composite",
    ("PodGroup demo-0-lead", "PodGroup demo-0-w"),
)
SUM = "the minimum of the whole gang goes from 3 to 4"
MORE = "the minimum of demo-0-w goes from 2 to 3"
NEW, GONE = "demo-0-help is new", "demo-0-help is gone"

KUBE: dict[str, Case] = {
    "1.35: a minimum, merged": Case(PLAIN, RAISED, SUM, Stage.WAITING, (WORKLOAD,), V1ALPHA1),
    "1.35: a member more, merged": Case(PLAIN, WIDER, SUM, Stage.WAITING, (WORKLOAD,), V1ALPHA1),
    "1.35: a member more, each a gang": Case(PLAIN, WIDER, NEW, Stage.WAITING, (WORKLOAD,), V1ALPHA1, APART),
    "1.35: a member less, each a gang": Case(WIDER, PLAIN, GONE, Stage.WAITING, (WORKLOAD,), V1ALPHA1, APART),
    "1.35: none of the members, each a gang": Case(
        PLAIN,
        OTHERS,
        "demo-0-help is new; demo-0-lead is gone; demo-0-w is gone",
        Stage.EMPTY,
        (WORKLOAD,),
        V1ALPHA1,
        APART,
    ),
    "1.35: a priority class": Case(PLAIN, PLAIN, facts=V1ALPHA1, classes=(None, "high")),
    "1.35: the order": Case(PLAIN, OTHER_WAY_ROUND, facts=V1ALPHA1, config=APART),
    "1.36: a minimum, merged": Case(PLAIN, RAISED, SUM, Stage.EMPTY, (WORKLOAD, "PodGroup demo-0"), V1ALPHA2),
    "1.36: a minimum, each a gang": Case(
        PLAIN, RAISED, MORE, Stage.EMPTY, (WORKLOAD, "PodGroup demo-0-w"), V1ALPHA2, APART
    ),
    "1.36: a member more, each a gang": Case(PLAIN, WIDER, NEW, Stage.WAITING, (WORKLOAD,), V1ALPHA2, APART),
    "1.36: the order": Case(PLAIN, OTHER_WAY_ROUND, facts=V1ALPHA2, config=APART),
    "1.37, flat: a minimum": Case(PLAIN, RAISED, facts=V1BETA1),
    "1.37, flat: a member more": Case(PLAIN, WIDER, facts=V1BETA1),
    "1.37, flat: a priority class": Case(
        PLAIN,
        PLAIN,
        "the priority class goes from none to high",
        Stage.EMPTY,
        (WORKLOAD, "PodGroup demo-0"),
        V1BETA1,
        classes=(None, "high"),
    ),
    "1.37: a minimum": Case(PLAIN, RAISED, facts=TREE),
    "1.37: a lower minimum": Case(RAISED, PLAIN, facts=TREE),
    "1.37: the order": Case(PLAIN, OTHER_WAY_ROUND, facts=TREE),
    "1.37: a member more": Case(PLAIN, WIDER, NEW, Stage.WAITING, (WORKLOAD, ROOT), TREE),
    "1.37: a member less": Case(WIDER, PLAIN, GONE, Stage.WAITING, (WORKLOAD, ROOT), TREE),
    "1.38: a member more": Case(PLAIN, WIDER, NEW, Stage.BOUND, (WORKLOAD,), BETA_TREE),
    "1.38: a member less": Case(WIDER, PLAIN, GONE, Stage.BOUND, (WORKLOAD,), BETA_TREE),
    "1.38: a minimum": Case(PLAIN, RAISED, facts=BETA_TREE),
    "1.38: none of the members": Case(
        PLAIN,
        OTHERS,
        "demo-0-help is new; demo-0-lead is gone; demo-0-w is gone",
        Stage.EMPTY,
        (WORKLOAD,),
        BETA_TREE,
    ),
    "1.38: a member more, and topology of the whole": Case(
        PLAIN,
        podgang(LEAD, WORK, HELP, **asks("example.com/rack")),
        f"{NEW}; the topology of the whole gang goes from none to example.com/rack",
        Stage.WAITING,
        (WORKLOAD, ROOT),
        BETA_TREE,
    ),
    "1.37: topology of the whole": Case(
        PLAIN,
        RACKED,
        "the topology of the whole gang goes from none to example.com/rack",
        Stage.WAITING,
        (WORKLOAD, ROOT),
        TREE,
    ),
    "1.37: topology of a member": Case(
        PLAIN,
        podgang(LEAD, member("demo-0-w", 2, 2, **asks("example.com/rack"))),
        "the topology of demo-0-w goes from none to example.com/rack",
        Stage.EMPTY,
        (WORKLOAD, "PodGroup demo-0-w"),
        TREE,
    ),
    "1.37: members that are grouped": Case(
        PLAIN,
        podgang(
            LEAD,
            WORK,
            topologyConstraintGroupConfigs=[{"name": "g-0", "podGroupNames": ["demo-0-w"], **asks("example.com/rack")}],
        ),
        "g-0 is new; the group of demo-0-w goes from the whole gang to g-0",
        Stage.EMPTY,
        (WORKLOAD, "PodGroup demo-0-w"),
        TREE,
    ),
    "1.37: a priority class": Case(
        PLAIN,
        PLAIN,
        "the priority class goes from low to none",
        Stage.EMPTY,
        (WORKLOAD, ROOT, *GROUPS),
        TREE,
        classes=("low", None),
    ),
    "1.37: released": Case(PLAIN, podgang(member("demo-0-lead", 0, 1), member("demo-0-w", 0, 2)), facts=TREE),
}
KOORDINATOR: dict[str, Case] = {
    "a minimum": Case(PLAIN, RAISED),
    "the order": Case(PLAIN, OTHER_WAY_ROUND),
    "a member more": Case(PLAIN, WIDER, NEW, Stage.EMPTY, GROUPS),
    "a member less": Case(WIDER, PLAIN, GONE, Stage.EMPTY, (*GROUPS, "PodGroup demo-0-help")),
    "none of the members": Case(
        PLAIN, OTHERS, "demo-0-help is new; demo-0-lead is gone; demo-0-w is gone", Stage.EMPTY, GROUPS
    ),
}
KAI: dict[str, Case] = {
    "a raised minimum": Case(PLAIN, RAISED, MORE, Stage.WAITING),
    "a lower minimum": Case(RAISED, PLAIN),
    "a member more": Case(PLAIN, WIDER, "the minimum of demo-0-help goes from 0 to 1", Stage.WAITING),
    "a member less": Case(WIDER, PLAIN),
    "the order": Case(PLAIN, OTHER_WAY_ROUND),
    "released": Case(PLAIN, podgang(member("demo-0-lead", 0, 1), member("demo-0-w", 0, 2))),
    "a priority class": Case(PLAIN, PLAIN, classes=(None, "high")),
}
VOLCANO: dict[str, Case] = {
    "a raised minimum": Case(PLAIN, RAISED),
    "a member more": Case(PLAIN, WIDER),
    "a priority class": Case(PLAIN, PLAIN, classes=(None, "high")),
}
COSCHEDULING: dict[str, Case] = {
    "a raised minimum": Case(PLAIN, RAISED),
    "a member more": Case(PLAIN, WIDER),
}
SCHEDULERS = {
    "default-scheduler": KUBE,
    "koord-scheduler": KOORDINATOR,
    "kai-scheduler": KAI,
    "volcano": VOLCANO,
    "scheduler-plugins-scheduler": COSCHEDULING,
}
CASES = [
    pytest.param(scheduler, case, id=f"{scheduler}, {name}")
    for scheduler, table in SCHEDULERS.items()
    for name, case in table.items()
]
DEFAULTS: dict[str, dict[str, Any]] = {
    "default-scheduler": {"gangScheduling": True},
    "kai-scheduler": {"defaultQueue": "team-a"},
}


def of(scheduler: str, case: Case) -> Backend[Any]:
    config = {**DEFAULTS.get(scheduler, {}), **case.config}
    return settings_of(scheduler, config).profiles[scheduler].backend


def written(backend: Backend[Any], gang: PodGang, case: Case, live: list[Manifest], name: str | None) -> list[Manifest]:
    there = {(found["kind"], found["metadata"]["name"]): found for found in live}
    desired = backend.gang_objects(gang, Record(backend.name, priority_class=name), case.facts)
    return [backend.adopt(found, there.get((found["kind"], found["metadata"]["name"]))) for found in desired]


def titles(objects: Any) -> tuple[str, ...]:
    return tuple(f"{found['kind']} {found['metadata']['name']}" for found in objects)


@pytest.mark.parametrize(("scheduler", "case"), CASES)
def test_a_change_of_a_gang_with_pods_is_applied_or_frozen(scheduler: str, case: Case) -> None:
    backend = of(scheduler, case)
    before, now = case.classes
    live = written(backend, case.before, case, [], before)
    desired = written(backend, case.after, case, live, now)
    asked = deepcopy((desired, live))
    frozen = backend.frozen(desired, live)
    assert (desired, live) == asked
    if not case.said:
        assert frozen is None
        return
    assert frozen is not None
    assert (frozen.what, frozen.until, titles(frozen.recreated)) == (case.said, case.until, case.recreated)
    # When those are gone, nothing is left that could not be written.
    rest = [found for found in live if found not in frozen.recreated]
    assert not frozen.recreated or backend.frozen(desired, rest) is None


@pytest.mark.parametrize(("scheduler", "case"), CASES)
def test_a_half_written_gang_does_not_count_as_a_change(scheduler: str, case: Case) -> None:
    backend = of(scheduler, case)
    whole = written(backend, case.after, case, [], None)
    for there in range(len(whole) + 1):
        assert backend.frozen(whole, whole[:there]) is None
        assert backend.frozen(whole, whole[there:]) is None


def test_foreign_edits_are_reverted_except_a_minimum_that_would_evict_pods() -> None:
    case = Case(PLAIN, PLAIN)
    koordinator, kai = of("koord-scheduler", case), of("kai-scheduler", case)
    live = written(koordinator, PLAIN, case, [], None)
    edited = deepcopy(live)
    edited[0]["metadata"]["annotations"]["gang.scheduling.koordinator.sh/groups"] = "[broken"
    edited[1]["spec"]["minMember"] = 1
    assert koordinator.frozen(live, edited) is None
    live = written(kai, PLAIN, case, [], None)
    edited = deepcopy(live)
    edited[0]["spec"]["subGroups"][1]["minMember"] = 1
    frozen = kai.frozen(live, edited)
    assert frozen is not None
    assert (frozen.what, frozen.until) == ("the minimum of demo-0-w goes from 1 to 2", Stage.WAITING)


def test_the_form_of_gang_objects_changes_only_without_pods() -> None:
    """Pods have the name of the group that they were prepared for."""
    case = Case(PLAIN, PLAIN, facts=TREE)
    flat, tree = of("default-scheduler", case._replace(config={"hierarchical": "off"})), of("default-scheduler", case)
    live = written(flat, PLAIN, case, [], None)
    frozen = tree.frozen(written(tree, PLAIN, case, live, None), live)
    assert frozen is not None
    assert (frozen.until, titles(frozen.recreated)) == (Stage.EMPTY, (WORKLOAD,))
