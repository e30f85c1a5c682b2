"""PodGang to the Workload API's objects, in order of creation: Workload, composites from the top, PodGroups; and the
fields of these objects that are immutable.

Policies and constraints are written twice, into the Workload's templates and into the objects: the API does not copy
them, and kube-scheduler reads the objects. Source: KEP-4671, KEP-6012, Grove's GREP-531.

A Workload (read by the scheduler only in 1.35) and a CompositePodGroup can be recreated under waiting pods, which are
held until then. A PodGroup cannot: from 1.36 on it is deleted only after all of its pods. No object is recreated under
pods that are on nodes, except a Workload from 1.38 on. There the number of groups that a composite waits for is
mutable, and no component reads the Workload, whose list of templates is not. So a tree gets and loses groups under its
running pods: its Workload is recreated, the composites and the other PodGroups stay.

Source: k8s.io/api scheduling (immutability by generation), the finalizer scheduling.k8s.io/podgroup-protection; seen
with v1.35.4, v1.36.3 and v1.37.0. Read: v1.38.0-beta.0, k8s.io/api scheduling/v1beta1 (WorkloadSpec,
CompositeGangSchedulingPolicy), and pkg/scheduler and pkg/controller, which list no Workloads of other controllers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.backends.kube import pods, workload_api
from webhook.backends.kube.groups import PARENT, minimum_in, template_in
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.workload_api import (
    CARRIES_CLASS,
    COMPOSITE,
    COMPOSITE_BETA,
    GROUP,
    TEMPLATES,
    UNREAD,
    Generation,
    KubeSettings,
    Served,
    class_problem,
    may_carry_class,
    missing,
    served,
    shows_workload_api,
    unread,
    workload_apis,
)
from webhook.backends.topologies import inexpressible, refuse_spare_pods, refuse_twins, unknown_fact
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Unjudged
from webhook.model.gang_objects import Frozen, Stage, gang_metadata
from webhook.model.grove import GroupConfig, Member, PackConstraint, PodGang
from webhook.model.keys import Record
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

# WorkloadMaxPodGroups: templates in one list.
MAX_TEMPLATES = 8


def gang_objects(podgang: PodGang, record: Record, settings: KubeSettings, facts: ClusterFacts) -> list[Manifest]:
    """Returns the objects of `podgang`; none for a PodGang without members, because its shape would be frozen before it
    is known. Raises `Inexpressible` if this generation cannot express the whole PodGang.

    A member that Grove has released (minReplicas 0) has minCount 0 here; `adopt` keeps the last positive one. Merged
    members share one minCount. If any of them is released, it is negative, and its absolute value is used if there is
    no earlier minimum to keep.
    """
    external = podgang.labels.get("grove.io/external-workload-managed") == "true"
    if not settings.gangScheduling or external or not podgang.members:
        return []
    versions = served(settings, workload_apis(settings, facts))
    if versions is None:
        raise _no_api(settings, facts)
    spoken = versions.generation
    refuse_twins(podgang, "kube/tree")
    _refuse_preferred(podgang)
    _refuse_class(record, spoken, settings, facts)
    if spoken is Generation.TREE:
        return _tree(podgang, _shared(podgang, record, settings, spoken, facts), record, versions)
    if settings.hierarchical == "required":
        raise inexpressible(
            "kube/workload-api", SPEC, spoken.value, f"{COMPOSITE} is required, but the cluster does not serve it"
        )
    _refuse_topology(podgang)
    merged = is_merged(settings, spoken)
    if merged:
        why = "in one merged PodGroup, pods above one clique's minimum could replace pods of another clique"
        refuse_spare_pods(podgang, "kube/flat-gang", why)
    elif len(podgang.members) > 1 and settings.flat == "refuse":
        why = "without CompositePodGroup, kube-scheduler would make several gangs of it"
        raise inexpressible("kube/flat-gang", SPEC / "podgroups", len(podgang.members), why)
    else:
        _limit(podgang.members, SPEC / "podgroups")
    shared = _shared(podgang, record, settings, spoken, facts)
    return _flat(podgang, shared, record, versions, merged=merged)


def settled(desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
    """Returns `desired` with the disruption mode of the gang's existing groups. In the Workload a member that Grove has
    released has the minimum of its PodGroup as a negative number, which counts where the Workload is recreated.
    """
    minimums = {
        group["metadata"]["name"]: minimum_in(mapping(group.get("spec")), composite=False)
        for group in live
        if group["kind"] == "PodGroup"
    }
    released = {
        template_in(group["spec"]) or "": minimum
        for group in desired
        if group["kind"] == "PodGroup" and (minimum := minimums.get(group["metadata"]["name"]))
    }
    return [
        {**item, "spec": _released(item["spec"], released)} if item["kind"] == "Workload" else item
        for item in workload_api.settled(desired, live)
    ]


def _released(holder: Manifest, minimums: Mapping[str, int]) -> Manifest:
    """Returns `holder` with these minimums, as negative numbers, in the templates of members that Grove has
    released.
    """
    changed: dict[str, list[Manifest]] = {}
    for field in workload_api.TEMPLATES:
        for entry in holder.get(field, ()):
            template = _released(entry, minimums)
            gang = mapping(entry["schedulingPolicy"].get("gang"))
            if gang.get("minCount", 1) <= 0 and entry["name"] in minimums:
                template = {**template, "schedulingPolicy": _gang(-abs(minimums[entry["name"]]))}
            changed.setdefault(field, []).append(template)
    return {**holder, **changed}


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """Returns `desired` with the minimums from before Grove released its members to 0, at least one pod, with the
    disruption mode and the claims of `live`, and in 1.36 without a priority class if `live` has none.
    """
    api_version, kind = str(desired["apiVersion"]), desired["kind"]
    recorded = mapping(mapping(live).get("spec"))
    spec = dict(desired["spec"])
    if kind != "Workload" and live is not None:
        spec = _adopted_fields(spec, recorded, api_version)
    if kind == "CompositePodGroup":
        return {**desired, "spec": spec}
    if kind == "PodGroup":
        spec["schedulingPolicy"] = _adopted_policy(spec["schedulingPolicy"], recorded.get("schedulingPolicy"))
    elif api_version.endswith("/v1alpha1"):
        spec["podGroups"] = _adopted_templates(spec["podGroups"], recorded.get("podGroups"), "policy", api_version)
    else:
        for field in workload_api.TEMPLATES:
            if field in spec:
                spec[field] = _adopted_templates(spec[field], recorded.get(field), "schedulingPolicy", api_version)
    return {**desired, "spec": spec}


def _adopted_fields(spec: Manifest, live: Mapping[str, Any], api_version: str) -> Manifest:
    """Returns `spec` of a group or template with the mode and the claims of `live`; in 1.36 without a class that `live`
    lacks. That field is immutable, and the API server drops it while its gate is off.
    """
    spec = workload_api.keep_mode(spec, live)
    if api_version.endswith(f"/{Generation.V1ALPHA2}") and not live.get("priorityClassName"):
        spec.pop("priorityClassName", None)
    return pods.keep_claims(spec, live)


def _adopted_templates(templates: list[Any], live: Any, policy: str, api_version: str) -> list[Any]:
    before = {text(mapping(entry).get("name")): mapping(entry) for entry in sequence(live)}
    kept = []
    for template in templates:
        existing = before.get(template["name"], {})
        adopted = {**template, policy: _adopted_policy(template[policy], existing.get(policy))}
        if template["name"] in before:
            adopted = _adopted_fields(adopted, existing, api_version)
        for field in workload_api.TEMPLATES:
            if field in adopted:
                adopted[field] = _adopted_templates(adopted[field], existing.get(field), policy, api_version)
        kept.append(adopted)
    if before.keys() == {template["name"] for template in templates}:
        # Up to 1.36 the order is frozen as well (seen), but has no meaning.
        places = {name: place for place, name in enumerate(before)}
        kept.sort(key=lambda template: places[template["name"]])
    return kept


def _adopted_policy(policy: Any, live: Any) -> Any:
    min_count = mapping(policy.get("gang")).get("minCount")
    if min_count is None or min_count > 0:
        return policy
    before = integer(mapping(mapping(live).get("gang")).get("minCount")) or -min_count
    return {"gang": {"minCount": max(before, 1)}}


# Flat: the Workload, and from 1.36 on one PodGroup per member.


def _flat(podgang: PodGang, shared: Manifest, record: Record, versions: Served, *, merged: bool) -> list[Manifest]:
    if merged:
        minimums = [(workload_api.MERGED, "", _sum(podgang.members))]
    else:
        minimums = [(_leaf_name(member), member.name, member.min_replicas) for member in podgang.members]
    name, spoken = workload_api.workload(podgang.gang), versions.generation
    head = {"apiVersion": f"{GROUP}/{versions.version}", "kind": "Workload", "metadata": gang_metadata(podgang, name)}
    if spoken is Generation.V1ALPHA1:
        entries = [{"name": entry, "policy": _gang(minimum)} for entry, _, minimum in minimums]
        return [{**head, "spec": {"podGroups": entries}}]
    templates, groups = [], []
    for template, clique, minimum in minimums:
        members = [clique] if clique else [member.name for member in podgang.members]
        spec = {"schedulingPolicy": _gang(minimum), **shared, **pods.claims_of(podgang, members, record, spoken)}
        templates.append({"name": template, **spec})
        groups.append(_pod_group(podgang, clique, versions, {**_reference(spoken, name, template), **spec}))
    return [{**head, "spec": {"podGroupTemplates": templates}}, *groups]


def _sum(members: Sequence[Member]) -> int:
    """Returns the minimum of all members together. If a member is released, the sum is negative and counts one pod for
    each released member. A sum of only the other members would lower the gang's minimum, which is frozen up to 1.36.
    """
    if all(member.min_replicas > 0 for member in members):
        return sum(member.min_replicas for member in members)
    return -sum(max(member.min_replicas, 1) for member in members)


def _reference(spoken: Generation, workload: str, template: str) -> Manifest:
    if spoken is Generation.V1ALPHA2:
        return {"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}}
    return {"workloadRef": {"workloadName": workload, "templateName": template}}


def _pod_group(podgang: PodGang, clique: str, versions: Served, spec: Manifest) -> Manifest:
    divided = clique in podgang.divided
    name = workload_api.pod_group(podgang.gang, clique, versions.generation, merged=not clique, divided=divided)
    labels = {podgang.member_label: clique} if clique else {}
    metadata = gang_metadata(podgang, name, labels)
    return {"apiVersion": f"{GROUP}/{versions.version}", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _gang(minimum: int) -> Manifest:
    return {"gang": {"minCount": minimum}}


def _shared(
    podgang: PodGang, record: Record, settings: KubeSettings, spoken: Generation, facts: ClusterFacts
) -> Manifest:
    """Returns what all groups and templates of a gang have."""
    name, classes = record.priority_class, facts.priority_classes
    # In 1.36 a gang whose class the API server would refuse starts while the gate is off, so it is left out there.
    apis = workload_apis(settings, facts)
    has_class = name is not None and may_carry_class(spoken, settings)
    has_class = has_class and (_may_exist(name, facts) or class_problem((classes or {}).get(name or ""), apis) is None)
    priority = {"priorityClassName": name} if has_class else {}
    return {**priority, **workload_api.mode_field(workload_api.mode_of(podgang, record, settings), spoken)}


# Hierarchical: one root, a composite for each group of members with a constraint, PodGroups as leaves.


def _tree(podgang: PodGang, shared: Manifest, record: Record, versions: Served) -> list[Manifest]:
    groups = _groups(podgang)
    grouped = {name for group in groups for name in group.members}
    direct = [member for member in podgang.members if member.name not in grouped]
    by_name = {member.name: member for member in podgang.members}
    taken = set(map(_leaf_name, podgang.members))
    workload = workload_api.workload(podgang.gang)
    top = workload_api.root(podgang.gang)

    def template(name: str, policy: Manifest, constraint: PackConstraint) -> Manifest:
        return {"name": name, "schedulingPolicy": policy, **_topology(constraint), **shared}

    def claimed(member: str) -> Manifest:
        return pods.claims_of(podgang, [member], record, Generation.TREE)

    def leaves(members: Sequence[Member]) -> list[Manifest]:
        return [
            {**template(_leaf_name(member), _gang(member.min_replicas), member.constraint), **claimed(member.name)}
            for member in members
        ]

    def composite(name: str, part: str, parent: Manifest, count: int, constraint: PackConstraint) -> Manifest:
        policy = {"schedulingPolicy": {"gang": {"minGroupCount": count}}}
        spec = {**parent, **_reference(Generation.TREE, workload, part), **policy, **_topology(constraint), **shared}
        head = {"apiVersion": f"{GROUP}/{versions.composites}", "kind": COMPOSITE.kind}
        return {**head, "metadata": gang_metadata(podgang, name), "spec": spec}

    def pod_group(member: Member) -> Manifest:
        head = {PARENT: parents[member.name], **_reference(Generation.TREE, workload, _leaf_name(member))}
        policy = {"schedulingPolicy": _gang(member.min_replicas)}
        spec = {**head, **policy, **_topology(member.constraint), **shared, **claimed(member.name)}
        return _pod_group(podgang, member.name, versions, spec)

    _limit(direct, SPEC / "podgroups")
    _limit(groups, SPEC / "topologyConstraintGroupConfigs")
    count = len(direct) + len(groups)
    root = template(workload_api.ROOT, {"gang": {"minGroupCount": count}}, podgang.constraint)
    if direct:
        root["podGroupTemplates"] = leaves(direct)
    composites = [composite(top, workload_api.ROOT, {}, count, podgang.constraint)]
    parents = dict.fromkeys((member.name for member in direct), top)
    for group in groups:
        _limit(group.members, group.path)
        # A replica of a scaling group may have the same name as a clique, but names in a Workload must be unique.
        part, name = workload_api.template(group.name, "group", taken), workload_api.composite(podgang.gang, group.name)
        branch = template(part, {"gang": {"minGroupCount": len(group.members)}}, group.constraint)
        branch["podGroupTemplates"] = leaves([by_name[member] for member in group.members])
        root.setdefault("compositePodGroupTemplates", []).append(branch)
        composites.append(composite(name, part, {PARENT: top}, len(group.members), group.constraint))
        parents |= dict.fromkeys(group.members, name)
    head = {"apiVersion": f"{GROUP}/{versions.version}", "kind": "Workload"}
    whole = {**head, "metadata": gang_metadata(podgang, workload), "spec": {"compositePodGroupTemplates": [root]}}
    return [whole, *composites, *map(pod_group, podgang.members)]


def _leaf_name(member: Member) -> str:
    return workload_api.template(member.name)


def _topology(constraint: PackConstraint) -> Manifest:
    if constraint.required is None:
        return {}
    return {"schedulingConstraints": {"topology": [{"key": constraint.required}]}}


def _groups(podgang: PodGang) -> list[GroupConfig]:
    """Returns the group configs, with each member in at most one of them."""
    members, used = {member.name for member in podgang.members}, set()
    for config in podgang.group_configs:
        for name in config.members:
            if name not in members or name in used:
                why = "this member is not in the PodGang, or another group has it too"
                raise inexpressible("kube/tree", config.path / "podGroupNames", name, why)
            used.add(name)
    return podgang.group_configs


# What cannot be expressed.


def _limit(templates: Sequence[Any], path: FieldPath) -> None:
    if len(templates) > MAX_TEMPLATES:
        why = f"the Workload API allows at most {MAX_TEMPLATES} templates in a list"
        raise inexpressible("kube/too-many-groups", path, len(templates), why)


def _refuse_preferred(podgang: PodGang) -> None:
    for path, _, preferred in podgang.constraints:
        if preferred is not None:
            why = "the Workload API supports only required topology, not preferred topology"
            raise inexpressible("kube/preferred-topology", path / "preferred", preferred, why)


def _may_exist(name: str | None, facts: ClusterFacts) -> bool:
    return name not in (facts.priority_classes or {}) and not facts.is_whole("priority_classes")


def _refuse_class(record: Record, spoken: Generation, settings: KubeSettings, facts: ClusterFacts) -> None:
    """Refuses a missing priority class if the classes are known. An unknown class may exist."""
    name = record.priority_class
    if name is None or _may_exist(name, facts) or spoken not in CARRIES_CLASS:
        return
    priority_class = (facts.priority_classes or {}).get(name)
    if (why := class_problem(priority_class, workload_apis(settings, facts))) is not None:
        raise inexpressible("kube/priority-class", SPEC / "priorityClassName", name, why)


def _refuse_topology(podgang: PodGang) -> None:
    for path, required, _ in podgang.constraints:
        if required is not None:
            why = "without CompositePodGroups a gang of the Workload API has no topology"
            raise inexpressible("kube/topology", path / "required", required, why)


def _no_api(settings: KubeSettings, facts: ClusterFacts) -> Inexpressible:
    apis = workload_apis(settings, facts)
    if not shows_workload_api(apis):
        return unknown_fact("kube/workload-api", SPEC, "the served APIs (or apiGeneration)", "apis")
    if (needs := unread(settings, apis)) is not None:
        return Inexpressible((), (Unjudged(SPEC, needs, "kube/workload-api", UNREAD, "apis"),))
    why = f"this cluster does not serve {missing(settings)}"
    return inexpressible("kube/workload-api", SPEC, DEFAULT_SCHEDULER, why)


# From 1.38 on, a composite is deleted only after the groups below it.
# Source: kubernetes/kubernetes, pull request 141021.
COMPOSITE_PROTECTION = "scheduling.k8s.io/compositepodgroup-protection"
_Pair = tuple[Manifest, Manifest]
_WHY = "the Workload API does not allow this change"
# Of a PodGroup and a CompositePodGroup. Of the other immutable fields the API server fills in the priority, and `adopt`
# keeps the disruptionMode.
_FIXED = ("parentCompositePodGroupName", "workloadRef", "podGroupTemplateRef", "schedulingConstraints")


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """Returns the objects of `live` that the API server would not let change to `desired`; None if there are none."""
    becomes = {_identity(manifest): manifest for manifest in desired}
    pairs = [(old, becomes[_identity(old)]) for old in live if _identity(old) in becomes]
    # A removed class shows only in the Workload: the API server may have given a group the cluster's default class.
    classed = any(_class(old) != _class(new) for old, new in pairs if old["kind"] == "Workload")
    # Whether the gang is a tree in the versions that only 1.38 and later serve.
    beta = f"{GROUP}/{COMPOSITE_BETA.version}", COMPOSITE_BETA.kind
    grows = any((manifest["apiVersion"], manifest["kind"]) == beta for manifest in desired)
    recreated = tuple(old for old, new in pairs if classed or _fixed(old, grows=grows) != _fixed(new, grows=grows))
    if not recreated:
        return None
    what = "; ".join(dict.fromkeys(_differences(pairs))) or "how its objects refer to each other"
    return Frozen(what, _WHY, _last_stage(pairs, recreated, grows=grows), recreated)


def _last_stage(pairs: Sequence[_Pair], recreated: Sequence[Manifest], *, grows: bool) -> Stage:
    """Returns the last stage at which these objects can be recreated. Waiting pods need a group that exists afterwards,
    or they wait for ever. There is none if no leaf template stays, as when the gang changes between merged and separate
    members. Nothing waits for a Workload of a gang that `grows` in place.
    """
    kept = any(_leaves(old) & _leaves(new) for old, new in pairs if old["kind"] == "Workload")
    if kept and grows and all(manifest["kind"] == "Workload" for manifest in recreated):
        return Stage.BOUND
    protected = any(
        manifest["kind"] == "PodGroup"
        or COMPOSITE_PROTECTION in sequence(mapping(manifest.get("metadata")).get("finalizers"))
        for manifest in recreated
    )
    return Stage.WAITING if kept and not protected else Stage.EMPTY


def _leaves(workload: Manifest) -> set[str]:
    return {name for name, template in _templates(workload).items() if not template.composite}


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return str(manifest["apiVersion"]), str(manifest["kind"]), str(manifest["metadata"]["name"])


class _FrozenTemplate(NamedTuple):
    """One template of a Workload, and what is frozen in it. `minimum` counts pods, or groups for a composite."""

    parent: str
    composite: bool
    minimum: int | None
    topology: str | None
    priority_class: str | None


def _templates(workload: Manifest) -> dict[str, _FrozenTemplate]:
    """Returns the templates by name, which is unique in the whole tree."""
    spec = mapping(workload.get("spec"))
    entries = sequence(spec.get("podGroups"))
    flat = {_name(entry): _read_template(mapping(entry), "", composite=False, policy="policy") for entry in entries}
    return flat | dict(_nested_templates(spec, ""))


def _nested_templates(holder: Mapping[str, Any], parent: str) -> Iterator[tuple[str, _FrozenTemplate]]:
    for field in TEMPLATES:
        for entry in map(mapping, sequence(holder.get(field))):
            yield _name(entry), _read_template(entry, parent, composite=field == TEMPLATES[1])
            yield from _nested_templates(entry, _name(entry))


def _name(entry: Any) -> str:
    return text(mapping(entry).get("name")) or ""


def _read_template(
    entry: Mapping[str, Any], parent: str, *, composite: bool, policy: str = "schedulingPolicy"
) -> _FrozenTemplate:
    gang = mapping(mapping(entry.get(policy)).get("gang"))
    minimum = integer(gang.get("minGroupCount" if composite else "minCount"))
    keys = sequence(mapping(entry.get("schedulingConstraints")).get("topology"))
    topology = ", ".join(str(mapping(key).get("key")) for key in keys) or None
    return _FrozenTemplate(parent, composite, minimum, topology, text(entry.get("priorityClassName")))


def _class(workload: Manifest) -> str | None:
    return next((template.priority_class for template in _templates(workload).values()), None)


def _fixed(manifest: Manifest, *, grows: bool) -> object:
    """Returns the values that must be equal before and after. A gang that `grows` in place may wait for other numbers
    of groups.
    """
    api_version, kind, spec = manifest["apiVersion"], manifest["kind"], mapping(manifest.get("spec"))
    old = api_version in {f"{GROUP}/{Generation.V1ALPHA1}", f"{GROUP}/{Generation.V1ALPHA2}"}
    if kind == "Workload":
        # From 1.37 on, minimums of pods can change.
        return {
            name: template if old or (template.composite and not grows) else template._replace(minimum=None)
            for name, template in _templates(manifest).items()
        }
    fixed: list[object] = [spec.get(field) or None for field in _FIXED]
    if old or (kind == COMPOSITE.kind and not grows):
        gang = mapping(mapping(spec.get("schedulingPolicy")).get("gang"))
        fixed += [integer(gang.get("minCount")), integer(gang.get("minGroupCount"))]
    return fixed


def _differences(pairs: Sequence[_Pair]) -> Iterator[str]:
    """Yields what changed, in words, from the Workloads."""
    for old, new in pairs:
        if old["kind"] == "Workload":
            before, now = _templates(old), _templates(new)
            yield from (f"{_shown_name(name)} is new" for name in now if name not in before)
            yield from (f"{_shown_name(name)} is gone" for name in before if name not in now)
            for name in before:
                if name in now:
                    yield from _moved(_shown_name(name), before[name], now[name])


def _moved(name: str, before: _FrozenTemplate, now: _FrozenTemplate) -> Iterator[str]:
    parts: list[tuple[str, object, object]] = [
        (f"the topology of {name}", before.topology, now.topology),
        ("the priority class", before.priority_class, now.priority_class),
        (f"the group of {name}", before.parent and _shown_name(before.parent), now.parent and _shown_name(now.parent)),
    ]
    if not now.composite:
        # A composite's minimum is the number of its members, whose changes are already reported.
        parts.append((f"the minimum of {name}", before.minimum, now.minimum))
    for what, was, becomes in parts:
        if was != becomes:
            yield f"{what} goes from {was or 'none'} to {becomes or 'none'}"


def _shown_name(name: str) -> str:
    """Returns a template's name in a message: two names stand for the whole gang."""
    return "the whole gang" if name in {workload_api.ROOT, workload_api.MERGED} else name
