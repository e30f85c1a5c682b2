"""The topology that a Job or JobSet asks for in `spec.scheduling`, from which its own controller makes a PodGroup."""

from __future__ import annotations

from webhook.backends.kube.groups import topology_path
from webhook.backends.kube.rules.examples import ON, near
from webhook.backends.kube.rules.workload import TOPOLOGY_GATE_OFF
from webhook.backends.kube.settings import RuleContext
from webhook.model.findings import Action, Finding
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

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

    A JobSet may also state it for some of its replicated Jobs, or for each Job of one.

    Source: kubernetes/enhancements, KEP-5547 (Job, 1.37) and KEP-5732; JobSet KEP-969 (spec.scheduling.replicatedJobs).
    """
    gates = context.settings.schedulerGates
    if gates is None or "TopologyAwareWorkloadScheduling" in gates or not context.settings.gangScheduling:
        return
    for block in workload.scheduling_blocks():
        for constraint in sequence(mapping(block.spec.get("schedulingConstraints")).get("topology"))[:1]:
            key = text(mapping(constraint).get("key"))
            why, remedy = TOPOLOGY_GATE_OFF
            yield Finding(at=topology_path(block.path), found=key, why=why, remedy=remedy)
