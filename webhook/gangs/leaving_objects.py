"""Gang objects that are being deleted, and what keeps them (no I/O)."""

from __future__ import annotations

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.model.reading import Manifest, sequence

# kube-controller-manager removes it from a PodGroup of scheduling.k8s.io when no pod of the group runs any more. It is
# safe to remove under running pods: they name the group, and kube-scheduler counts them again once the group is written
# again (seen with v1.37.0).
PROTECTION = "scheduling.k8s.io/podgroup-protection"


def leaving(live: Manifest) -> HoldReason:
    """Why a gang waits for an object that is being deleted."""
    metadata = live["metadata"]
    why = f"{live['kind']} {metadata['name']} is being deleted"
    finalizers = [str(one) for one in sequence(metadata.get("finalizers"))]
    if finalizers == [PROTECTION]:
        command = (
            f"kubectl patch podgroups.scheduling.k8s.io {metadata['name']} -n {metadata['namespace']} "
            """--type=merge -p '{"metadata":{"finalizers":null}}'"""
        )
        return HoldReason(
            Reason.OBJECT_LEAVING,
            f"{why}, and its finalizer {PROTECTION} keeps it while its pods run",
            f"remove the finalizer, and Rollcall writes the object again; running pods are not affected: {command}",
        )
    if finalizers:
        return HoldReason(Reason.OBJECT_LEAVING, why, f"find out why its finalizer stays: {', '.join(finalizers)}")
    return HoldReason(Reason.OBJECT_LEAVING, why, "check which finalizer keeps it")
