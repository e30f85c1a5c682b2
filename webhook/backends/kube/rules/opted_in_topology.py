"""The topology that a Job or JobSet asks for in `spec.scheduling`, from which its own controller makes a PodGroup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kube.groups import topology_path
from webhook.backends.kube.rules.examples import ON, near
from webhook.backends.kube.rules.workload import TOPOLOGY_GATE_OFF
from webhook.backends.kube.settings import RuleContext
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

_FIELD = "scheduling"
_IN_A_RACK = job(scheduler=DEFAULT_SCHEDULER, scheduling={"schedulingPolicy": {"gang": {}}, **near("example.com/rack")})


@rule(
    "kube/owner-topology",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_IN_A_RACK, config=ON),
    fails=Example(_IN_A_RACK, config={**ON, "schedulerGates": ["GenericWorkload", "GangScheduling"]}),
)
def native_topology(workload: OptedInWorkload, context: RuleContext) -> Results:
    """The controller of a Job copies the topology of `spec.scheduling` to its PodGroup. If the scheduler's gate
    TopologyAwareWorkloadScheduling is off, kube-scheduler ignores it, and the pods start on any nodes.

    Source: kubernetes/enhancements, KEP-5547 (Job, 1.37) and KEP-5732; JobSet KEP-969.
    """
    gates = context.settings.schedulerGates
    if gates is None or "TopologyAwareWorkloadScheduling" in gates or not context.settings.gangScheduling:
        return
    for found, path in _scheduling(workload):
        for constraint in sequence(mapping(found.get("schedulingConstraints")).get("topology"))[:1]:
            key = text(mapping(constraint).get("key"))
            why, remedy = TOPOLOGY_GATE_OFF
            yield Finding(at=topology_path(path), found=key, why=why, remedy=remedy)


def _scheduling(workload: OptedInWorkload) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """What the workload, or each part of a JobSet, says in `scheduling`."""
    yield mapping(workload.spec.get(_FIELD)), SPEC / _FIELD
    if isinstance(workload, JobSet):
        for index, part in enumerate(workload.parts):
            yield mapping(workload.job_spec(index).get(_FIELD)), part.path / "template" / "spec" / _FIELD
