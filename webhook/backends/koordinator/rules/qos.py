"""What koord-manager's webhook would refuse in a pod: a QoS class that does not fit its priority band or CPU.

The rules judge the clique, so that the author sees the message, and judge the pod again. Source of all:
koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go, apis/extension/{qos,priority}.go.
v1.6.0 to v1.7.0 computed the same verdicts but dropped them by mistake (fixed by #2595).
"""

from __future__ import annotations

from webhook.backends.koordinator.keys import BATCH_RESOURCES, LABEL_PRIORITY_CLASS, QOS_CLASSES
from webhook.backends.koordinator.settings import KoordinatorSettings, RuleContext
from webhook.model.capabilities import QOS_LABEL, Capability
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import integer, text
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.pod_guard import HasLabel, Requests, sees
from webhook.validators.registry import Example, Results, Subject, rule

# Koordinator's priority bands; any other value is in no band.
_BANDS = (
    ("koord-prod", 9000, 9999),
    ("koord-mid", 7000, 7999),
    ("koord-batch", 5000, 5999),
    ("koord-free", 3000, 3999),
)
_BAND_NAMES = tuple(name for name, _, _ in _BANDS)
_NO_BAND = "no band"
# The bands that each class may not have. A class that is not listed may have any band.
_FORBIDDEN = {"BE": (_NO_BAND, "koord-prod"), "LSR": (_NO_BAND, "koord-mid", "koord-batch", "koord-free")}
_WHOLE_CPU_CLASSES = ("LSR", "LSE")
# The classes for which neither `qos-priority` nor `qos-cpu` refuses a pod.
_UNRESTRICTED = tuple(name for name in QOS_CLASSES if name not in _FORBIDDEN and name not in _WHOLE_CPU_CLASSES)


def _defaults_to_unrestricted(settings: KoordinatorSettings) -> bool:
    return settings.defaultQoSClass is None or settings.defaultQoSClass in _UNRESTRICTED


# A pod without the label has the default class of the profile.
_RESTRICTED = sees(HasLabel(QOS_LABEL, other_than=_UNRESTRICTED), suffices=_defaults_to_unrestricted)
_PROD = ClusterFacts(priority_classes={"koord-prod": PriorityClass(9000, is_default=False)})


def _lsr(priority: str | None, cpu: str = "4") -> Example:
    pod = {} if priority is None else {"priorityClassName": priority}
    member = clique("worker", labels={QOS_LABEL: "LSR"}, requests={"cpu": cpu}, pod=pod)
    return Example(pod_clique_set(member), facts=_PROD)


@rule(
    "koordinator/qos-class",
    subject=Subject.POD,
    guard=sees(HasLabel(QOS_LABEL, other_than=QOS_CLASSES)),
    looks_at=(QOS_LABEL,),
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=Example(pod_clique_set(clique("worker", labels={QOS_LABEL: "LS"}))),
    fails=Example(pod_clique_set(clique("worker", labels={QOS_LABEL: "ls"}))),
)
def qos_class(pod: PodTemplate, _: RuleContext) -> Results:
    """Koordinator treats an unknown QoS class, also one in the wrong case, as no class, without a message.

    Source: koordinator-sh/koordinator, apis/extension/qos.go (`GetPodQoSClassByName`).
    """
    value = pod.labels.get(QOS_LABEL)
    if value is not None and value not in QOS_CLASSES:
        yield Finding(
            at=pod.labels_path / QOS_LABEL,
            found=value,
            why="Koordinator does not know this QoS class and would treat the pod as a pod without a class",
            remedy=f"use one of {', '.join(QOS_CLASSES)}, or remove the label",
            instead=tuple(name for name in QOS_CLASSES if name == str(value).upper()),
        )


@rule(
    "koordinator/qos-priority",
    subject=Subject.POD,
    guard=_RESTRICTED,
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=_lsr("koord-prod"),
    fails=_lsr(None),
)
def qos_priority(pod: PodTemplate, context: RuleContext) -> Results:
    """koord-manager refuses the pods, so the gang never starts. BE needs the mid, batch or free band; LSR needs the
    prod band.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go
    (`forbidSpecialQoSClassAndPriorityClass`).
    """
    if (qos := _effective(pod, context)) not in _FORBIDDEN:
        return
    place = pod.labels_path / QOS_LABEL
    band = _band(pod, context)
    if band is None:
        yield Unjudged(place, "the PriorityClasses", part="priority_classes")
    elif band in _FORBIDDEN[qos]:
        allowed = [name for name in _BAND_NAMES if name not in _FORBIDDEN[qos]]
        yield Finding(
            at=place,
            found=qos,
            why=f"koord-manager refuses this class with a priority in {band}{_origin(pod)}",
            remedy=f"set priorityClassName to one of {', '.join(allowed)}, or use another QoS class",
        )


@rule(
    "koordinator/qos-cpu",
    subject=Subject.POD,
    guard=_RESTRICTED,
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=_lsr("koord-prod"),
    fails=_lsr("koord-prod", cpu="1500m"),
)
def qos_cpu(pod: PodTemplate, context: RuleContext) -> Results:
    """LSR and LSE pods are bound to whole CPU cores. koord-manager refuses a pod whose CPU request is not a whole
    number.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go (`validateResources`).
    """
    qos = _effective(pod, context)
    if qos not in _WHOLE_CPU_CLASSES:
        return
    total = pod.total_request("cpu")
    if total is None or total <= 0 or total.denominator != 1:
        amount = "no readable amount" if total is None else f"{float(total):g} in all"
        yield Finding(
            at=pod.labels_path / QOS_LABEL,
            found=qos,
            why=f"the class needs a whole number of CPUs, and the pod requests {amount}{_origin(pod)}",
            remedy="request a whole number of CPUs (the sum of all containers counts), or use LS",
        )


@rule(
    "koordinator/batch-resources",
    subject=Subject.POD,
    guard=sees(Requests(BATCH_RESOURCES)),
    looks_at=BATCH_RESOURCES,
    independent=True,
    passes=Example(
        pod_clique_set(
            clique(
                "worker",
                labels={QOS_LABEL: "BE"},
                requests={"kubernetes.io/batch-cpu": "4000"},
                pod={"priorityClassName": "koord-batch"},
            )
        )
    ),
    fails=Example(pod_clique_set(clique("worker", requests={"kubernetes.io/batch-cpu": "4000"}))),
)
def batch_resources(pod: PodTemplate, context: RuleContext) -> Results:
    """koord-manager refuses a pod that requests batch resources without the class BE.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go
    (`validateRequiredQoSClass`).
    """
    qos = _effective(pod, context)
    if qos == "BE":
        return
    if (asked := pod.request_of(BATCH_RESOURCES)) is not None:
        yield Finding(
            at=FieldPath((*pod.spec_path.parts, *asked.path)),
            found=asked.resource,
            why=f"koord-manager admits batch resources only for the QoS class BE, and the pod has {qos or 'none'}",
            remedy=f"set the label {QOS_LABEL}: BE, or request cpu and memory",
        )


def _effective(pod: PodTemplate, context: RuleContext) -> str | None:
    """The class that the pod will have: its own, else the profile's default."""
    if QOS_LABEL in pod.labels:
        return text(pod.labels[QOS_LABEL])
    return context.settings.defaultQoSClass


def _origin(pod: PodTemplate) -> str:
    return "" if QOS_LABEL in pod.labels else " (the class is the profile's defaultQoSClass)"


def _band(pod: PodTemplate, context: RuleContext) -> str | None:
    """The pod's priority band; None if it depends on unknown PriorityClasses."""
    if LABEL_PRIORITY_CLASS in pod.labels:
        label = pod.labels[LABEL_PRIORITY_CLASS]
        return label if label in _BAND_NAMES else _NO_BAND
    name = text(pod.spec.get("priorityClassName"))
    # In a template the number has no effect: the API server computes it from the class, and refuses a pod with another
    # number.
    value = integer(pod.spec.get("priority")) if context.workload is None else None
    if value is None and name in _BAND_NAMES:
        # Koordinator installs these itself, with fixed values.
        return name
    if value is None:
        classes = context.facts.priority_classes
        if classes is None:
            return None
        if name is None:
            if not context.facts.is_whole("priority_classes"):
                return None
            value = next((found.value for found in classes.values() if found.is_default), 0)
        elif name in classes:
            value = classes[name].value
        else:
            return None
    return next((band for band, low, high in _BANDS if low <= value <= high), _NO_BAND)
