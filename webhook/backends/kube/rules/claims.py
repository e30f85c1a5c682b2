"""ResourceClaims that the pods of a group share: those that a workload asks for by its annotation, and those of groups
and pods that other programs store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from webhook.backends.kube.facts import templates_in
from webhook.backends.kube.generation import Generation, generation, workload_apis
from webhook.backends.kube.keys import COMPOSITES, GROUPS, WORKLOADS
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.rules.examples import ON, TREES, known, member, pod_group
from webhook.backends.kube.settings import RuleContext
from webhook.model.disruption import podclique_ends
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, shown
from webhook.model.group_tree import Group
from webhook.model.keys import Needed, SharedClaim
from webhook.model.reading import Manifest, mapping, text
from webhook.model.shared_claims import CLAIMS_ANNOTATION, MAX_CLAIMS, asked_in, claims_in, pods_claims
from webhook.model.stored_object import PODS, StoredObject
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.opted_in_examples import job_set, pod_template, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

# In 1.36 and 1.37.
_GATE = "DRAWorkloadResourceClaims"
_AT = ANNOTATIONS / CLAIMS_ANNOTATION
_CLAIM: Manifest = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "node"}]}
_ASKED = {CLAIMS_ANNOTATION: "gpus"}


@rule(
    "kube/group-claims",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod=_CLAIM), annotations=_ASKED), config=ON, facts=TREES),
    fails=Example(pod_clique_set(clique("worker"), annotations=_ASKED), config=ON, facts=TREES),
)
def group_claims(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """The annotation names claims of the pods that all pods of a group are to share. A name without such a claim has no
    effect, and neither have two claims of one name in one group. A claim that is not shared is made for each pod.

    Source: k8s.io/api scheduling/v1beta1 (PodGroupSpec.resourceClaims: "matches the PodGroup's claim exactly", at most
    4); KEP-5729.
    """
    if not (asked := asked_in(workload.annotations)):
        return
    spoken = generation(context.settings, workload_apis(context.settings, context.facts))
    if (problem := _unread(context, spoken) or _made_by_its_controller(workload)) is not None:
        yield _ignored(workload, *problem)
        return
    if len(asked) > MAX_CLAIMS:
        yield _ignored(
            workload, f"a group has at most {MAX_CLAIMS} claims, so those after these are ignored", "name fewer"
        )
    templates = _templates(workload)
    own = [(name, frozenset(claims_in(spec))) for name, spec in templates]
    named = frozenset(asked[:MAX_CLAIMS])
    if any(one.name in named for _, claims in own for one in claims) and not pods_claims(
        workload.annotations, templates
    ):
        why = "too many pod templates have these claims, so no group shares any"
        yield _ignored(workload, why, "share them in fewer templates")
        return
    for name in asked[:MAX_CLAIMS]:
        sources = {one for _, claims in own for one in claims if one.name == name}
        if not sources:
            yield _ignored(workload, f"no pod has a claim {shown(name)}", "name entries of resourceClaims of the pods")
        elif len(sources) > 1 and spoken is not None and is_merged(context.settings, spoken):
            yield _ignored(
                workload,
                f"the pods of the merged group name different sources under {shown(name)}, so each pod gets its own",
                "use one name for each source",
            )


def _unread(context: RuleContext, spoken: Generation | None) -> tuple[str, str] | None:
    """Why no group lists claims, and what helps."""
    settings = context.settings
    if not settings.gangScheduling:
        return "gangScheduling is off, so there is no group", "set the profile's gangScheduling to true"
    if spoken is Generation.V1ALPHA1:
        return "groups of Kubernetes 1.35 have no claims", "use Kubernetes 1.36 or newer"
    if settings.schedulerGates is not None and _GATE not in settings.schedulerGates:
        return f"schedulerGates lacks {_GATE}", "enable the gate and add it to schedulerGates"
    return None


def _made_by_its_controller(workload: PodCliqueSet | OptedInWorkload) -> tuple[str, str] | None:
    """Why the groups of a workload are not Rollcall's, and what helps."""
    if isinstance(workload, PodCliqueSet) or (path := workload.native_path) is None:
        return None
    return f"{path} is set, so Rollcall writes no group", "list the claims in resourceClaims there"


def _ignored(workload: PodCliqueSet | OptedInWorkload, why: str, remedy: str) -> Finding:
    found = workload.annotations.get(CLAIMS_ANNOTATION)
    return Finding(at=_AT, found=found, why=why, remedy=f"{remedy}, or remove the annotation")


def _templates(workload: PodCliqueSet | OptedInWorkload) -> list[tuple[str, Mapping[str, Any]]]:
    if isinstance(workload, PodCliqueSet):
        return [(end, one.pod_spec) for end, one in podclique_ends(workload)]
    return [(part.name, part.template.spec) for part in workload.parts]


_ENTRY: Manifest = {"targetReplicatedJobs": ["node"], **_CLAIM}


def _sharing(pod: Manifest) -> Manifest:
    """A JobSet whose controller makes one group, which lists a claim."""
    part = replicated("node", template=pod_template(pod))
    return job_set(part, scheduler=DEFAULT_SCHEDULER, scheduling={"replicatedJobs": [_ENTRY]})


@rule(
    "kube/owner-claims",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_sharing(_CLAIM), config=ON, facts=known()),
    fails=Example(_sharing({}), config=ON, facts=known()),
)
def owner_claims(workload: OptedInWorkload, context: RuleContext) -> Results:
    """The controller of a Job or JobSet copies the claims of `spec.scheduling` to its PodGroups. A pod shares such a
    claim only if its own entry is equal. Without the gate DRAWorkloadResourceClaims no pod does.

    Source: k8s.io/api scheduling/v1beta1 (PodGroupSpec.resourceClaims); KEP-5729; KEP-5547 (Job); JobSet KEP-969.
    """
    if not context.settings.gangScheduling:
        return
    gates = context.settings.schedulerGates
    own = {part.name: frozenset(claims_in(part.template.spec)) for part in workload.parts}
    for block in workload.scheduling_blocks():
        names = [part.name for part in workload.parts_of(block)]
        for index, claim in enumerate(islice(claims_in(block.spec), MAX_CLAIMS)):
            if gates is not None and _GATE not in gates:
                why, remedy = f"schedulerGates lacks {_GATE}", "enable the gate and add it to schedulerGates"
            elif names and not any(claim in own[name] for name in names):
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
    passes=Example(pod_group(**_SHARED), config=ON, facts=known()),
    fails=Example(pod_group(**_TWO_SOURCES), config=ON, facts=known()),
)
def group_claim_fields(found: StoredObject, _: RuleContext) -> Results:
    """A PodGroup lists at most four claims of different names, each with a ResourceClaim or a template. A
    CompositePodGroup lists none. The API server refuses anything else. In a file nothing else says so.

    Source: k8s.io/api scheduling/v1alpha2 and v1beta1 (listMapKey, maxItems; PodGroupResourceClaim: exactly one).
    """
    for place, spec, composite in _groups(found):
        entries, at = list(claims_in(spec)), place / "resourceClaims"
        if composite and entries:
            yield _refused(
                at, len(entries), f"a {COMPOSITES.kind} has no claims", "move them to the PodGroups below it"
            )
            continue
        if len(entries) > MAX_CLAIMS:
            why = f"a PodGroup has at most {MAX_CLAIMS} claims, so the API server refuses it"
            yield _refused(at, len(entries), why, "share fewer claims")
        counted = Counter(one.name for one in entries)
        for index, one in enumerate(entries[: MAX_CLAIMS + 1]):
            if (one.claim is None) is (one.template is None):
                why = "an entry names either a ResourceClaim or a template, so the API server refuses it"
                remedy = "set one of resourceClaimName and resourceClaimTemplateName"
                yield _refused(at / Item(index, one.name), one.name, why, remedy)
            elif counted[one.name] > 1:
                why = "another entry has the same name, so the API server refuses it"
                yield _refused(at / Item(index, one.name), one.name, why, "give each entry a name of its own")


def _groups(found: StoredObject) -> Iterator[tuple[FieldPath, Mapping[str, Any], bool]]:
    if found.kind != WORKLOADS.kind:
        yield SPEC, found.spec, found.kind == COMPOSITES.kind
        return
    for one in templates_in(found.spec):
        yield one.path, one.spec, one.group.composite


def _refused(at: FieldPath, value: object, why: str, remedy: str) -> Finding:
    return Finding(at=at, found=value, why=why, remedy=remedy)


_GROUP = known(pod_groups={"worker": Group(composite=False, minimum=2, claims=(SharedClaim("gpus", template="node"),))})
_OTHER: Manifest = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "pod"}]}


@rule(
    "kube/pod-group-claim",
    kinds=(PODS,),
    default=Action.WARN,
    passes=Example(member(**_CLAIM), config=ON, facts=_GROUP),
    fails=Example(member(**_OTHER), config=ON, facts=_GROUP),
)
def pod_group_claim(found: StoredObject, context: RuleContext) -> Results:
    """A pod shares a claim of its group only if its own entry is equal: the same name and the same source. Otherwise it
    gets a claim of its own, and no message says so.

    Source: k8s.io/api core/v1 (PodResourceClaim), scheduling/v1beta1 (PodGroupSpec.resourceClaims), v0.37.0.
    """
    key = (found.key[0], text(mapping(found.spec.get("schedulingGroup")).get("podGroupName")) or "")
    group = None if context.facts.pod_groups is None else context.facts.pod_groups.get(key)
    if group is None or not group.claims:
        return
    shared = {one.name: one for one in group.claims}
    for index, one in enumerate(claims_in(found.spec)):
        theirs = shared.get(one.name)
        if theirs is not None and theirs != one:
            yield Finding(
                at=SPEC / "resourceClaims" / Item(index, one.name),
                found=one.claim or one.template,
                why=f"the PodGroup {key[1]} has {theirs.claim or theirs.template} under this name, so the pod gets a "
                "claim of its own",
                remedy="copy the entry of the PodGroup, or use another name",
                absent=Needed("pod_groups", key),
            )
