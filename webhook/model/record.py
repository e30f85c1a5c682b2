"""The record of a workload: what its pods are prepared from, read from the workload itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.bounds import name_text
from webhook.model.capabilities import QUOTA_ANNOTATION, QUOTA_LABEL, VOLCANO_QUEUE
from webhook.model.disruption import DISRUPTION_LABEL, podclique_ends, spare_cliques
from webhook.model.keys import Record
from webhook.model.reading import mapping, text
from webhook.model.shared_claims import pods_claims
from webhook.model.workloads.podcliqueset import PodCliqueSet

# On a workload: the choice of its scheduler, and from CREATE on its record. On a namespace: the choice for its new
# workloads.
SCHEDULER_LABEL = "rollcall.dev/scheduler"
# In place of a scheduler, on a workload that is no gang, in a namespace that chooses a scheduler for its workloads.
OPTED_OUT = "none"
# The prefix of Rollcall's own labels.
OWN_LABELS = "rollcall.dev/"
# The key of every queue contains this, for any scheduler.
QUEUE_WORD = "queue"
# Read only as annotations: no scheduler reads a queue from a label with that key.
_NO_LABELS = frozenset({VOLCANO_QUEUE})


def recorded_quota(workload: PodCliqueSet) -> str | None:
    """The quota of a set: its own annotation, else the first clique's (rules refuse cliques that differ)."""
    own = text(workload.annotations.get(QUOTA_ANNOTATION))
    if own is not None:
        return own
    return next((found for clique in workload.cliques if (found := quota_of_template(clique.raw)) is not None), None)


def quota_of_template(metadata: Mapping[str, Any]) -> str | None:
    """The quota that one pod template, or a pod, names: Grove's annotation, else Koordinator's label."""
    annotation = text(mapping(metadata.get("annotations")).get(QUOTA_ANNOTATION))
    return annotation or text(mapping(metadata.get("labels")).get(QUOTA_LABEL))


def queues_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The queues that a set, a template, a PodGang or a pod names: all keys whose name contains "queue", labels first.

    The scheduler decides which key counts, and with KAI the administrator. That a key names a queue is visible from its
    name.
    """
    found: dict[str, str] = {}
    for name in ("annotations", "labels"):
        for key, value in mapping(metadata.get(name)).items():
            if QUEUE_WORD not in key or QUEUE_WORD not in key.rpartition("/")[2]:
                continue
            if (name != "labels" or key not in _NO_LABELS) and (queue := (text(value) or "").strip()):
                found[key] = queue
    return found


def queue_of(metadata: Mapping[str, Any], key: str) -> str | None:
    """The queue that `metadata` names under `key`: by a label, else by an annotation."""
    return queues_of(metadata).get(key)


def record_of(workload: PodCliqueSet, scheduler: str | None) -> Record:
    """The record of `workload` with the recorded or chosen `scheduler`.

    The queue is the set's own, else the first that a clique names (rules refuse cliques that differ).
    """
    queues: dict[str, str] = {}
    for holder in (mapping(workload.raw.get("metadata")), *(clique.raw for clique in workload.cliques)):
        for key, queue in queues_of(holder).items():
            queues.setdefault(key, queue)
    ordered = tuple((key, queues[key]) for key in sorted(queues))
    disruption = disruption_of(workload.labels)
    spare = spare_cliques(workload)
    claims = pods_claims(workload.annotations, ((end, one.pod_spec) for end, one in podclique_ends(workload)))
    return Record(scheduler, recorded_quota(workload), ordered, workload.priority_class, disruption, spare, claims)


def disruption_of(labels: Mapping[str, Any]) -> str | None:
    """The disruption mode that the labels of a workload name."""
    return name_text(labels.get(DISRUPTION_LABEL))


def record_in(metadata: Mapping[str, Any], scheduler: str | None, priority_class: str | None = None) -> Record:
    """The part of its workload's record that a PodGang or a pod shows in its own metadata."""
    queues = queues_of(metadata)
    disruption = disruption_of(mapping(metadata.get("labels")))
    ordered = tuple(sorted(queues.items())) if queues else ()
    return Record(scheduler, quota_of_template(metadata), ordered, priority_class, disruption)
