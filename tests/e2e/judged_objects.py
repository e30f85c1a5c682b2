"""Gang objects that the API server accepts one by one and that no scheduler can run: by Kubernetes version, with the
objects that must exist before, and the rule that refuses or warns of each. Every object name begins with `demo`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.given_gangs import RACK, ZONE
from tests.e2e.schedulers import SECOND_NAME

# Made by the tests: a class of some priority.
CLASS = "judged-objects"
# The same priority, without preemption.
MEEK = "judged-objects-meek"
ALL: Manifest = {"disruptionMode": {"all": {}}}
BASIC: Manifest = {"schedulingPolicy": {"basic": {}}}


class Judged(NamedTuple):
    """One object, accepted without Rollcall, and the rule that finds it. `strict`: in a namespace that asks for order.
    `before` makes it an update.
    """

    object: Manifest
    rule: str
    needs: tuple[Manifest, ...] = ()
    refused: bool = True
    strict: bool = False
    before: Manifest | None = None


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def workload(*templates: Manifest, name: str = "demo", **spec: Any) -> Manifest:
    """A Workload of trees; in its place keywords of the spec."""
    return _object("Workload", name, spec or {"compositePodGroupTemplates": list(templates)})


def branch(name: str, count: int, *leaves: Manifest, **fields: Any) -> Manifest:
    """A template of a CompositePodGroup."""
    return {
        "name": name,
        "schedulingPolicy": {"gang": {"minGroupCount": count}},
        "podGroupTemplates": list(leaves),
        **fields,
    }


def leaf(name: str = "worker", count: int = 2, **fields: Any) -> Manifest:
    """A template of a PodGroup."""
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}, **fields}


def composite(name: str, parent: str | None = None, *, template: str = "root", count: int = 1, **spec: Any) -> Manifest:
    """A CompositePodGroup of 1.37."""
    above = {} if parent is None else {"parentCompositePodGroupName": parent}
    policy = {"gang": {"minGroupCount": count}}
    return _object("CompositePodGroup", name, {**above, **of(template), "schedulingPolicy": policy, **spec})


def pod_group(name: str = "demo-worker", parent: str | None = None, *, count: int = 2, **spec: Any) -> Manifest:
    """A PodGroup; below a parent it must name a template, in 1.37."""
    above = {} if parent is None else {"parentCompositePodGroupName": parent, **of("worker")}
    return _object("PodGroup", name, {**above, "schedulingPolicy": {"gang": {"minCount": count}}, **spec})


def of(template: str, workload: str = "demo") -> Manifest:
    """The reference of 1.37 to a template."""
    return {"workloadRef": {"workloadName": workload, "templateName": template}}


def of_1_36(template: str) -> Manifest:
    """The reference of 1.36."""
    return {"podGroupTemplateRef": {"workload": {"workloadName": "demo", "podGroupTemplateName": template}}}


def near(key: str) -> Manifest:
    """A topology constraint."""
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def member(group: str = "demo-worker", name: str = "demo-pod", **spec: Any) -> Manifest:
    """A pod of a PodGroup."""
    return pod(name, schedulingGroup={"podGroupName": group}, **spec)


def entry_member(entry: str, name: str = "demo-pod", **spec: Any) -> Manifest:
    """A pod of 1.35."""
    return pod(name, workloadRef={"name": "demo", "podGroup": entry}, **spec)


def pod(name: str, **spec: Any) -> Manifest:
    """A pod of one CPU."""
    resources = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "registry.example.com/main:1.0", "resources": resources}
    return {"apiVersion": "v1", **_object("Pod", name, {"containers": [container], **spec})}


ENTRIES = workload(podGroups=[{"name": "worker", "policy": {"gang": {"minCount": 2}}}])
OF_1_35 = {
    "a pod of a Workload that is not there": Judged(entry_member("worker"), "kube/pod-group-missing", refused=False),
    "the same where order is demanded": Judged(entry_member("worker"), "kube/pod-group-missing", strict=True),
    "a pod of an unknown entry": Judged(entry_member("wroker"), "kube/pod-entry", (ENTRIES,)),
    "a pod of another scheduler": Judged(
        entry_member("worker", schedulerName="volcano"), "kube/pod-scheduler", (ENTRIES,)
    ),
    "a pod of another scheduler than the first": Judged(
        entry_member("worker"),
        "kube/pod-schedulers",
        (ENTRIES, entry_member("worker", "demo-first", schedulerName=SECOND_NAME)),
    ),
}

# A pod for the other name of a kube-scheduler that has two.
ELSEWHERE = member(name="demo-first", schedulerName=SECOND_NAME)
FLAT = workload(podGroupTemplates=[leaf()])
OF_1_36 = {
    "another minimum than the template's": Judged(
        pod_group(count=3, **of_1_36("worker")), "kube/template-policy", (FLAT,)
    ),
    "no gang, where the template is one": Judged(
        pod_group(**of_1_36("worker"), **BASIC), "kube/template-policy", (FLAT,)
    ),
    "a pod of a group that is not there": Judged(member(), "kube/pod-group-missing", refused=False),
    "the same where order is demanded": Judged(member(), "kube/pod-group-missing", strict=True),
    "a pod of another scheduler": Judged(member(schedulerName="volcano"), "kube/pod-scheduler", (pod_group(),)),
    "a pod of another scheduler than the first": Judged(member(), "kube/pod-schedulers", (pod_group(), ELSEWHERE)),
}

TREE = workload(branch("root", 1, leaf()))
ROOT = composite("demo-root")
WORKER = pod_group("demo-worker", "demo-root")
IN_A_RACK = (TREE, composite("demo-root", **near(RACK)))
TOGETHER = (TREE, composite("demo-root", **ALL))
OF_1_37 = {
    "a parent that is not there": Judged(WORKER, "kube/parent-missing", (TREE,), refused=False),
    "the same where order is demanded": Judged(WORKER, "kube/parent-missing", (TREE,), strict=True),
    "a Workload that is not there": Judged(ROOT, "kube/workload-missing", refused=False),
    "no Workload where order is demanded": Judged(ROOT, "kube/workload-missing", strict=True),
    "an unknown template": Judged(composite("demo-root", template="rot"), "kube/template-unknown", (TREE,)),
    "the template of another kind": Judged(composite("demo-root", template="worker"), "kube/template-kind", (TREE,)),
    "another minimum than the template's": Judged(
        pod_group("demo-worker", "demo-root", count=3), "kube/template-policy", (TREE, ROOT)
    ),
    "another minimum of groups than the template's": Judged(
        composite("demo-root", count=2), "kube/template-policy", (TREE,)
    ),
    "a group that is resized, and not its template": Judged(
        pod_group("demo-worker", "demo-root", count=3),
        "kube/template-drift",
        (TREE, ROOT),
        refused=False,
        before=WORKER,
    ),
    "another Workload than the parent's": Judged(
        pod_group("demo-worker", "demo-root", **of("worker", "demo-other")),
        "kube/tree-workload",
        (TREE, ROOT, workload(branch("root", 1, leaf()), name="demo-other")),
    ),
    "at the root, where the template is not": Judged(pod_group(**of("worker")), "kube/template-parent", (TREE,)),
    "above itself": Judged(composite("demo-a", "demo-a"), "kube/tree-cycle"),
    "above each other": Judged(composite("demo-a", "demo-b"), "kube/tree-cycle", (composite("demo-b", "demo-a"),)),
    "below a circle of three": Judged(
        composite("demo-a", "demo-c"),
        "kube/tree-cycle",
        (composite("demo-c", "demo-b"), composite("demo-b", "demo-a")),
    ),
    "a group that is called as the one above it": Judged(
        pod_group("demo-root", "demo-root"), "kube/tree-name", (TREE, composite("demo-root"))
    ),
    "a fourth level that is not the last": Judged(
        composite("demo-d", "demo-c"),
        "kube/tree-depth",
        (composite("demo-a"), composite("demo-b", "demo-a"), composite("demo-c", "demo-b")),
    ),
    "a second level above three": Judged(
        composite("demo-b", "demo-a"),
        "kube/tree-depth",
        (composite("demo-d", "demo-c"), composite("demo-c", "demo-b")),
    ),
    "more groups than are declared": Judged(workload(branch("root", 2, leaf())), "kube/min-group-count", refused=False),
    "a copy of that": Judged(
        composite("demo-root", count=2),
        "kube/min-group-count",
        (workload(branch("root", 2, leaf())),),
        refused=False,
    ),
    "all, and no gang": Judged(pod_group(**ALL, **BASIC), "kube/disruption-all"),
    "a template with all, and no gang": Judged(
        workload(podGroupTemplates=[{"name": "worker", **BASIC, **ALL}]), "kube/disruption-all"
    ),
    "single below all": Judged(WORKER, "kube/disruption-single", TOGETHER),
    "all, come after single": Judged(composite("demo-root", **ALL), "kube/disruption-single", (TREE, WORKER)),
    "templates, single below all": Judged(workload(branch("root", 1, leaf(), **ALL)), "kube/disruption-single"),
    "a key that no binding has": Judged(pod_group(**near("example.com/rakc")), "kube/topology-key", refused=False),
    "a zone in a rack": Judged(
        pod_group("demo-worker", "demo-root", **near(ZONE)), "kube/topology-order", IN_A_RACK, refused=False
    ),
    "templates, a zone in a rack": Judged(
        workload(branch("root", 1, leaf(**near(ZONE)), **near(RACK))), "kube/topology-order", refused=False
    ),
    "another class than the parent's": Judged(
        WORKER, "kube/group-priority", (TREE, composite("demo-root", priorityClassName=CLASS))
    ),
    "a parent that comes with another class": Judged(
        composite("demo-root", priorityClassName=CLASS), "kube/group-priority", (TREE, WORKER)
    ),
    "a pod of a group that is not there": Judged(member(), "kube/pod-group-missing", refused=False),
    "no group where order is demanded": Judged(member(), "kube/pod-group-missing", strict=True),
    "a pod of a composite": Judged(member("demo-root"), "kube/pod-composite", (TREE, ROOT)),
    "a pod of another priority": Judged(member(), "kube/pod-priority", (pod_group(priorityClassName=CLASS),)),
    "a pod of another preemption policy": Judged(
        member(priorityClassName=MEEK),
        "kube/pod-preemption-policy",
        (pod_group(priorityClassName=CLASS),),
        refused=False,
    ),
    "a group of another preemption policy": Judged(
        pod_group("demo-worker", "demo-root", priorityClassName=MEEK),
        "kube/group-preemption-policy",
        (TREE, composite("demo-root", priorityClassName=CLASS)),
        refused=False,
    ),
    "a pod of another scheduler": Judged(member(schedulerName="volcano"), "kube/pod-scheduler", (pod_group(),)),
    "a pod of another scheduler than the first": Judged(member(), "kube/pod-schedulers", (pod_group(), ELSEWHERE)),
    "the same the other way round": Judged(
        member(schedulerName=SECOND_NAME), "kube/pod-schedulers", (pod_group(), member(name="demo-first"))
    ),
    "a pod of another scheduler than one of its tree": Judged(
        member("demo-other"),
        "kube/pod-schedulers",
        (TREE, ROOT, WORKER, pod_group("demo-other", "demo-root"), ELSEWHERE),
    ),
}

JUDGED: dict[str, dict[str, Judged]] = {"1.35": OF_1_35, "1.36": OF_1_36, "1.37": OF_1_37}
