"""Rollcall as an AdmissionCheck controller of Kueue: which Workloads wait for its answer, and what it writes.

Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2/workload_types.go and admissioncheck_types.go,
pkg/workload/admissionchecks.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from enum import StrEnum

from webhook.model.kubernetes_kinds import PODS
from webhook.model.kueue import keys
from webhook.model.kueue.objects import KueueWorkload
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workloads.podgang import OwnerReference, controller_in

# `spec.controllerName` of the AdmissionChecks that Rollcall answers.
CONTROLLER = "rollcall.dev/gang"
# The kinds of objects that a Workload may be made for, or that decide about its pods, besides opted-in workloads.
OWNERS_BESIDES = (POD_CLIQUE_SETS.resource, PODS)
# Conditions that end or undo a reservation: what is written after one of them is lost, or stops a running workload.
_OVER = (keys.ADMITTED, keys.EVICTED, keys.FINISHED, keys.DEACTIVATION_TARGET)


class CheckMode(StrEnum):
    """Whether Rollcall answers AdmissionChecks: not at all, always with Ready, or as it has decided."""

    OFF = "off"
    AUDIT = "audit"
    ON = "on"


def waiting_checks(workload: KueueWorkload, ours: Container[str]) -> tuple[str, ...]:
    """The checks among `ours` that hold a workload which has quota. An answer at any other time is not reset by Kueue,
    or stops a workload that runs.
    """
    if not workload.active or not workload.is_true(keys.QUOTA_RESERVED) or any(map(workload.is_true, _OVER)):
        return ()
    return tuple(one.name for one in workload.checks if one.state == keys.CHECK_PENDING and one.name in ours)


def reserved_at(workload: KueueWorkload) -> str:
    """When Kueue reserved quota for a workload, as Kueue writes it; empty if it did not."""
    found = workload.condition(keys.QUOTA_RESERVED)
    return "" if found is None else found.at


def owners_of(raw: Manifest) -> Iterator[OwnerReference]:
    """The objects that a Workload is made for: its controller, or every pod of a pod group. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    if (controller := controller_in(metadata)) is not None:
        # Kueue makes a job the controller of its Workload. Any user may add other owners.
        yield controller
        return
    for one in map(mapping, sequence(metadata.get("ownerReferences"))):
        version, kind, name = (text(one.get(key)) or "" for key in ("apiVersion", "kind", "name"))
        yield OwnerReference(version, kind, name, text(one.get("uid")))


def answered(raw: Manifest, names: Container[str], state: str, message: str, now: str) -> list[Manifest]:
    """The JSON Patch of a Workload's status that answers the checks `names`, and changes no other entry. It is refused
    if the Workload has changed since it was read: Kueue writes the whole list. Raises `Malformed`.
    """
    version = mapping(raw.get("metadata")).get("resourceVersion")
    patch: list[Manifest] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
    for index, entry in enumerate(map(mapping, sequence(mapping(raw.get("status")).get("admissionChecks")))):
        if entry.get("name") in names and entry.get("state") == keys.CHECK_PENDING:
            written = {**entry, "state": state, "message": message, "lastTransitionTime": now}
            patch.append({"op": "replace", "path": f"/status/admissionChecks/{index}", "value": written})
    return patch


def activation(name: str, now: str) -> Manifest:
    """The status of an AdmissionCheck that is served. Kueue admits nothing by a ClusterQueue with an inactive check."""
    return {
        "apiVersion": f"{keys.GROUP}/{keys.VERSION}",
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "status": {
            "conditions": [
                {
                    "type": keys.ACTIVE,
                    "status": "True",
                    "reason": "Served",
                    "message": "Rollcall's reconciler answers this check",
                    "lastTransitionTime": now,
                }
            ]
        },
    }
