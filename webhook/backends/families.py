"""Families of rules: rules of several backends that differ only in names, sources and settings.

Each function declares the rule of one backend. `documentation` is what the docstring of any other rule is: what the
scheduler would do, and the source. The families about queues are in `queues`, those about the topology of opted-in
workloads in `topologies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.capabilities import (
    DISRUPTION_LABEL,
    Capability,
    CapabilityTable,
    Disruption,
    Support,
    has_spare_pods,
    unsupported,
)
from webhook.model.claims import CLAIM_KEYS, Mark
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import LABELS, SPEC
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import (
    JUDGED_PODS,
    GangObjects,
    JudgedKind,
    LivingGang,
    PodsGroup,
    StoredObject,
    marked_group,
)
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import Manifest, integer
from webhook.validators import shared_checks
from webhook.validators.examples import OWNER_UID, clique, job, pod_clique_set, pod_template, required
from webhook.validators.pod_guard import NEEDS_WORKLOAD
from webhook.validators.registry import Context, Example, Results, Rule, Subject, rule
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.opted_in_gang import has_foreign_gang, is_claimed, starts_alone
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

# A backend's table, or the function that makes it from the settings.
Table = CapabilityTable | Callable[[Any], CapabilityTable]

TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)


def unsupported_topology(scheduler: str) -> Support:
    return unsupported(
        why=f"{scheduler} does not support topology and would place the pods on any node",
        remedy="choose another scheduler, or give up the topology: remove the topologyConstraint",
    )


def unsupported_nvlink_domains(scheduler: str) -> Support:
    return unsupported(
        why=f"{scheduler} cannot keep a multi-node NVLink group inside one NVLink domain",
        remedy='set "grove.io/mnnvl-group": "none" on the clique, remove "grove.io/auto-mnnvl", '
        "or choose another scheduler",
    )


def capability_rule(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    capability: Capability | tuple[Capability, ...],
    table: Table,
    documentation: str,
    *,
    passes: Example,
    fails: Example,
    fails_closed: bool = False,
) -> Rule:
    """Returns the rule that refuses what the capability table refuses, with the table's text. A capability that the
    table does not list is not judged.
    """
    capabilities = (capability,) if isinstance(capability, Capability) else capability

    def check(_: PodCliqueSet, context: Context[Any]) -> Results:
        entries = table(context.settings) if callable(table) else table
        for judged in capabilities:
            if judged in entries:
                yield from shared_checks.unsupported(judged, entries, context)

    return rule(
        id, capability=capabilities, fails_closed=fails_closed, passes=passes, fails=fails, documentation=documentation
    )(check)


def no_topology(id: str, table: Table, documentation: str, *, fails_closed: bool = False) -> Rule:
    return capability_rule(
        id,
        TOPOLOGY,
        table,
        documentation,
        passes=Example(pod_clique_set()),
        fails=Example(pod_clique_set(topologyConstraint=required("rack"))),
        fails_closed=fails_closed,
    )


def multi_node_nvlink(
    id: str,
    table: Table,
    documentation: str,
    *,
    facts: ClusterFacts = NO_FACTS,
    config: Mapping[str, Any] | None = None,
) -> Rule:
    asking = {"grove.io/mnnvl-group": "train"}
    gpus = {"nvidia.com/gpu": "8"}
    on_gpus = clique("worker", requests=gpus)
    opted_out = clique("worker", requests=gpus, annotations={"grove.io/mnnvl-group": "none"})
    return capability_rule(
        id,
        Capability.MULTI_NODE_NVLINK,
        table,
        documentation,
        passes=Example(pod_clique_set(opted_out, annotations=asking), facts=facts, config=config or {}),
        fails=Example(pod_clique_set(on_gpus, annotations=asking), facts=facts, config=config or {}),
    )


def opted_in_alone(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str, documentation: str, *, alone: Callable[[Any], bool], why: str, remedy: str, passes: Example, fails: Example
) -> Rule:
    """Returns the rule of a scheduler without gangs of opted-in workloads, if `alone` says so of its settings."""

    def check(workload: OptedInWorkload, context: Context[Any]) -> Results:
        whole = workload_with_pods(workload, context.facts)
        if not alone(context.settings) or whole is None or starts_alone(whole):
            return
        # Who made or claimed a gang is a matter of the rules about claims.
        if not (has_foreign_gang(whole) or is_claimed(whole)):
            choice = context.choice
            yield Finding(at=choice.path, value=choice.scheduler, why=why, remedy=remedy, once=True)

    return rule(
        id,
        subject=Subject.OPTED_IN,
        capability=Capability.GANG,
        default=Action.WARN,
        passes=passes,
        fails=fails,
        documentation=documentation,
    )(check)


def resource_claims(id: str, table: Table, documentation: str) -> Rule:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    return capability_rule(
        id,
        Capability.RESOURCE_CLAIMS,
        table,
        documentation,
        passes=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "8"}))),
        fails=Example(pod_clique_set(clique("worker", pod=claims))),
    )


def opted_in_resource_claims(id: str, documentation: str, *, scheduler: str) -> Rule:

    def check(workload: OptedInWorkload, _: Context[Any]) -> Results:
        for part in workload.distinct_parts:
            claims = part.template.spec.get("resourceClaims")
            if claims:
                why = f"{scheduler} may place these pods without regard to their claims"
                remedy = "request extended resources, or choose another scheduler"
                yield Finding(at=part.template.spec_path / "resourceClaims", value=claims, why=why, remedy=remedy)

    def job_example(pod: Mapping[str, Any]) -> Example:
        return Example(job(scheduler=scheduler, template=pod_template(pod)))

    return rule(
        id,
        subject=Subject.OPTED_IN,
        default=Action.WARN,
        passes=job_example({}),
        fails=job_example({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}),
        documentation=documentation,
    )(check)


def claimed_pods(id: str, source: str, **claim: Mapping[str, str]) -> Rule:
    """Returns the rule about pod templates with another gang's mark. `claim` is such a mark, for the example."""
    what = (
        "A pod with a mark of another gang (label, annotation, field) is not prepared for its own, which waits for it"
    )
    return rule(
        id,
        subject=Subject.POD,
        membership=True,
        guard=NEEDS_WORKLOAD,
        looks_at=CLAIM_KEYS,
        passes=Example(pod_clique_set(clique("worker"))),
        fails=Example(pod_clique_set(clique("leader"), {**clique("worker"), **claim})),
        documentation=f"{what} for ever.\n\nSource: {source}",
    )(shared_checks.foreign_memberships)


def priority_class(id: str, documentation: str, *, why: str) -> Rule:

    def check(workload: PodCliqueSet, context: Context[Any]) -> Results:
        path, name = SPEC / "template" / "priorityClassName", workload.priority_class
        priority_classes = context.facts.priority_classes
        if name is None:
            return
        if priority_classes is None:
            yield Unjudged(path, "the PriorityClasses", part="priority_classes")
        elif name not in priority_classes:
            yield Finding(
                at=path,
                value=name,
                why=f"there is no such PriorityClass, and {why}",
                remedy="name a PriorityClass that exists, or create it first",
                absent=Needed("priority_classes", name),
            )

    classes = ClusterFacts(priority_classes={"inference": PriorityClass(125, is_default=False)})
    return rule(
        id,
        capability=Capability.PRIORITY_CLASS,
        passes=Example(pod_clique_set(priorityClassName="inference"), facts=classes),
        fails=Example(pod_clique_set(priorityClassName="inferrence"), facts=classes),
        documentation=documentation,
    )(check)


def group_pods(
    id: str,
    documentation: str,
    *,
    system: str,
    kind: JudgedKind,
    version: str,
    minimum: Callable[[StoredObject], int | None] = lambda stored: integer(stored.spec.get("minMember")),
    **spec: Any,
) -> Rule:
    """Returns the rule about a PodGroup whose minimum is above the number of pods that name it in the same files.
    `system` is that of the pods' marks, `version` and `spec` are for the examples.
    """

    def check(stored: StoredObject, context: Context[Any]) -> Results:
        pods = (context.facts.group_sizes or {}).get((system, *stored.key))
        needed = None if pods is None else minimum(stored)
        if pods is not None and needed is not None and pods < needed:
            yield Finding(
                at=SPEC / "minMember",
                value=needed,
                why=f"in these files only {pods} {'pod names' if pods == 1 else 'pods name'} the group, and it starts "
                "only with its minimum",
                remedy=f"set it to {pods}, or add the missing pods",
                instead=(pods,),
            )

    def example(pods: int) -> Example:
        metadata = {"name": "demo", "namespace": "default"}
        head = {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, "metadata": metadata}
        facts = ClusterFacts(group_sizes={(system, "default", "demo"): pods})
        return Example({**head, "spec": {"minMember": 3, **spec}}, facts=facts)

    return rule(
        id, kinds=(kind,), default=Action.WARN, passes=example(3), fails=example(2), documentation=documentation
    )(check)


def foreign_member(
    id: str,
    source: str,
    api: Api,
    *marks: Mark,
    group_of: Callable[[StoredObject, ClusterFacts], PodsGroup | None] | None = None,
    facts: ClusterFacts = NO_FACTS,
    config: Mapping[str, Any] | None = None,
) -> Rule:
    """Returns the rule about a pod that names the group of a gang of another owner. Labels and annotations are read as
    they are; `group_of` reads a field. `api` is the kind of the gang objects that say whose a group is, and `facts` are
    what its examples need besides.
    """

    def check(pod: StoredObject, context: Context[Any]) -> Results:
        facts = context.facts
        group = marked_group(pod, api, marks) if group_of is None else group_of(pod, facts)
        if group is None or facts.gang_objects is None:
            return
        is_unread = any(key[0] in (facts.unread_gang_kinds or ()) for key in group.objects)
        if is_unread or group.unread is not None:
            yield Unjudged(group.at, f"the owner of the group {shown(group.name)}", part=group.unread or "gang_objects")
            return
        gangs = facts.gang_objects
        key = next((key for key in group.objects if key in gangs), None)
        gang = None if key is None else gangs[key]
        # A reference to the owner proves nothing: its uid is in the group, where every tenant can read it.
        if gang is None or (gang.owner and gang.owner == context.owner):
            return
        why = f"it is the group of the gang {gang.gang}, and the owner of that did not make this pod"
        remedy = "name a group of your own, or none"
        yield Finding(at=group.at, value=group.name, why=why, remedy=remedy, absent=Needed("gang_objects", key))

    def example(name: str) -> Example:
        gang = LivingGang(name, name, (), moved=True, owner=OWNER_UID)
        objects = GangObjects({(api, "default", name): gang})
        return Example(_pod_with(marks[0]), facts=replace(facts, gang_objects=objects), config=config or {})

    return rule(
        id,
        kinds=(JUDGED_PODS,),
        default=Action.WARN,
        membership=True,
        passes=example("other-0"),
        fails=example("demo-0"),
        documentation=f"""A scheduler counts pods by their mark. A pod that names the group of another gang is started
        in the place of a pod of that gang, which then waits for ever: half a gang runs. Pods that Grove creates, and
        pods of the opted-in workload that owns the gang, are not reported. Files do not say who owns a group, so the
        rule reports nothing there.

        Source: {source}""",
    )(check)


def _pod_with(mark: Mark) -> Manifest:
    metadata: Manifest = {"name": "stranger", "namespace": "default"}
    spec: Manifest = {"containers": [{"name": "main", "image": "example.com/main"}]}
    if mark.part == "spec":
        spec[mark.key] = {"podGroupName": "demo-0"}
    else:
        metadata[mark.part] = {mark.key: "demo-0"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


Workload = PodCliqueSet | OptedInWorkload
_ALL = {DISRUPTION_LABEL: Disruption.ALL.value}


def pods_are_taken_singly(id: str, documentation: str, *, why: str, remedy: str) -> Rule:
    """Returns the rule of a scheduler that takes single pods of a running gang."""
    passes, fails = Example(pod_clique_set()), Example(pod_clique_set(labels=_ALL))
    return _disruption_ignored(id, documentation, lambda *_: True, why, remedy, passes=passes, fails=fails)


def spare_pods_are_taken_singly(id: str, documentation: str, *, why: str, **config: Any) -> Rule:
    """Returns the rule of a scheduler that takes single pods above the minimum. `config` is for the examples."""
    remedy = "set each minimum to the number of pods, or remove the label"
    passes = Example(pod_clique_set(labels=_ALL), config=config)
    fails = Example(pod_clique_set(clique("worker", replicas=4, minimum=2), labels=_ALL), config=config)
    return _disruption_ignored(id, documentation, _has_spare, why, remedy, passes=passes, fails=fails)


def _has_spare(workload: Workload, context: Context[Any]) -> bool:
    """Returns whether a gang of the workload has, or may get, more pods than its minimum; False if unknown."""
    if isinstance(workload, PodCliqueSet):
        return any(map(has_spare_pods, workload.cliques))
    whole = workload_with_pods(workload, context.facts)
    return whole is not None and any(0 < part.needed < part.pods or part.elastic for part in whole.parts)


def _disruption_ignored(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    documentation: str,
    takes_single_pods: Callable[[Workload, Context[Any]], bool],
    why: str,
    remedy: str,
    *,
    passes: Example,
    fails: Example,
) -> Rule:
    def check(workload: Workload, context: Context[Any]) -> Results:
        if workload.labels.get(DISRUPTION_LABEL) == Disruption.ALL and takes_single_pods(workload, context):
            yield Finding(at=LABELS / DISRUPTION_LABEL, value=Disruption.ALL.value, why=why, remedy=remedy)

    return rule(
        id,
        looks_at=(DISRUPTION_LABEL,),
        subject=Subject.ANY_WORKLOAD,
        default=Action.WARN,
        passes=passes,
        fails=fails,
        documentation=documentation,
    )(check)
