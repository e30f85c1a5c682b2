"""Changes of existing gangs, by API version: the set before and after, and the objects for both, written by hand. The
table also says whether the API server allows the change; a test verifies that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.e2e.broken_objects import (
    APART,
    AS_IT_IS,
    branch,
    composite,
    entry,
    every,
    leaf,
    least,
    near,
    of,
    of_1_36,
    pod_group,
    tree,
    workload,
)
from tests.e2e.control_plane import Manifest
from tests.e2e.given_gangs import RACK, ZONE
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group

Objects = tuple[Manifest, ...]


class Changed(NamedTuple):
    """One change. The objects are those of the base gang."""

    old: Manifest
    new: Manifest
    before: Objects
    after: Objects
    refused: bool
    config: Mapping[str, object] = AS_IT_IS


def pair(leader: int = 1, worker: int = 3, **template: Any) -> Manifest:
    """Two cliques that need all their pods."""
    return pod_clique_set(clique("leader", replicas=leader), clique("worker", replicas=worker), **template)


def one(minimum: int, replicas: int = 4) -> Manifest:
    """One clique, with pods to spare."""
    return pod_clique_set(clique("worker", replicas=replicas, minimum=minimum))


def scaled(replicas: int, minimum: int = 1, **group: object) -> Manifest:
    """A scaling group of two cliques beside a frontend."""
    cliques = (clique("frontend", replicas=1), clique("leader", replicas=1), clique("worker", replicas=2))
    groups = [scaling_group("g", "leader", "worker", replicas=replicas, minAvailable=minimum, **group)]
    return pod_clique_set(*cliques, groups=groups)


WIDER = pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=3), clique("helper", replicas=1))
CLASSED = pair(priorityClassName="high")
IN_A_RACK, IN_A_ZONE = (pair(topologyConstraint=required(domain)) for domain in ("rack", "zone"))
RACKED_GROUP = scaled(2, topologyConstraint=required("rack"))


def flat_1_35(minimum: int) -> Objects:
    """A merged gang of 1.35."""
    return (workload(podGroups=[entry("gang", minimum)]),)


def flat_1_36(minimum: int) -> Objects:
    """A merged gang of 1.36."""
    group = pod_group(**of_1_36("gang"), schedulingPolicy=least(minimum))
    return workload(podGroupTemplates=[leaf("gang", minimum)]), group


def flat_1_37(minimum: int, **shared: object) -> Objects:
    """A merged gang of 1.37, which is not needed with trees."""
    group = pod_group(**of("gang"), schedulingPolicy=least(minimum), **shared)
    return workload(podGroupTemplates=[leaf("gang", minimum, **shared)]), group


def apart_1_35(**minimums: int) -> Objects:
    """A gang of each clique, in 1.35."""
    return (workload(podGroups=[entry(name, minimum) for name, minimum in minimums.items()]),)


def apart_1_36(**minimums: int) -> Objects:
    """The same in 1.36."""
    groups = (pod_group(name, **of_1_36(name), schedulingPolicy=least(count)) for name, count in minimums.items())
    return workload(podGroupTemplates=[leaf(name, count) for name, count in minimums.items()]), *groups


def apart_1_37(**minimums: int) -> Objects:
    """The same in 1.37."""
    groups = (pod_group(name, **of(name), schedulingPolicy=least(count)) for name, count in minimums.items())
    return workload(podGroupTemplates=[leaf(name, count) for name, count in minimums.items()]), *groups


def root(topology: Manifest | None = None, /, shared: Manifest | None = None, **minimums: Any) -> Objects:
    """A tree of 1.37 with all cliques below its root."""
    more = {**(topology or {}), **(shared or {})}
    leaves = [leaf(name, count, **(shared or {})) for name, count in minimums.items()]
    groups = (
        pod_group(
            name, parentCompositePodGroupName="naive-0", **of(name), schedulingPolicy=least(count), **(shared or {})
        )
        for name, count in minimums.items()
    )
    top = composite(**of("root"), schedulingPolicy=every(len(leaves)), **more)
    return tree(len(leaves), podGroupTemplates=leaves, **more), top, *groups


GROUP_OF_TWO = root(frontend=1, leader=1, worker=2)
GROUP_IN_A_RACK: Objects = (
    tree(
        2,
        podGroupTemplates=[leaf("frontend")],
        compositePodGroupTemplates=[
            branch("g-0", 2, podGroupTemplates=[leaf("leader"), leaf("worker", 2)], **near(RACK)),
        ],
    ),
    composite(**of("root"), schedulingPolicy=every(2)),
    composite(
        "naive-0-g-0", parentCompositePodGroupName="naive-0", **of("g-0"), schedulingPolicy=every(2), **near(RACK)
    ),
)

OF_1_35: dict[str, Changed] = {
    "a minimum": Changed(one(2), one(3), flat_1_35(2), flat_1_35(3), True),
    "more pods than the minimum": Changed(one(2), one(2, 8), flat_1_35(2), flat_1_35(2), False),
    "a clique more": Changed(pair(), WIDER, flat_1_35(4), flat_1_35(5), True),
    "a clique less": Changed(WIDER, pair(), flat_1_35(5), flat_1_35(4), True),
    "a clique for another": Changed(
        WIDER,
        pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=3), clique("guest", replicas=1)),
        flat_1_35(5),
        flat_1_35(5),
        False,
    ),
    "minimums of the same sum": Changed(pair(1, 3), pair(2, 2), flat_1_35(4), flat_1_35(4), False),
    "minimums of the same sum, each a gang": Changed(
        pair(1, 3), pair(2, 2), apart_1_35(leader=1, worker=3), apart_1_35(leader=2, worker=2), True, APART
    ),
    "a clique more, each a gang": Changed(
        pair(), WIDER, apart_1_35(leader=1, worker=3), apart_1_35(leader=1, worker=3, helper=1), True, APART
    ),
    "a priority class": Changed(pair(), CLASSED, flat_1_35(4), flat_1_35(4), False),
    # What has topology was never written, and the way out of that is to remove it.
    "topology that goes": Changed(IN_A_RACK, pair(), (), flat_1_35(4), False),
    "more replicas of a scaling group": Changed(scaled(1), scaled(3), flat_1_35(4), flat_1_35(4), False),
    "more replicas of a scaling group at once": Changed(scaled(2), scaled(3, 2), flat_1_35(4), flat_1_35(7), True),
}
OF_1_36: dict[str, Changed] = {
    name: change._replace(
        before=flat_1_36(before) if before else (), after=flat_1_36(after), old=change.old, new=change.new
    )
    for name, (before, after) in {
        "a minimum": (2, 3),
        "more pods than the minimum": (2, 2),
        "a clique more": (4, 5),
        "a clique less": (5, 4),
        "a clique for another": (5, 5),
        "minimums of the same sum": (4, 4),
        "a priority class": (4, 4),
        "topology that goes": (0, 4),
        "more replicas of a scaling group": (4, 4),
        "more replicas of a scaling group at once": (4, 7),
    }.items()
    for change in (OF_1_35[name],)
} | {
    "minimums of the same sum, each a gang": OF_1_35["minimums of the same sum, each a gang"]._replace(
        before=apart_1_36(leader=1, worker=3), after=apart_1_36(leader=2, worker=2)
    ),
    "a clique more, each a gang": OF_1_35["a clique more, each a gang"]._replace(
        before=apart_1_36(leader=1, worker=3), after=apart_1_36(leader=1, worker=3, helper=1)
    ),
}
_MERGED = {"hierarchical": "off"}
OF_1_37: dict[str, Changed] = {
    "a minimum": Changed(one(2), one(3), root(worker=2), root(worker=3), False),
    "a minimum that is lower": Changed(one(3), one(2), root(worker=3), root(worker=2), False),
    "more pods than the minimum": Changed(one(2), one(2, 8), root(worker=2), root(worker=2), False),
    "a clique more": Changed(pair(), WIDER, root(leader=1, worker=3), root(leader=1, worker=3, helper=1), True),
    "a clique less": Changed(WIDER, pair(), root(leader=1, worker=3, helper=1), root(leader=1, worker=3), True),
    "topology that comes": Changed(
        pair(), IN_A_RACK, root(leader=1, worker=3), root(near(RACK), leader=1, worker=3), True
    ),
    "topology that goes": Changed(
        IN_A_RACK, pair(), root(near(RACK), leader=1, worker=3), root(leader=1, worker=3), True
    ),
    "topology of another level": Changed(
        IN_A_RACK, IN_A_ZONE, root(near(RACK), leader=1, worker=3), root(near(ZONE), leader=1, worker=3), True
    ),
    "topology of a scaling group": Changed(scaled(2), RACKED_GROUP, GROUP_OF_TWO, GROUP_IN_A_RACK, True),
    "a priority class": Changed(
        pair(),
        CLASSED,
        root(leader=1, worker=3),
        root(shared={"priorityClassName": "high"}, leader=1, worker=3),
        True,
    ),
    "more replicas of a scaling group": Changed(scaled(1), scaled(3), GROUP_OF_TWO, GROUP_OF_TWO, False),
    "more replicas of a scaling group at once": Changed(
        scaled(2),
        scaled(3, 2),
        GROUP_OF_TWO,
        root(frontend=1, leader=1, worker=2, other=3),
        True,
    ),
    "a minimum, merged": Changed(one(2), one(3), flat_1_37(2), flat_1_37(3), False, _MERGED),
    "a clique more, merged": Changed(pair(), WIDER, flat_1_37(4), flat_1_37(5), False, _MERGED),
    "more replicas of a scaling group at once, merged": Changed(
        scaled(2), scaled(3, 2), flat_1_37(4), flat_1_37(7), False, _MERGED
    ),
    "a priority class, merged": Changed(
        pair(), CLASSED, flat_1_37(4), flat_1_37(4, priorityClassName="high"), True, _MERGED
    ),
    "topology that goes, merged": Changed(IN_A_RACK, pair(), (), flat_1_37(4), False, _MERGED),
    "a minimum, each a gang": Changed(
        pair(1, 3), pair(2, 2), apart_1_37(leader=1, worker=3), apart_1_37(leader=2, worker=2), False, APART
    ),
    "a clique more, each a gang": Changed(
        pair(), WIDER, apart_1_37(leader=1, worker=3), apart_1_37(leader=1, worker=3, helper=1), True, APART
    ),
}

CHANGED: dict[str, dict[str, Changed]] = {"1.35": OF_1_35, "1.36": OF_1_36, "1.37": OF_1_37}
