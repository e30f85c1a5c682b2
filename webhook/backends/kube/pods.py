"""Pods of a group of the Workload API: what Rollcall writes into them, the ResourceClaims that they share, and faults
that keep a single pod waiting for its group.

The field with the claims is immutable, and behind the feature gate DRAWorkloadResourceClaims: while that is off, the
API server drops it. So an existing group keeps what it has. Source: k8s.io/api scheduling/v1alpha2 (1.36), v1beta1
(1.37); KEP-5729.

A pod waits for a group that is missing or cannot have pods, whose priority differs, or whose scheduler does not know
groups or differs from that of the other pods. These rules judge pods that are not Grove's; the pods of Rollcall's
gangs are correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from webhook.backends import families
from webhook.backends.base import GangMember, PodChanges
from webhook.backends.kube import workload_api
from webhook.backends.kube.groups import (
    ON,
    POD_GROUPS_OF_GANGS,
    SERVES_TREES,
    TREE,
    WORKLOADS_OF_GANGS,
    GroupMembership,
    example_cluster,
    groups_of_tree,
    member,
    membership_of,
    pod,
    pod_group,
    pod_group_of,
    priority_of,
    resolved_priority,
    root,
    scheduler_of,
    templates_in,
    waiting,
)
from webhook.backends.kube.workload_api import (
    CARRIES_CLASS,
    COMPOSITES,
    GROUPS,
    WORKLOADS,
    Generation,
    KubeSettings,
    RuleContext,
    generation,
    workload_apis,
)
from webhook.model import grove
from webhook.model.bounds import name_text
from webhook.model.capabilities import is_podclique, podclique_ends
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import JUDGED_PODS, PodsGroup, StoredObject
from webhook.model.grove import PodGang
from webhook.model.keys import Needed, Record, SharedClaim
from webhook.model.pod_groups import Groups, TreeGroup, ancestors
from webhook.model.pod_template import CLAIMS_ANNOTATION, MAX_CLAIMS, claim_names_in, claims_in, pods_claims, shared_by
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.validators.examples import clique, job_set, pod_clique_set, pod_template, replicated
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.shared_checks import least_action
from webhook.workloads.opted_in_gang import OptedInGang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet


def prepare_pod(member: GangMember, settings: KubeSettings) -> PodChanges:
    """Returns the changes for one pod. An existing membership is kept: its author also creates the objects."""
    if not settings.gangScheduling:
        return PodChanges(scheduler_name=DEFAULT_SCHEDULER, inputs=())
    generation = Generation(member.dialect)
    merged = is_merged(settings, generation)
    field: dict[str, Any]
    if generation is Generation.V1ALPHA1:
        entry = workload_api.MERGED if merged else workload_api.template(member.podclique)
        field = {"workloadRef": {"name": workload_api.workload(member.podgang), "podGroup": entry}}
    else:
        group = workload_api.pod_group(
            member.podgang, member.podclique, generation, merged=merged, divided=member.divided
        )
        field = {"schedulingGroup": {"podGroupName": group}}
    priority = member.priority
    return PodChanges(
        scheduler_name=DEFAULT_SCHEDULER,
        inputs=(f"membership={sorted(next(iter(field.values())).items())}", f"priority={priority}"),
        default_fields=field,
        priority=priority,
    )


def is_merged(settings: KubeSettings, generation: Generation) -> bool:
    """Returns whether all members of a PodGang become one PodGroup, no matter how many: no name depends on a count."""
    return settings.flat == "merge" and generation is not Generation.TREE


FIELD = "resourceClaims"


def claims_of(podgang: PodGang, members: Sequence[str], record: Record, spoken: Generation) -> Manifest:
    """Returns the field of the PodGroup, and of the template, of these members."""
    if spoken is Generation.V1ALPHA1 or not record.claims:
        return {}
    claims = shared_by(claim for member in members for claim in _shared_claims(podgang, member, record))
    return {FIELD: [claim.manifest for claim in claims]} if claims else {}


def _shared_claims(podgang: PodGang, member: str, record: Record) -> Iterator[SharedClaim]:
    if isinstance(podgang, OptedInGang):
        parts = {part.name for part in podgang.parts.get(member, ())}
        yield from (claim.shared for claim in record.claims if claim.pods in parts)
    else:
        workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
        yield from (claim.shared for claim in record.claims if is_podclique(member, workload, claim.pods))


def keep_claims(spec: Manifest, live: Mapping[str, Any]) -> Manifest:
    """Returns `spec` of a PodGroup or template with the claims of the existing one, even if that has none."""
    rest = {key: value for key, value in spec.items() if key != FIELD}
    return {**rest, FIELD: live[FIELD]} if live.get(FIELD) else rest


# In 1.36 and 1.37.
_GATE = "DRAWorkloadResourceClaims"
_AT = ANNOTATIONS / CLAIMS_ANNOTATION
_CLAIM: Manifest = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "node"}]}
_ASKED = {CLAIMS_ANNOTATION: "gpus"}


@rule(
    "kube/group-claims",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod=_CLAIM), annotations=_ASKED), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(clique("worker"), annotations=_ASKED), config=ON, facts=SERVES_TREES),
)
def group_claims(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """The annotation names claims of the pods that all pods of a group are to share. A name without such a claim has no
    effect, and neither have two claims of one name in one group. A claim that is not shared is made for each pod.

    Source: k8s.io/api scheduling/v1beta1 (PodGroupSpec.resourceClaims: "matches the PodGroup's claim exactly", at most
    4); KEP-5729.
    """
    if not (claim_names := claim_names_in(workload.annotations)):
        return
    spoken = generation(context.settings, workload_apis(context.settings, context.facts))
    if (problem := _unlisted(context, spoken, workload)) is not None:
        yield _ignored(workload, *problem)
        return
    if len(claim_names) > MAX_CLAIMS:
        yield _ignored(
            workload, f"a group has at most {MAX_CLAIMS} claims, so those after these are ignored", "name fewer"
        )
    templates = _templates(workload)
    pod_claims = [(name, frozenset(claims_in(spec))) for name, spec in templates]
    first_names = frozenset(claim_names[:MAX_CLAIMS])
    if any(claim.name in first_names for _, claims in pod_claims for claim in claims) and not pods_claims(
        workload.annotations, templates
    ):
        why = "too many pod templates have these claims, so no group shares any"
        yield _ignored(workload, why, "share them in fewer templates")
        return
    for name in claim_names[:MAX_CLAIMS]:
        sources = {claim for _, claims in pod_claims for claim in claims if claim.name == name}
        if not sources:
            yield _ignored(workload, f"no pod has a claim {shown(name)}", "name entries of resourceClaims of the pods")
        elif len(sources) > 1 and spoken is not None and is_merged(context.settings, spoken):
            yield _ignored(
                workload,
                f"the pods of the merged group name different sources under {shown(name)}, so each pod gets its own",
                "use one name for each source",
            )


def _unlisted(
    context: RuleContext, spoken: Generation | None, workload: PodCliqueSet | OptedInWorkload
) -> tuple[str, str] | None:
    """Returns why no group of Rollcall's lists claims, and what helps."""
    settings = context.settings
    if not settings.gangScheduling:
        return "gangScheduling is off, so there is no group", "set the profile's gangScheduling to true"
    if spoken is Generation.V1ALPHA1:
        return "groups of Kubernetes 1.35 have no claims", "use Kubernetes 1.36 or newer"
    if settings.schedulerGates is not None and _GATE not in settings.schedulerGates:
        return f"schedulerGates lacks {_GATE}", "enable the gate and add it to schedulerGates"
    if isinstance(workload, PodCliqueSet) or (path := workload.native_path) is None:
        return None
    return f"{path} is set, so Rollcall writes no group", "list the claims in resourceClaims there"


def _ignored(workload: PodCliqueSet | OptedInWorkload, why: str, remedy: str) -> Finding:
    annotation = workload.annotations.get(CLAIMS_ANNOTATION)
    return Finding(at=_AT, value=annotation, why=why, remedy=f"{remedy}, or remove the annotation")


def _templates(workload: PodCliqueSet | OptedInWorkload) -> list[tuple[str, Mapping[str, Any]]]:
    if isinstance(workload, PodCliqueSet):
        return [(end, clique.pod_spec) for end, clique in podclique_ends(workload)]
    return [(part.name, part.template.spec) for part in workload.parts]


_ENTRY: Manifest = {"targetReplicatedJobs": ["node"], **_CLAIM}


def _sharing(pod: Manifest) -> Manifest:
    """Returns a JobSet whose controller makes one group, which lists a claim."""
    part = replicated("node", template=pod_template(pod))
    return job_set(part, scheduler=DEFAULT_SCHEDULER, scheduling={"replicatedJobs": [_ENTRY]})


@rule(
    "kube/owner-claims",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_sharing(_CLAIM), config=ON, facts=example_cluster()),
    fails=Example(_sharing({}), config=ON, facts=example_cluster()),
)
def owner_claims(workload: OptedInWorkload, context: RuleContext) -> Results:
    """The controller of a Job or JobSet copies the claims of `spec.scheduling` to its PodGroups. A pod shares such a
    claim only if its own entry is equal. Without the gate DRAWorkloadResourceClaims no pod does.

    Source: k8s.io/api scheduling/v1beta1 (PodGroupSpec.resourceClaims); KEP-5729; KEP-5547 (Job); JobSet KEP-969.
    """
    if not context.settings.gangScheduling:
        return
    gates = context.settings.schedulerGates
    pod_claims = {part.name: frozenset(claims_in(part.template.spec)) for part in workload.parts}
    for block in workload.scheduling_blocks():
        names = [part.name for part in workload.parts_of(block)]
        for index, claim in enumerate(islice(claims_in(block.spec), MAX_CLAIMS)):
            if gates is not None and _GATE not in gates:
                why, remedy = f"schedulerGates lacks {_GATE}", "enable the gate and add it to schedulerGates"
            elif names and not any(claim in pod_claims[name] for name in names):
                why, remedy = (
                    "no pod of the group has an equal entry",
                    "add the same entry to resourceClaims of the pods",
                )
            else:
                continue
            at = block.path / "resourceClaims" / Item(index, claim.name)
            yield Finding(at, claim.name, f"{why}, so no pod shares the claim", f"{remedy}, or remove the claim")


_SHARED: Manifest = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "rack-1"}]}
_TWO_SOURCES: Manifest = {
    "resourceClaims": [{"name": "gpus", "resourceClaimName": "rack-1", "resourceClaimTemplateName": "node"}]
}


@rule(
    "kube/group-claim-fields",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**_SHARED), config=ON, facts=example_cluster()),
    fails=Example(pod_group(**_TWO_SOURCES), config=ON, facts=example_cluster()),
)
def group_claim_fields(stored: StoredObject, _: RuleContext) -> Results:
    """A PodGroup lists at most four claims of different names, each with a ResourceClaim or a template. A
    CompositePodGroup lists none. The API server refuses anything else. In a file nothing else says so.

    Source: k8s.io/api scheduling/v1alpha2 and v1beta1 (listMapKey, maxItems; PodGroupResourceClaim: exactly one).
    """
    groups: Iterable[tuple[FieldPath, Mapping[str, Any], bool]]
    groups = [(SPEC, stored.spec, stored.kind == COMPOSITES.kind)]
    if stored.kind == WORKLOADS.kind:
        groups = ((template.path, template.spec, template.group.composite) for template in templates_in(stored.spec))
    for place, spec, composite in groups:
        entries, at = list(claims_in(spec)), place / "resourceClaims"
        if composite and entries:
            yield Finding(at, len(entries), f"a {COMPOSITES.kind} has no claims", "move them to the PodGroups below it")
            continue
        if len(entries) > MAX_CLAIMS:
            why = f"a PodGroup has at most {MAX_CLAIMS} claims, so the API server refuses it"
            yield Finding(at, len(entries), why, "share fewer claims")
        counted = Counter(entry.name for entry in entries)
        for index, entry in enumerate(entries[: MAX_CLAIMS + 1]):
            if (entry.claim is None) is (entry.template is None):
                why = "an entry names either a ResourceClaim or a template, so the API server refuses it"
                remedy = "set one of resourceClaimName and resourceClaimTemplateName"
                yield Finding(at / Item(index, entry.name), entry.name, why, remedy)
            elif counted[entry.name] > 1:
                why = "another entry has the same name, so the API server refuses it"
                yield Finding(at / Item(index, entry.name), entry.name, why, "give each entry a name of its own")


_GROUP = example_cluster(
    pod_groups={"worker": TreeGroup(composite=False, minimum=2, claims=(SharedClaim("gpus", template="node"),))}
)
_OTHER: Manifest = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "pod"}]}


@rule(
    "kube/pod-group-claim",
    kinds=(JUDGED_PODS,),
    default=Action.WARN,
    passes=Example(member(**_CLAIM), config=ON, facts=_GROUP),
    fails=Example(member(**_OTHER), config=ON, facts=_GROUP),
)
def pod_group_claim(stored: StoredObject, context: RuleContext) -> Results:
    """A pod shares a claim of its group only if its own entry is equal: the same name and the same source. Otherwise it
    gets a claim of its own, and no message says so.

    Source: k8s.io/api core/v1 (PodResourceClaim), scheduling/v1beta1 (PodGroupSpec.resourceClaims), v0.37.0.
    """
    key, group = pod_group_of(stored, context.facts)
    if group is None or not group.claims:
        return
    shared = {claim.name: claim for claim in group.claims}
    for index, entry in enumerate(claims_in(stored.spec)):
        theirs = shared.get(entry.name)
        if theirs is not None and theirs != entry:
            yield Finding(
                at=SPEC / "resourceClaims" / Item(index, entry.name),
                value=entry.claim or entry.template,
                why=f"the PodGroup {key[1]} has {theirs.claim or theirs.template} under this name, so the pod gets a "
                "claim of its own",
                remedy="copy the entry of the PodGroup, or use another name",
                absent=Needed("pod_groups", key),
            )


_POD_GROUP = SPEC / "schedulingGroup" / "podGroupName"
_POD_ENTRY = SPEC / "workloadRef" / "podGroup"
_WORKER = TreeGroup(composite=False, minimum=2)
_KNOWN = example_cluster(pod_groups={"worker": _WORKER}, workloads={"demo": TREE})
_HIGH = example_cluster(pod_groups={"worker": replace(_WORKER, priority_class="high")})
# The schedulers that Rollcall knows and that do not read memberships of the Workload API.
_OTHERS = frozenset({"koord-scheduler", "volcano", "kai-scheduler", "lpx-scheduler"})


def _group_name(stored: StoredObject) -> str | None:
    return text(mapping(stored.spec.get("schedulingGroup")).get("podGroupName"))


def _membership_target(stored: StoredObject) -> tuple[str, str, Needed] | None:
    """Returns what the pod's membership names: field, kind and key."""
    name = _group_name(stored)
    if name is not None:
        return "schedulingGroup.podGroupName", "PodGroup", Needed("pod_groups", (stored.key[0], name))
    name = text(mapping(stored.spec.get("workloadRef")).get("name"))
    return None if name is None else ("workloadRef.name", "Workload", Needed("workloads", (stored.key[0], name)))


@rule(
    "kube/pod-group-missing",
    kinds=(JUDGED_PODS,),
    default=Action.WARN,
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member("wroker"), config=ON, facts=_KNOWN),
)
def pod_group_missing(stored: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler holds such a pod ("waiting for pods's pod group to appear in scheduling queue") until the group
    exists. This is a warning, because the group may be created later. It is a refusal if the namespace's label
    rollcall.dev/creation-order is `strict`.

    Source: kubernetes, pkg/scheduler/framework/plugins/gangscheduling (v1.35 to v1.37).
    """
    target = _membership_target(stored)
    if target is None:
        return
    field, kind, needed = target
    path = SPEC / field.partition(".")[0] / field.partition(".")[2]
    objects = getattr(context.facts, needed.part)
    if objects is None:
        yield Unjudged(path, f"the {kind}s", part=needed.part)
    elif needed.key not in objects and not _is_composite(needed, context):
        yield Finding(
            at=path,
            value=needed.name,
            why=f"there is no such {kind} yet, and kube-scheduler holds the pod until it exists",
            remedy="create the group before its pods",
            absent=needed,
            at_least=least_action(context),
            hides_more=True,
        )


def _is_composite(needed: Needed, context: RuleContext) -> bool:
    return needed.part == "pod_groups" and needed.key in (context.facts.composite_pod_groups or {})


@rule(
    "kube/pod-composite",
    kinds=(JUDGED_PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member("root"), config=ON, facts=example_cluster(composite_pod_groups={"root": root()})),
)
def pod_composite(stored: StoredObject, context: RuleContext) -> Results:
    """A pod belongs to a PodGroup, never to the CompositePodGroup above it. kube-scheduler looks for a PodGroup with
    that name and holds the pod for ever.

    Source: k8s.io/api core/v1 (PodSchedulingGroup.podGroupName); kubernetes, pkg/scheduler (v1.37.0).
    """
    name = _group_name(stored)
    groups = context.facts.pod_groups
    needed = Needed("pod_groups", (stored.key[0], name or ""))
    if name is not None and groups is not None and needed.key not in groups and _is_composite(needed, context):
        yield Finding(
            at=_POD_GROUP,
            value=name,
            why="it is a CompositePodGroup, and kube-scheduler looks only for a PodGroup with this name",
            remedy="name the PodGroup below it that the pod belongs to",
            absent=needed,
        )


_CYCLE = example_cluster(
    pod_groups={"worker": replace(_WORKER, parent="a")},
    composite_pod_groups={"a": root(parent="b"), "b": root(parent="a")},
)


@rule(
    "kube/pod-cycle",
    kinds=(JUDGED_PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member(), config=ON, facts=_CYCLE),
)
def pod_cycle(stored: StoredObject, context: RuleContext) -> Results:
    """If two composites are created at the same moment, each below the other, the check of each one does not see the
    other. The pods of a tree without a root are never scheduled, and only this rule reports it.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen).
    """
    key, group = pod_group_of(stored, context.facts)
    if group is None:
        return
    above = [ancestor for ancestor, _ in ancestors(key, group, context.facts.composite_pod_groups or {})]
    if len(set(above)) < len(above):
        yield Finding(
            at=_POD_GROUP,
            value=key[1],
            why="the groups above it form a cycle, and kube-scheduler never schedules the pods of a cycle",
            remedy=f"delete the CompositePodGroup {above[0][1]} and recreate it without a parent",
            absent=Needed("composite_pod_groups", above[0]),
        )


@rule(
    "kube/pod-entry",
    kinds=(JUDGED_PODS,),
    membership=True,
    passes=Example(pod(workloadRef={"name": "demo", "podGroup": "worker"}), config=ON, facts=_KNOWN),
    fails=Example(pod(workloadRef={"name": "demo", "podGroup": "wroker"}), config=ON, facts=_KNOWN),
)
def pod_entry(stored: StoredObject, context: RuleContext) -> Results:
    """In 1.35 a pod names an entry of a Workload. The list of entries is immutable, so a pod that names another entry
    is held for ever ("pod group doesn't exist for a workload").

    Source: kubernetes, pkg/scheduler/framework/plugins/gangscheduling (v1.35); k8s.io/api scheduling/v1alpha1.
    """
    reference = mapping(stored.spec.get("workloadRef"))
    key = (stored.key[0], text(reference.get("name")) or "")
    entry = text(reference.get("podGroup"))
    workload = (context.facts.workloads or {}).get(key)
    if workload is not None and entry is not None and entry not in workload.templates:
        yield Finding(
            at=_POD_ENTRY,
            value=entry,
            why=f"the Workload {key[1]} has no such entry, and its list of entries is immutable",
            remedy="name one of its entries, or recreate the Workload",
            absent=Needed("workloads", key),
        )


@rule(
    "kube/pod-priority",
    kinds=(JUDGED_PODS,),
    passes=Example(member(priorityClassName="high"), config=ON, facts=_HIGH),
    fails=Example(member(), config=ON, facts=_HIGH),
)
def pod_priority(stored: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler 1.37 rejects a whole group if the priority of one pod differs from the group's priority. 1.36 uses
    the group's priority.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority".
    """
    facts = context.facts
    key, group = pod_group_of(stored, facts)
    if group is None or generation(context.settings, workload_apis(context.settings, facts)) not in CARRIES_CLASS:
        return
    name, at = text(stored.spec.get("priorityClassName")), SPEC / "priorityClassName"
    priority, group_priority = (
        resolved_priority(integer(stored.spec.get("priority")), name, facts),
        priority_of(group, facts),
    )
    if priority is None or group_priority is None:
        if not facts.is_whole("priority_classes") and name != group.priority_class:
            yield Unjudged(at, "the PriorityClasses", part="priority_classes")
    elif priority != group_priority:
        yield Finding(
            at=at,
            value=name,
            why=f"the pod's priority is {priority}, its group's is {group_priority}, and kube-scheduler rejects the "
            "whole group",
            remedy=f"name the group's PriorityClass {group.priority_class}" if group.priority_class else "remove it",
            absent=Needed("pod_groups", key),
        )


@rule(
    "kube/pod-scheduler",
    kinds=(JUDGED_PODS,),
    membership=True,
    passes=Example(member(schedulerName=DEFAULT_SCHEDULER), config=ON, facts=_KNOWN),
    fails=Example(member(schedulerName="volcano"), config=ON, facts=_KNOWN),
)
def pod_scheduler(stored: StoredObject, context: RuleContext) -> Results:
    """Only kube-scheduler reads the membership. Another scheduler places the pod alone. kube-scheduler then rejects the
    rest of the group, because its pods must name one scheduler.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    .spec.schedulerName set"; no other scheduler that Rollcall knows reads these fields.
    """
    scheduler = scheduler_of(stored.spec)
    if _membership_target(stored) is not None and _reads_no_group(scheduler, context):
        yield Finding(
            at=SPEC / "schedulerName",
            value=scheduler,
            why="this scheduler ignores the pod's group and places the pod alone, and the rest of the group waits",
            remedy=f"set schedulerName to {DEFAULT_SCHEDULER}, or remove the pod's membership",
        )


def _reads_no_group(scheduler: str, context: RuleContext) -> bool:
    # An unknown scheduler may be a second kube-scheduler.
    return scheduler != DEFAULT_SCHEDULER and (scheduler in _OTHERS or scheduler in context.choice.available)


@rule(
    "kube/pod-schedulers",
    kinds=(JUDGED_PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=example_cluster(group_pods={"worker-1": waiting(DEFAULT_SCHEDULER)})),
    fails=Example(member(), config=ON, facts=example_cluster(group_pods={"worker-1": waiting("batch-scheduler")})),
)
def pod_schedulers(stored: StoredObject, context: RuleContext) -> Results:
    """The pods of a group, and of all groups of its tree, must name one scheduler, even if two names are two profiles
    of one kube-scheduler. One kube-scheduler rejects the whole tree, and two kube-schedulers wait for each other. The
    rule compares pods that wait for a node.

    Source: Kubernetes documentation, PodGroup lifecycle (limitations: "All Pods in a PodGroup must use the same
    .spec.schedulerName"); kubernetes, pkg/scheduler (podgroup cycle, v1.36 and v1.37.0, seen). 1.35 starts such a group
    where both names are of one kube-scheduler.
    """
    membership, scheduler = membership_of(stored.spec), scheduler_of(stored.spec)
    if membership is None or _reads_no_group(scheduler, context):
        return
    facts, at, namespace = context.facts, SPEC / "schedulerName", stored.key[0]
    if facts.group_pods is None:
        yield Unjudged(at, "the pods that wait for a node", part="group_pods")
        return
    for group in _groups_of_one_scheduler(namespace, membership, facts):
        other = facts.group_pods.pod_of_another_scheduler((namespace, group), scheduler, stored.key)
        if other is not None:
            whose = "its group" if group == membership else f"PodGroup {group.group} in its tree"
            yield Finding(
                at=at,
                value=scheduler,
                why=f"the pod {other[1]} of {whose} waits for {facts.group_pods[other].scheduler}, and no scheduler "
                "starts a group with two schedulers",
                remedy="set one schedulerName in all of these pods, "
                "and delete the pods that wait for another scheduler",
                absent=Needed("group_pods", other),
            )
            return


def _groups_of_one_scheduler(
    namespace: str, membership: GroupMembership, facts: ClusterFacts
) -> Iterator[GroupMembership]:
    """Yields the group that a pod names, then the others of its tree. The entries of a 1.35 Workload are not in a
    tree.
    """
    yield membership
    if membership.workload is None:
        tree = groups_of_tree((namespace, membership.group), facts)
        yield from (GroupMembership(name) for _, name in tree if name != membership.group)


def named_group(pod: StoredObject, facts: ClusterFacts) -> PodsGroup | None:
    """Returns the group that a pod names: a PodGroup, or the Workload that it was made from, says whose it is."""
    group, workload = name_text(_group_name(pod)), name_text(mapping(pod.spec.get("workloadRef")).get("name"))
    at = SPEC / "workloadRef" / "name" if group is None else _POD_GROUP
    if group is not None:
        stored = None if facts.pod_groups is None else facts.pod_groups.get((pod.key[0], group))
        workload = None if stored is None else stored.workload
    unread = "pod_groups" if group is not None and facts.pod_groups is None else None
    name = group or workload
    if name is None:
        return None
    groups = () if group is None else tuple((kind.api, pod.key[0], group) for kind in POD_GROUPS_OF_GANGS)
    workloads = () if workload is None else tuple((kind.api, pod.key[0], workload) for kind in WORKLOADS_OF_GANGS)
    return PodsGroup(at, name, (*groups, *workloads), unread)


foreign_member = families.foreign_member(
    "kube/foreign-member",
    "kubernetes, pkg/scheduler/framework/plugins/gangscheduling (pods are counted by this field alone), v1.37.0, seen.",
    WORKLOADS_OF_GANGS[0].api,
    Mark("spec", "schedulingGroup"),
    group_of=named_group,
    facts=replace(SERVES_TREES, pod_groups=Groups({("default", "demo-0"): TreeGroup(False, 2, workload="demo-0")})),
    config=ON,
)
