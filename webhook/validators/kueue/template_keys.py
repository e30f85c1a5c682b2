"""Rules about labels and annotations of pod templates that Kueue writes or puts back.

Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`Merge`, `RestorePodSpec`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, HeldBy, PodSet, held
from webhook.model.kueue.objects import LocalQueue
from webhook.model.reading import mapping
from webhook.model.workloads.job import Job
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.readiness import QUEUED
from webhook.validators.opted_in_examples import job, pod_template
from webhook.validators.registry import Context, Example, OptedInChange, Results, Subject, rule

_QUEUES = ClusterFacts(local_queues={("default", "research"): LocalQueue("gpus", active=True)})


@rule(
    "kueue/preset-key",
    subject=Subject.OPTED_IN,
    passes=Example(job(labels=QUEUED, template=pod_template(labels={keys.PODSET: "main"})), facts=_QUEUES),
    fails=Example(job(labels=QUEUED, template=pod_template(labels={keys.LOCAL_QUEUE_NAME: "teaching"})), facts=_QUEUES),
)
def preset_key(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue writes these keys into pod templates when it admits a workload. If a template has one with another value,
    Kueue ends the Workload for good, with the reason FailedToStart. The keys come from a manifest that was copied from
    a cluster. A template of a stored workload, which has a status, has the keys from Kueue.

    Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`Merge`: `HaveConflict`),
    pkg/controller/jobframework/reconciler.go (`getPodSetsInfoFromStatus`).
    """
    # Trainer merges Kueue's entry of runtimePatches over the runtime, so there is no conflict.
    if isinstance(workload, MadeJobSet) or mapping(workload.raw.get("status")):
        return
    found = held(workload, context.facts, context.kueue)
    for pods in () if found is None or found.by is HeldBy.ELASTIC else found.pod_sets:
        for path, key, value, written in _preset(found, pods, workload, context):
            yield Finding(
                at=path,
                found=value,
                why=f"Kueue writes {written} here when it admits the workload, and ends it for good if there is "
                "another value",
                remedy=f"remove {key} from the template",
            )


def _preset(
    found: Held | None, pods: PodSet, workload: OptedInWorkload, context: Context[Any]
) -> Iterator[tuple[FieldPath, str, Any, str]]:
    """The keys of a template that Kueue will write with another value: path, key, value, and what Kueue writes."""
    template = pods.template
    queue = None if found is None else found.queue
    known = (context.facts.local_queues or {}).get((workload.namespace, queue or ""))
    written = {
        keys.PODSET: pods.name,
        keys.LOCAL_QUEUE_NAME: queue,
        keys.CLUSTER_QUEUE_NAME: None if known is None else known.cluster_queue,
    }
    for key, value in written.items():
        if value is not None and key in template.labels and template.labels[key] != value:
            yield template.labels_path / key, key, template.labels[key], shown(value)
    if context.kueue.topology_aware and keys.WORKLOAD in template.annotations:
        at = template.annotations_path / keys.WORKLOAD
        yield at, keys.WORKLOAD, template.annotations[keys.WORKLOAD], "the name of its Workload"


def _suspended(**labels: str) -> dict[str, Any]:
    return job(labels=QUEUED, suspend=True, template=pod_template(labels=labels))


@rule(
    "kueue/template-labels",
    subject=Subject.OPTED_IN_CHANGE,
    default=Action.WARN,
    passes=Example(_suspended(team="a"), old=_suspended(team="a")),
    fails=Example(_suspended(team="b"), old=_suspended(team="a")),
)
def template_labels(change: OptedInChange, context: Context[Any]) -> Results:
    """Kueue keeps the labels and annotations that a template had when its Workload was made. When it stops the
    workload, it writes these back, so a change of a suspended template is lost with the first eviction. A changed label
    is not a reason for Kueue to make a new Workload.

    Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`RestorePodSpec`), pkg/util/equality/podset.go.
    """
    old, new = change.old, change.new
    # A TrainJob's own patches stay, and the pods of a LeaderWorkerSet are deleted.
    if not isinstance(new, Job | JobSet) or not (old.suspended and new.suspended):
        return
    if held(old, context.facts, context.kueue) is None or held(new, context.facts, context.kueue) is None:
        return
    before = {part.place: part.template for part in old.distinct_parts}
    for part in new.distinct_parts:
        if (was := before.get(part.place)) is None:
            continue
        now = part.template
        for at, one, other in (
            (now.labels_path, was.labels, now.labels),
            (now.annotations_path, was.annotations, now.annotations),
        ):
            # Kueue's own keys come and go with an admission.
            changed = {
                key for key in {*one, *other} if one.get(key) != other.get(key) and not key.startswith(f"{keys.GROUP}/")
            }
            for key in sorted(changed):
                yield Finding(
                    at=at / key,
                    found=other.get(key),
                    why=f"Kueue puts back {shown(one.get(key))}, which the template had at first, when it stops the "
                    f"{new.kind}",
                    remedy=f"delete the {new.kind} and create it with the new value",
                )
