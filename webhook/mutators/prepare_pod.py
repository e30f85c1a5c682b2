"""The record on a workload, and PreparePod: a backend's changes on a pod, plus the stamp and the gate, as the smallest
patch.

The record is the label `rollcall.dev/scheduler`, with the scheduler that the workload was admitted for. It is written
to the workload's own metadata and never to its pod templates, because Grove compares their hashes. Grove copies a
PodCliqueSet's labels to its PodGangs, where the reconciler reads the record.

Ten thousand sibling pods cost one call of the backend; the other pods use the cached answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.backends.base import GangMember, PodChanges
from webhook.config.settings import Profile
from webhook.model.admission_request import Operation
from webhook.model.claims import Claim, claims_on
from webhook.model.fields import SPEC
from webhook.model.place import label_value
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.mutators.json_patch import PatchBuilder
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.opted_in_gang import GANG_LABEL, MEMBER_LABEL
from webhook.workloads.pod_clique_set import PodCliqueSet


def record_scheduler(workload: PodCliqueSet, scheduler: str) -> tuple[Operation, ...]:
    """Returns the patch that records `scheduler`, if it is not recorded. The workload is changed in place."""
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return tuple(patch.operations)


# On a prepared pod: the backend, and a digest of what the preparation depended on. It shows whether a pod is stale.
STAMP_ANNOTATION = "rollcall.dev/stamp"
# Holds a pod until its gang objects exist. Rollcall's reconciler removes it.
GATE = "rollcall.dev/gang-sync"
_STAMP_CHARACTERS = 16
_LABELS, _ANNOTATIONS, _SPEC = ("metadata", "labels"), ("metadata", "annotations"), ("spec",)
# Members in the cache of each profile. There is one per PodClique, so this covers the PodCliques that create pods at
# about the same time. Each takes 1.5 KB.
MEMORY = 1024
# The limit for the texts of a cached member. Valid names and labels are mostly shorter, but a pod is mutated before
# they are checked, and annotations may be long.
MAX_REMEMBERED_CHARACTERS = 1024


class Prepared(NamedTuple):
    """The result for one pod: a patch, or the claim that prevents one."""

    operations: tuple[Operation, ...]
    claim: Claim | None = None


def stamp(changes: PodChanges, *, gated: bool) -> str:
    """Returns the stamp's value: it depends on what the pod was prepared from, on no rule and no version."""
    inputs = "\n".join((changes.scheduler_name, *changes.inputs, f"gate={str(gated).lower()}"))
    digest = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{changes.scheduler_name}/{digest[:_STAMP_CHARACTERS]}"


def stamped_scheduler(annotations: Mapping[str, Any]) -> str:
    """Returns the scheduler that a pod with these annotations was prepared for; empty if it was not."""
    return (text(annotations.get(STAMP_ANNOTATION)) or "").partition("/")[0]


def alone_stamp(scheduler: str) -> str:
    """Returns the stamp of a pod of a gang's workload that no gang needs: it has its scheduler and no membership."""
    return f"{scheduler}/alone"


def prepare_pod(pod: Pod, profile: Profile, member: GangMember) -> Prepared:
    """Returns the patch that makes `pod` a member of its gang. The pod's dict is changed in place in the same way.

    The patch changes spec.schedulerName, the labels and annotations that the backend names, and the stamp. For opted-in
    workloads it adds the gang's labels. It adds the pod gate if the profile wants it. Existing gates, hostname,
    subdomain and every grove.io key stay.
    """
    changes = _changes(profile, member)
    claim = next(_foreign_claims(pod, changes, kept=not member.opted_in), None)
    if claim is not None:
        return Prepared((), claim)
    # Read before any write: a pod that cannot be read is left unchanged.
    add_gate = profile.gate and changes.stamped and not _gated(pod)
    patch = PatchBuilder(pod.raw)
    labels, spec = pod.template.labels, pod.template.spec
    patch.set_all(_LABELS, changes.labels)
    if changes.default_labels:
        missing = {key: value for key, value in changes.default_labels.items() if key not in labels}
        patch.set_all(_LABELS, missing)
    patch.set_all(_ANNOTATIONS, changes.annotations)
    fields: Manifest = {"schedulerName": changes.scheduler_name}
    for key, default in changes.default_fields.items():
        if spec.get(key) is None:
            fields[key] = default
    if changes.priority is not None and not spec.get("priorityClassName"):
        fields["priorityClassName"] = changes.priority.class_name
        fields["priority"] = changes.priority.value
        fields["preemptionPolicy"] = changes.priority.preemption_policy
    patch.set_all(_SPEC, fields)
    if add_gate:
        patch.append(_SPEC, "schedulingGates", {"name": GATE})
    return Prepared(tuple(patch.operations))


def foreign_claims(pod: Pod, profile: Profile, member: GangMember) -> list[Claim]:
    """Returns every claim on `pod` except the one that makes it a member of its gang."""
    return list(_foreign_claims(pod, _changes(profile, member), kept=False))


def _changes(profile: Profile, member: GangMember) -> PodChanges:
    """Returns the changes that the backend wants on the pods of a member, and the stamp."""
    prepared = profile.prepared
    changes = prepared.get(member)
    if changes is None:
        changes = profile.backend.prepare_pod(member)
        if member.opted_in and not member.gang_by_rollcall:
            # Rollcall does not look for such a pod's stamp or remove its gate.
            changes = replace(changes, stamped=False)
        elif member.opted_in:
            # The labels by which the gang's pods are found again: labels of their owners differ by kind.
            marks = {GANG_LABEL: label_value(member.podgang), MEMBER_LABEL: label_value(member.podclique)}
            changes = replace(changes, labels={**changes.labels, **marks})
        if changes.stamped:
            marked = {STAMP_ANNOTATION: stamp(changes, gated=profile.gate)}
            changes = replace(changes, annotations={**changes.annotations, **marked})
        if _characters(member) <= MAX_REMEMBERED_CHARACTERS:
            prepared[member] = changes
        if len(prepared) > MEMORY:
            del prepared[next(iter(prepared))]
    return changes


def _characters(member: GangMember) -> int:
    """Returns the length of all texts of a member that other authors may have written."""
    record = member.record
    texts = (record.scheduler, record.quota, record.priority_class, record.disruption, *record.spare)
    texts += tuple(queue for _, queue in record.queues)
    texts += tuple(text for claim in record.claims for text in (claim.pods, *claim.shared))
    return sum(len(text or "") for text in (member.namespace, member.podgang, member.podclique, *texts))


def _foreign_claims(pod: Pod, changes: PodChanges, *, kept: bool) -> Iterator[Claim]:
    """Yields the claims on `pod` that `changes` would not make. With `kept`, a field that `changes` sets only if it is
    missing is not a claim, whatever its value: its author also creates the objects.
    """
    for claim in claims_on(pod.template):
        if claim.key in changes.default_fields:
            if not kept and claim.value != changes.default_fields[claim.key]:
                yield claim
        elif claim.value not in (changes.labels.get(claim.key), changes.annotations.get(claim.key)):
            yield claim
    scheduler_name = pod.scheduler_name
    # The API server writes default-scheduler into a pod without a schedulerName.
    if scheduler_name is not None and scheduler_name not in {DEFAULT_SCHEDULER, changes.scheduler_name}:
        yield Claim(scheduler_name, "schedulerName", scheduler_name, SPEC / "schedulerName")


def _gated(pod: Pod) -> bool:
    return any(mapping(gate).get("name") == GATE for gate in sequence(pod.template.spec.get("schedulingGates")))
