"""Rules about labels and annotations of pod templates that Kueue reads, writes or puts back.

Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`Merge`, `RestorePodSpec`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.go_values import int32
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, HeldBy, PodSet, held
from webhook.model.kueue.objects import LocalQueue
from webhook.model.naming import is_key
from webhook.model.reading import mapping
from webhook.model.workloads.job import Job
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.podtemplate import PodTemplate
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


_RACK = "example.com/rack"
_ONE_OF = (keys.REQUIRED_TOPOLOGY, keys.PREFERRED_TOPOLOGY, keys.UNCONSTRAINED_TOPOLOGY)
_LABEL_KEYS = (keys.REQUIRED_TOPOLOGY, keys.PREFERRED_TOPOLOGY, keys.SLICE_REQUIRED_TOPOLOGY)
_OF_SLICES = (keys.SLICE_REQUIRED_TOPOLOGY, keys.SLICE_SIZE, keys.SLICE_CONSTRAINTS)
_MOST_LAYERS = 3
_SO = "so Kueue refuses the workload"


def _placed(**annotations: str) -> dict[str, Any]:
    said = {f"{keys.GROUP}/podset-{name.replace('_', '-')}": value for name, value in annotations.items()}
    return job(labels=QUEUED, template=pod_template(annotations=said))


@rule(
    "kueue/topology-keys",
    subject=Subject.MANIFEST,
    passes=Example(_placed(required_topology=_RACK)),
    fails=Example(_placed(required_topology=_RACK, preferred_topology="example.com/block")),
)
def topology_keys(manifest: AnyObject, _: Context[Any]) -> Results:
    """Kueue's webhooks refuse a workload whose templates have more than one topology, a topology that is no
    label key, slices without their topology or size, slices in several layers beside those in one, or a pod set group
    with slices or without a topology. No webhook sees a file.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/tas_validation.go (`ValidateTASPodSetRequest`).
    """
    for template in manifest.templates:
        yield from topology_faults(template)


def topology_faults(template: PodTemplate) -> Results:
    """What Kueue refuses in the annotations of a template, whether it has a queue or not."""
    # The API server refuses other values than strings.
    annotations = {key: value for key, value in template.annotations.items() if isinstance(value, str)}
    for key, why, remedy in _topology_faults(annotations):
        at, value = template.annotations_path / key, annotations.get(key)
        yield Finding(at=at, found=value, why=f"{why}, {_SO}", remedy=remedy)


def _topology_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What Kueue refuses in the annotations of one template: the key, why, and what to do."""
    stated = [key for key in _ONE_OF if key in annotations]
    for key in stated[1:]:
        yield key, f"the template has {stated[0].partition('/')[2]} as well, and only one may be there", "keep one"
    for key in _LABEL_KEYS:
        value = annotations.get(key)
        if value is not None and not is_key(value):
            yield key, "it is no label key of nodes", "write the label key of a level of the Topology"
    unconstrained = annotations.get(keys.UNCONSTRAINED_TOPOLOGY)
    if unconstrained is not None and not keys.is_bool(unconstrained):
        yield keys.UNCONSTRAINED_TOPOLOGY, "it is neither true nor false", 'write "true", or remove it'
    yield from _slice_faults(annotations)
    if (group := annotations.get(keys.PODSET_GROUP_NAME)) is None:
        return
    if group.isascii() and group.isdigit():
        yield keys.PODSET_GROUP_NAME, "the name of a group is no number", "write a name"
    if not annotations.keys().isdisjoint(_OF_SLICES):
        yield keys.PODSET_GROUP_NAME, "the template has slices as well", "keep one of the two"
    if keys.REQUIRED_TOPOLOGY not in annotations and keys.PREFERRED_TOPOLOGY not in annotations:
        yield keys.PODSET_GROUP_NAME, "the template asks for no topology", f"add {keys.REQUIRED_TOPOLOGY}"


def _slice_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What Kueue refuses in the annotations about slices."""
    sliced, sized = keys.SLICE_REQUIRED_TOPOLOGY in annotations, keys.SLICE_SIZE in annotations
    if sized and not (int32(annotations[keys.SLICE_SIZE]) or 0) > 0:
        yield keys.SLICE_SIZE, "it is no number of pods of at least 1", "write a whole number in quotes"
    if sliced and not sized:
        yield keys.SLICE_SIZE, "the template names the topology of slices, and no size", "add it"
    if sized and not sliced:
        yield keys.SLICE_SIZE, "the template names no topology of slices", f"add {keys.SLICE_REQUIRED_TOPOLOGY}"
    layered = keys.SLICE_CONSTRAINTS in annotations
    if layered and (sliced or sized):
        yield keys.SLICE_CONSTRAINTS, "the template has slices in one layer as well", "keep one of the two ways"
    if layered and not _are_layers(annotations[keys.SLICE_CONSTRAINTS]):
        why = (
            f"it is no JSON list of one to {_MOST_LAYERS} layers, each with a topology and a size that divides the last"
        )
        yield keys.SLICE_CONSTRAINTS, why, "correct it"


def _are_layers(written: str) -> bool:
    """Whether an annotation lists the layers of slices as Kueue takes them."""
    try:
        layers = json.loads(written)
    except (ValueError, RecursionError):
        return False
    if not isinstance(layers, list) or not 0 < len(layers) <= _MOST_LAYERS:
        return False
    above, topologies = 0, set[str]()
    for layer in layers:
        topology, size = (layer.get("topology"), layer.get("size")) if isinstance(layer, dict) else (None, None)
        if not isinstance(topology, str) or topology in topologies or not is_key(topology):
            return False
        if not isinstance(size, int) or size < 1 or above % size:
            return False
        topologies.add(topology)
        above = size
    return True


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
