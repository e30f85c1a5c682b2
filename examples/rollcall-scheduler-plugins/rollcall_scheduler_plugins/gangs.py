"""PodGang to its one PodGroup."""

from __future__ import annotations

from rollcall_scheduler_plugins.capabilities import CAPABILITIES
from rollcall_scheduler_plugins.keys import POD_GROUP, pod_group_name
from rollcall_scheduler_plugins.rules import SPARE_PODS, TOPOLOGY_RULE
from rollcall_scheduler_plugins.settings import SchedulerPluginsSettings
from webhook.errors import Inexpressible
from webhook.model.capabilities import Capability
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding
from webhook.model.gang_objects import gang_metadata
from webhook.model.grove import PodGang
from webhook.model.reading import Manifest, integer, mapping


def gang_objects(podgang: PodGang, settings: SchedulerPluginsSettings) -> list[Manifest]:
    """The PodGroup of `podgang`. Raises `Inexpressible` for what a sum cannot say, and for topology.

    minMember is 0 where Grove has released a member (minReplicas 0, so that a rolling update goes on): the sum without
    it would be a smaller gang, and `adopt` knows what it was.
    """
    _refuse_topology(podgang)
    _refuse_spare_pods(podgang)
    minimums = [member.min_replicas for member in podgang.members]
    return [
        {
            "apiVersion": f"{POD_GROUP.group}/{POD_GROUP.version}",
            "kind": POD_GROUP.kind,
            "metadata": gang_metadata(podgang, pod_group_name(podgang.gang)),
            "spec": {
                "minMember": sum(minimums) if all(minimums) else 0,
                "scheduleTimeoutSeconds": settings.scheduleTimeoutSeconds,
            },
        }
    ]


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the minimum from before a release; at least 1, which is what the CRD demands."""
    if desired["spec"]["minMember"] > 0:
        return desired
    recorded = integer(mapping(mapping(live).get("spec")).get("minMember")) or 1
    return {**desired, "spec": {**desired["spec"], "minMember": max(recorded, 1)}}


def _refuse_topology(podgang: PodGang) -> None:
    constraints = [podgang.constraint, *(config.constraint for config in podgang.group_configs)]
    constraints += [member.constraint for member in podgang.members]
    for constraint in constraints:
        if key := constraint.required or constraint.preferred:
            raise _inexpressible(TOPOLOGY_RULE, constraint.path, key, CAPABILITIES[Capability.TOPOLOGY_WORKLOAD].why)


def _refuse_spare_pods(podgang: PodGang) -> None:
    if len(podgang.members) == 1:
        return
    for member in podgang.members:
        if member.pods > member.min_replicas > 0:
            why = "only the sum of pods is counted, so spare pods of this member could replace pods of another"
            raise _inexpressible(SPARE_PODS, member.path / "minReplicas", member.min_replicas, why)


def _inexpressible(rule: str, path: FieldPath, found: object, why: str) -> Inexpressible:
    remedy = "nothing is written for this PodGang; change the PodCliqueSet, or choose another scheduler"
    return Inexpressible((Finding(path, found, why, remedy, rule=rule, fails_closed=True),))
