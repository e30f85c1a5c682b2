"""PodGang to the PodGroup of scheduler-plugins: one PodGroup that counts the pods of all members together.

No field is frozen: the plugin reads the PodGroup again for each pod that it tries.
"""

from __future__ import annotations

from webhook.backends.coscheduling import keys
from webhook.backends.coscheduling.capabilities import NO_TOPOLOGY
from webhook.backends.coscheduling.settings import CoschedulingSettings
from webhook.backends.inexpressible import inexpressible, refuse_spare_pods, refuse_twins
from webhook.model.gang_object import gang_metadata
from webhook.model.reading import Manifest, integer, mapping
from webhook.model.workloads.podgang import PodGang


def gang_objects(podgang: PodGang, settings: CoschedulingSettings) -> list[Manifest]:
    """The PodGroup of `podgang`. Raises `Inexpressible` for a topology, and for minimums that a sum cannot express.

    While a member is released (minReplicas 0, so that a rolling update can go on), minMember is negative. Its absolute
    value is used if there is no earlier minimum to keep. A sum of only the other members would be a smaller gang.
    """
    refuse_twins(podgang, "coscheduling/twins")
    _refuse_topology(podgang)
    why = "only the sum of pods is counted, so pods above one clique's minimum could replace pods of another clique"
    refuse_spare_pods(podgang, "coscheduling/spare-pods", why)
    minimums = [member.min_replicas for member in podgang.members]
    released = not all(minimum > 0 for minimum in minimums)
    api = keys.POD_GROUP
    return [
        {
            "apiVersion": f"{api.group}/{api.version}",
            "kind": api.kind,
            "metadata": gang_metadata(podgang, keys.pod_group(podgang.gang)),
            "spec": {
                "minMember": -sum(max(minimum, 1) for minimum in minimums) if released else sum(minimums),
                "scheduleTimeoutSeconds": settings.scheduleTimeoutSeconds,
            },
        }
    ]


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the minimum from before Grove released a member; at least one pod, as the CRD requires.

    Fields outside `desired` are not sent and so stay: the status, which the project's controller writes, and a
    minResources that someone else set.
    """
    wanted = desired["spec"]["minMember"]
    if wanted > 0:
        return desired
    recorded = integer(mapping(mapping(live).get("spec")).get("minMember")) or -wanted
    return {**desired, "spec": {**desired["spec"], "minMember": max(recorded, 1)}}


def _refuse_topology(podgang: PodGang) -> None:
    for constraint in podgang.constraints:
        for field, key in (("required", constraint.required), ("preferred", constraint.preferred)):
            if key is not None:
                raise inexpressible("coscheduling/topology", constraint.path / field, key, NO_TOPOLOGY.why)
