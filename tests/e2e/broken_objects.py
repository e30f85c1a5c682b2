"""Workload API objects as a naive translation would write them, for each API version, with their workloads. The API
server refuses each; the table also has the finding of our rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.given_gangs import RACK, group, member, podgang
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

APART: Mapping[str, object] = MappingProxyType({"flat": "allow", "hierarchical": "off"})
AS_IT_IS: Mapping[str, object] = MappingProxyType({})

INVALID, UNKNOWN_FIELD, FORBIDDEN = 422, 400, 403


class Broken(NamedTuple):
    """What the API server refuses, with that code and those words; `needs` must be there before.

    `rule` refuses the workload, None where it is fine. `translation` is the rule by which its PodGang is not
    translated, None where it is, to something that the API server accepts.
    """

    objects: tuple[Manifest, ...]
    says: str
    code: int = INVALID
    workload: Manifest | None = None
    gang: Manifest | None = None
    rule: str | None = None
    translation: str | None = None
    config: Mapping[str, object] = AS_IT_IS
    needs: tuple[Manifest, ...] = ()


def workload(**spec: object) -> Manifest:
    """A Workload; the test says in which version and where."""
    return {"kind": "Workload", "metadata": {"name": "naive-0"}, "spec": spec}


def pod_group(name: str = "naive-0", /, **spec: object) -> Manifest:
    """A PodGroup."""
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def composite(name: str = "naive-0", /, **spec: object) -> Manifest:
    """A CompositePodGroup."""
    return {"kind": "CompositePodGroup", "metadata": {"name": name}, "spec": spec}


def least(count: int) -> Manifest:
    """The policy of a gang of pods."""
    return {"gang": {"minCount": count}}


def every(count: int) -> Manifest:
    """The policy of a gang of groups."""
    return {"gang": {"minGroupCount": count}}


def entry(name: str, count: int = 1, **fields: object) -> Manifest:
    """An entry of a Workload of 1.35."""
    return {"name": name, "policy": least(count), **fields}


def leaf(name: str, count: int = 1, **fields: object) -> Manifest:
    """A template of a PodGroup."""
    return {"name": name, "schedulingPolicy": least(count), **fields}


def branch(name: str, count: int, **fields: object) -> Manifest:
    """A template of a CompositePodGroup."""
    return {"name": name, "schedulingPolicy": every(count), **fields}


def tree(count: int, **fields: object) -> Manifest:
    """A Workload of one tree."""
    return workload(compositePodGroupTemplates=[branch("root", count, **fields)])


def near(*keys: str) -> Manifest:
    """Topology by these node labels."""
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def of(template: str) -> Manifest:
    """The reference of an object to its template, as 1.37 has it."""
    return {"workloadRef": {"workloadName": "naive-0", "templateName": template}}


def of_1_36(template: str) -> Manifest:
    """The same, as 1.36 has it."""
    return {"podGroupTemplateRef": {"workload": {"workloadName": "naive-0", "podGroupTemplateName": template}}}


NINE = [f"c{index}" for index in range(9)]
NINE_CLIQUES = pod_clique_set(*(clique(name, replicas=1) for name in NINE))
NINE_MEMBERS = podgang("demo-0", *(member(f"demo-0-{name}") for name in NINE))
NONE_NEEDED = pod_clique_set(clique("worker", replicas=2, minimum=0))
RELEASED = podgang("demo-0", member("demo-0-worker", 0))
DOTTED = {**pod_clique_set(clique("worker")), "metadata": {"name": "team.a", "namespace": "default"}}
DOTTED_GANG = podgang("team.a-0", member("team.a-0-worker", 2))
LONG_CLIQUE = "w" * 57
LONG = pod_clique_set(clique(LONG_CLIQUE))
LONG_GANG = podgang("demo-0", member(f"demo-0-{LONG_CLIQUE}", 2))
IN_A_RACK = pod_clique_set(topologyConstraint=required("rack"))
IN_A_RACK_GANG = podgang(
    "demo-0", member("demo-0-worker", 2), topologyConstraint={"packConstraint": {"required": RACK}}
)
PREFERRING = pod_clique_set(
    topologyConstraint={"topologyName": "dc", "pack": {"required": "zone", "preferred": "rack"}}
)
ONLY_PREFERRING = pod_clique_set(topologyConstraint=preferred("rack"))
BOTH = {"packConstraint": {"required": "topology.kubernetes.io/zone", "preferred": RACK}}
PREFERRING_GANG = podgang("demo-0", member("demo-0-worker", 2), topologyConstraint=BOTH)
ONE_NEAR: dict[str, object] = {
    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone", "preferred": RACK}]}
}

OF_1_35: dict[str, Broken] = {
    "nine cliques in one list": Broken(
        (workload(podGroups=[entry(name) for name in NINE]),),
        "Too many: 9",
        workload=NINE_CLIQUES,
        gang=NINE_MEMBERS,
        rule="kube/too-many-groups",
        translation="kube/too-many-groups",
        config=APART,
    ),
    "a minimum of none": Broken(
        (workload(podGroups=[entry("demo-0-worker", 0)]),),
        "minCount",
        workload=NONE_NEEDED,
        gang=RELEASED,
        rule="grove/min-available",
    ),
    "a name with a dot": Broken(
        (workload(podGroups=[entry("team.a-0-worker")]),),
        "must not contain dots",
        workload=DOTTED,
        gang=DOTTED_GANG,
        config=APART,
    ),
    "a name of 64 characters": Broken(
        (workload(podGroups=[entry(f"demo-0-{LONG_CLIQUE}")]),),
        "must be no more than 63",
        workload=LONG,
        gang=LONG_GANG,
        rule="grove/name-length",
        config=APART,
    ),
    "topology": Broken(
        (workload(podGroups=[entry("demo-0-worker", 2, **near(RACK))]),),
        "unknown field",
        code=UNKNOWN_FIELD,
        workload=IN_A_RACK,
        gang=IN_A_RACK_GANG,
        rule="kube/topology",
        translation="kube/topology",
    ),
    "preferred topology": Broken(
        (workload(podGroups=[entry("demo-0-worker", 2, **ONE_NEAR)]),),
        "unknown field",
        code=UNKNOWN_FIELD,
        workload=ONLY_PREFERRING,
        gang=PREFERRING_GANG,
        rule="kube/preferred-topology",
        translation="kube/preferred-topology",
    ),
}

ONE_TEMPLATE = workload(podGroupTemplates=[leaf("demo-0-worker", 2)])
OF_BOTH_LATER: dict[str, Broken] = {
    "nine cliques in one list": OF_1_35["nine cliques in one list"]._replace(
        objects=(workload(podGroupTemplates=[leaf(name) for name in NINE]),)
    ),
    "a name with a dot": OF_1_35["a name with a dot"]._replace(
        objects=(workload(podGroupTemplates=[leaf("team.a-0-worker")]),)
    ),
    "a name of 64 characters": OF_1_35["a name of 64 characters"]._replace(
        objects=(workload(podGroupTemplates=[leaf(f"demo-0-{LONG_CLIQUE}")]),)
    ),
}
OF_1_36: dict[str, Broken] = OF_BOTH_LATER | {
    "a minimum of none": OF_1_35["a minimum of none"]._replace(
        objects=(
            workload(podGroupTemplates=[leaf("demo-0-worker", 0)]),
            pod_group(**of_1_36("demo-0-worker"), schedulingPolicy=least(0)),
        ),
    ),
    "preferred topology": OF_1_35["preferred topology"]._replace(
        objects=(
            workload(podGroupTemplates=[leaf("demo-0-worker", 2, **ONE_NEAR)]),
            pod_group(**of_1_36("demo-0-worker"), schedulingPolicy=least(2), **ONE_NEAR),
        ),
    ),
    "a group before its Workload": Broken(
        (pod_group(**of_1_36("demo-0-worker"), schedulingPolicy=least(2)),),
        'Workload "naive-0" not found',
        code=FORBIDDEN,
        workload=pod_clique_set(),
        gang=podgang("demo-0", member("demo-0-worker", 2)),
    ),
    "a group of a template that its Workload does not have": Broken(
        (pod_group(**of_1_36("demo-0-nobody"), schedulingPolicy=least(2)),),
        'PodGroupTemplate "demo-0-nobody" not found',
        code=FORBIDDEN,
        needs=(ONE_TEMPLATE,),
    ),
}

_RACKS = {"topologyConstraint": required("rack")}
_PAIR = (clique("leader", replicas=1), clique("worker"))
_NINE_REPLICAS = [f"demo-0-decode-{index}" for index in range(9)]
OF_1_37: dict[str, Broken] = OF_BOTH_LATER | {
    "a minimum of none": OF_1_35["a minimum of none"]._replace(
        objects=(
            tree(1, podGroupTemplates=[leaf("demo-0-worker", 0)]),
            pod_group(**of("demo-0-worker"), schedulingPolicy=least(0)),
        ),
    ),
    "nine cliques below the root": Broken(
        (tree(9, podGroupTemplates=[leaf(name) for name in NINE]),),
        "Too many: 9",
        workload=NINE_CLIQUES,
        gang=NINE_MEMBERS,
        rule="kube/too-many-groups",
        translation="kube/too-many-groups",
    ),
    "nine composites below the root": Broken(
        (
            tree(
                9,
                compositePodGroupTemplates=[
                    branch(name, 1, podGroupTemplates=[leaf(f"{name}-worker")]) for name in _NINE_REPLICAS
                ],
            ),
        ),
        "Too many: 9",
        workload=pod_clique_set(groups=[scaling_group("decode", "worker", replicas=9, minAvailable=9, **_RACKS)]),
        gang=podgang(
            "demo-0",
            *(member(f"{name}-worker", 2) for name in _NINE_REPLICAS),
            topologyConstraintGroupConfigs=[group(name, RACK, f"{name}-worker") for name in _NINE_REPLICAS],
        ),
        rule="kube/too-many-groups",
        translation="kube/too-many-groups",
    ),
    "nine cliques below a composite": Broken(
        (
            tree(
                1,
                compositePodGroupTemplates=[branch("demo-0-g-0", 9, podGroupTemplates=[leaf(name) for name in NINE])],
            ),
        ),
        "Too many: 9",
        workload=pod_clique_set(
            *(clique(name, replicas=1) for name in NINE), groups=[scaling_group("g", *NINE, **_RACKS)]
        ),
        gang=podgang(
            "demo-0",
            *(member(f"demo-0-g-0-{name}") for name in NINE),
            topologyConstraintGroupConfigs=[group("demo-0-g-0", RACK, *(f"demo-0-g-0-{name}" for name in NINE))],
        ),
        rule="kube/too-many-groups",
        translation="kube/too-many-groups",
    ),
    "two keys of topology": Broken(
        (
            tree(1, podGroupTemplates=[leaf("demo-0-worker", 2)], **near("topology.kubernetes.io/zone", RACK)),
            composite(**of("root"), schedulingPolicy=every(1), **near("topology.kubernetes.io/zone", RACK)),
            pod_group(**of("demo-0-worker"), schedulingPolicy=least(2), **near("topology.kubernetes.io/zone", RACK)),
        ),
        "Too many: 2",
        workload=PREFERRING,
        gang=PREFERRING_GANG,
        rule="kube/preferred-topology",
        translation="kube/preferred-topology",
    ),
    "preferred topology": OF_1_35["preferred topology"]._replace(
        objects=(
            tree(1, podGroupTemplates=[leaf("demo-0-worker", 2)], **ONE_NEAR),
            composite(**of("root"), schedulingPolicy=every(1), **ONE_NEAR),
        ),
    ),
    "a scaling group's replica called as a clique": Broken(
        (
            tree(
                2,
                podGroupTemplates=[leaf("demo-0-decode-0")],
                compositePodGroupTemplates=[
                    branch("demo-0-decode-0", 1, podGroupTemplates=[leaf("demo-0-decode-0-worker", 2)])
                ],
            ),
        ),
        "Duplicate value",
        workload=pod_clique_set(
            clique("decode-0", replicas=1), clique("worker"), groups=[scaling_group("decode", "worker", **_RACKS)]
        ),
        gang=podgang(
            "demo-0",
            member("demo-0-decode-0"),
            member("demo-0-decode-0-worker", 2),
            topologyConstraintGroupConfigs=[group("demo-0-decode-0", RACK, "demo-0-decode-0-worker")],
        ),
    ),
    "a clique called as the root": Broken(
        (tree(1, podGroupTemplates=[leaf("root", 2)]),),
        "Duplicate value",
        gang=podgang("demo-0", member("root", 2)),
    ),
    "a group without pods": Broken(
        (
            tree(
                2,
                podGroupTemplates=[leaf("demo-0-worker", 2)],
                compositePodGroupTemplates=[branch("demo-0-decode-0", 1)],
            ),
        ),
        "must have at least one child",
        gang=podgang(
            "demo-0", member("demo-0-worker", 2), topologyConstraintGroupConfigs=[group("demo-0-decode-0", RACK)]
        ),
    ),
    "a gang without members": Broken(
        (tree(0),),
        "minGroupCount",
        gang=podgang("demo-0"),
    ),
    "a member of two groups": Broken(
        (
            tree(
                2,
                compositePodGroupTemplates=[
                    branch(name, 1, podGroupTemplates=[leaf("demo-0-worker", 2)])
                    for name in ("demo-0-g-0", "demo-0-h-0")
                ],
            ),
        ),
        "Duplicate value",
        gang=podgang(
            "demo-0",
            member("demo-0-worker", 2),
            topologyConstraintGroupConfigs=[
                group(name, RACK, "demo-0-worker") for name in ("demo-0-g-0", "demo-0-h-0")
            ],
        ),
        translation="kube/tree",
    ),
    "a class of a clique's own": Broken(
        (tree(2, podGroupTemplates=[leaf("demo-0-leader"), leaf("demo-0-worker", 2, priorityClassName="low")]),),
        "must be identical",
        workload=pod_clique_set(clique("leader", replicas=1), clique("worker", pod={"priorityClassName": "low"})),
        gang=podgang("demo-0", member("demo-0-leader"), member("demo-0-worker", 2)),
        rule="kube/priority-disagree",
    ),
    "a class that is not there": Broken(
        (
            composite(**of("root"), schedulingPolicy=every(1), priorityClassName="nobody"),
            pod_group(**of("demo-0-worker"), schedulingPolicy=least(2), priorityClassName="nobody"),
        ),
        "no PriorityClass with name nobody",
        code=FORBIDDEN,
        workload=pod_clique_set(priorityClassName="nobody"),
        gang=podgang("demo-0", member("demo-0-worker", 2), priorityClassName="nobody"),
        rule="kube/priority-class",
        translation="kube/priority-class",
    ),
    "a class of the system's own": Broken(
        (
            composite(**of("root"), schedulingPolicy=every(1), priorityClassName="system-node-critical"),
            pod_group(**of("demo-0-worker"), schedulingPolicy=least(2), priorityClassName="system-node-critical"),
        ),
        "must be less than or equal to 1000000000",
        workload=pod_clique_set(priorityClassName="system-node-critical"),
        gang=podgang("demo-0", member("demo-0-worker", 2), priorityClassName="system-node-critical"),
        rule="kube/priority-class",
        translation="kube/priority-class",
    ),
}
del OF_1_37["nine cliques in one list"]
OF_1_37["nine cliques in one list, without trees"] = OF_BOTH_LATER["nine cliques in one list"]

BROKEN: dict[str, dict[str, Broken]] = {"1.35": OF_1_35, "1.36": OF_1_36, "1.37": OF_1_37}
