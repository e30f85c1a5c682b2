"""The PodGroup that Spark's operator makes for Volcano: what it requests at least, and the Queue that it is in.

`minResources` of the PodGroup is `batchSchedulerOptions.resources`, else what the driver and the first executors
request. Without memory overhead and settings of Spark that is the least. A PodGroup with more than the capability of
its Queue stays Pending, and its pods with it.

Source: kubeflow/spark-operator v2.5, internal/scheduler/volcano; volcano-sh/volcano,
pkg/scheduler/plugins/{capacity,proportion} (`JobEnqueueable`, v1.15.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from webhook.backends.volcano.keys import DEFAULT_QUEUE
from webhook.backends.volcano.settings import RuleContext
from webhook.fit.amounts import amount_of
from webhook.model.amounts import exact_amounts, rounded_down
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, shown
from webhook.model.known_objects import VolcanoQueue
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Example, Results, Subject, rule

_SPARK = ("sparkoperator.k8s.io", "SparkApplication")
_OPTIONS = SPEC / "batchSchedulerOptions"
_MEMORY = re.compile(r"([0-9]{1,12})([kmgtp]?)b?\Z", re.IGNORECASE)
_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_TINY = ClusterFacts(volcano_queues={"team-a": VolcanoQueue("root", "Open", {"cpu": 4000}, {})})


def _application(executors: int) -> Manifest:
    metadata = {"name": "demo", "namespace": "default", "labels": {SCHEDULER_LABEL: "volcano"}}
    spec = {
        "type": "Scala",
        "mode": "cluster",
        "batchScheduler": "volcano",
        "batchSchedulerOptions": {"queue": "team-a"},
        "driver": {"cores": 1},
        "executor": {"cores": 1, "instances": executors},
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": metadata,
        "spec": spec,
    }


@rule(
    "volcano/owner-spark-queue",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_application(3), facts=_TINY),
    fails=Example(_application(4), facts=_TINY),
)
def spark_queue(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Volcano lets no pod of a group start while the group's minResources are above the capability of its Queue. The
    PodGroup of Spark's operator has those of the driver and of the first executors, so the driver waits for ever.

    Source: kubeflow/spark-operator v2.5, internal/scheduler/volcano; volcano-sh/volcano,
    pkg/scheduler/plugins/{capacity,proportion} (`JobEnqueueable`, v1.15.1), issue 3910.
    """
    spec = workload.spec
    if workload.resource.api.group_kind != _SPARK or spec.get("batchScheduler") != "volcano":
        return
    try:
        options = mapping(spec.get("batchSchedulerOptions"))
        name = text(options.get("queue")) or DEFAULT_QUEUE
        stated = mapping(options.get("resources"))
        least = exact_amounts(stated) if stated else _least(spec)
    except Malformed:
        # Rules about the shape of the object report it.
        return
    queue = (context.facts.volcano_queues or {}).get(name)
    limits = {} if queue is None else queue.capability or {}
    for resource, amount in (least or {}).items():
        needed, limit = rounded_down(resource, amount), limits.get(resource, 0)
        if 0 < limit < needed:
            yield Finding(
                at=_OPTIONS / "queue",
                found=name,
                why=f"the operator's PodGroup requests at least {amount_of(resource, needed)}; the Volcano Queue "
                f"{shown(name)} allows {amount_of(resource, limit)}",
                remedy="name a Queue that allows it, or lower what driver and executors request",
            )
            return


def _least(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """What driver and first executors request at least. Raises `Malformed`."""
    driver, executor = mapping(spec.get("driver")), mapping(spec.get("executor"))
    instances = integer(executor.get("instances"))
    found = dict[str, Fraction]()
    for holder, count in ((driver, 1), (executor, 1 if instances is None else max(instances, 0))):
        for resource, amount in (("cpu", _cpu(holder)), ("memory", _memory(holder))):
            found[resource] = found.get(resource, Fraction(0)) + amount * count
    return found


def _cpu(holder: Mapping[str, Any]) -> Fraction:
    requested = holder.get("coreRequest")
    if requested is None:
        return Fraction(max(integer(holder.get("cores")) or 0, 0))
    return max(parse_quantity(requested) or Fraction(0), Fraction(0))


def _memory(holder: Mapping[str, Any]) -> Fraction:
    """The memory of a Java machine, whose suffixes are binary."""
    written = _MEMORY.match(text(holder.get("memory")) or "")
    return Fraction(0) if written is None else Fraction(int(written[1]) * _SIZES[written[2].lower()])
