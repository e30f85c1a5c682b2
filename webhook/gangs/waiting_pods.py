"""The stored pods of a gang that waits, as templates: one for each member, without what only names the pod or the gang.

Gangs whose templates are equal have one shape, whatever they are called, so the answer about one is that about all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.gangs.pod import GangPod
from webhook.gangs.pod_parts import BASE_PODGANG
from webhook.gangs.pod_reasons import Tally
from webhook.gangs.pod_spec import spec_in, spec_text
from webhook.model import grove
from webhook.model.claims import CLAIMS
from webhook.model.kueue import keys as kueue
from webhook.model.reading import Manifest
from webhook.model.workloads.gang import GANG_LABEL, MEMBER_LABEL, OptedInGang
from webhook.model.workloads.place import JOB_INDEX, LWS_REVISION, NAME_LABELS
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.validators.seal import SEAL_ANNOTATION

# Keys that name a pod, its place in its gang, its gang or its workload. Such a key matters only if a selector of the
# pods reads it.
_NAMES = frozenset(
    {
        grove.LABEL_PART_OF,
        grove.LABEL_PODGANG,
        grove.LABEL_PODCLIQUE,
        grove.LABEL_REPLICA,
        grove.LABEL_SCALING_GROUP,
        grove.LABEL_SCALING_GROUP_REPLICA,
        grove.LABEL_EPOCH,
        "grove.io/podclique-pod-index",
        "grove.io/pod-index",
        "grove.io/pod-template-hash",
        "pod-template-hash",
        "controller-revision-hash",
        BASE_PODGANG,
        GANG_LABEL,
        MEMBER_LABEL,
        STAMP_ANNOTATION,
        SEAL_ANNOTATION,
        *NAME_LABELS.values(),
        "job-name",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "jobset.sigs.k8s.io/group-name",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/jobset-uid",
        "jobset.sigs.k8s.io/restart-attempt",
        "trainer.kubeflow.org/trainjob-name",
        JOB_INDEX,
        LWS_REVISION,
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/leader-name",
        "leaderworkerset.sigs.k8s.io/worker-index",
        kueue.WORKLOAD,
        kueue.POD_GROUP_NAME,
        *(mark.key for mark, _ in CLAIMS if mark.value is None),
    }
)


class PodShape(NamedTuple):
    """What decides where the pods of a member can be: the spec as text, and labels and annotations as sorted pairs."""

    spec: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]

    def manifest(self, namespace: str) -> Manifest:
        """A pod of that shape."""
        metadata = {"namespace": namespace, "labels": dict(self.labels), "annotations": dict(self.annotations)}
        return {"metadata": metadata, "spec": spec_in(self.spec)}


def pod_shapes(counted: Sequence[Tally]) -> dict[str, PodShape]:
    """The shape of the pods of each member. Members are left out that have no pods, or whose pods differ in more than
    their names, or are not known whole.
    """
    left_out = only_names({pod.needs or "" for tally in counted for pod in tally.pods})
    found: dict[str, PodShape] = {}
    for tally in counted:
        if any(pod.needs is None or pod.cut for pod in tally.pods):
            continue
        shapes = {_shape(pod, left_out) for pod in tally.pods}
        if len(shapes) == 1:
            found[tally.member.name] = shapes.pop()
    return found


def template_shape(podgang: PodGang, workload: PodCliqueSet | None, member: str) -> PodShape | None:
    """The shape of the pods that will be made for a member; None if its template is unknown. Raises `Malformed`."""
    template = _template_of(podgang, workload, member)
    spec = None if template is None else spec_text(template.spec)
    if template is None or spec is None:
        return None
    left_out = only_names((spec,))
    return PodShape(spec, pairs(template.labels, left_out), pairs(template.annotations, left_out))


def _template_of(podgang: PodGang, workload: PodCliqueSet | None, member: str) -> PodTemplate | None:
    if isinstance(podgang, OptedInGang):
        parts = podgang.parts.get(member, ())
        return parts[0].template if len(parts) == 1 else None
    # The name of a PodClique ends with that of its clique. If two names fit, the longer one does.
    fitting = [] if workload is None else [one for one in workload.cliques if member.endswith(f"-{one.name}")]
    return max(fitting, key=lambda one: len(one.name)).template if fitting else None


def only_names(specs: Iterable[str] = ()) -> frozenset[str]:
    """The keys that only name something, and that no selector in these specs reads."""
    whole = "\n".join(specs)
    return frozenset(key for key in _NAMES if json.dumps(key) not in whole)


def pairs(entries: Mapping[str, Any], left_out: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The labels or annotations as sorted pairs, without those that are left out."""
    return tuple(sorted((key, str(value)) for key, value in entries.items() if key not in left_out))


def _shape(pod: GangPod, left_out: frozenset[str]) -> PodShape:
    return PodShape(pod.needs or "", pairs(pod.labels, left_out), pairs(pod.annotations, left_out))
