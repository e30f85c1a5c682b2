"""PodGang to the Workload API's objects, in order of creation: Workload, composites from the top, PodGroups.

Policies and constraints are written twice, into the Workload's templates and into the objects: the API does not copy
them, and kube-scheduler reads the objects. Source: KEP-4671, KEP-6012, Grove's GREP-531.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.backends.inexpressible import inexpressible, refuse_spare_pods, refuse_twins, unknown
from webhook.backends.kube import claims, disruption, keys
from webhook.backends.kube.facts import PARENT, minimum_in, template_in
from webhook.backends.kube.generation import (
    CARRIES_CLASS,
    COMPOSITE,
    GROUP,
    UNREAD,
    Generation,
    Served,
    class_problem,
    known,
    may_carry_class,
    missing,
    served,
    unread,
    workload_apis,
)
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.settings import KubeSettings
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Unjudged
from webhook.model.gang_object import gang_metadata
from webhook.model.keys import Record
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.workloads.podgang import GroupConfig, Member, PackConstraint, PodGang
from webhook.validators.selection import DEFAULT_SCHEDULER

# WorkloadMaxPodGroups: templates in one list.
MAX_TEMPLATES = 8


def gang_objects(podgang: PodGang, record: Record, settings: KubeSettings, facts: ClusterFacts) -> list[Manifest]:
    """The objects of `podgang`; none for a PodGang without members, because its shape would be frozen before it is
    known. Raises `Inexpressible` if this generation cannot express the whole PodGang.

    A member that Grove has released (minReplicas 0) has minCount 0 here; `adopt` keeps the last positive one. Merged
    members share one minCount. If any of them is released, it is negative, and its absolute value is used if there is
    no earlier minimum to keep.
    """
    if not settings.gangScheduling or _external(podgang) or not podgang.members:
        return []
    found = served(settings, workload_apis(settings, facts))
    if found is None:
        raise _no_api(settings, facts)
    spoken = found.generation
    refuse_twins(podgang, "kube/tree")
    _refuse_preferred(podgang)
    _refuse_class(record, spoken, settings, facts)
    if spoken is Generation.TREE:
        return _tree(podgang, _shared(podgang, record, settings, spoken, facts), record, found)
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
    return _flat(podgang, shared, record, found, merged=merged)


def settled(desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
    """`desired` with the disruption mode of the gang's existing groups. In the Workload a member that Grove has
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
        for item in disruption.settled(desired, live)
    ]


def _released(holder: Manifest, minimums: Mapping[str, int]) -> Manifest:
    """`holder` with these minimums, as negative numbers, in the templates of members that Grove has released."""
    changed: dict[str, list[Manifest]] = {}
    for field in disruption.TEMPLATES:
        for entry in holder.get(field, ()):
            template = _released(entry, minimums)
            gang = mapping(entry["schedulingPolicy"].get("gang"))
            if gang.get("minCount", 1) <= 0 and entry["name"] in minimums:
                template = {**template, "schedulingPolicy": _gang(-abs(minimums[entry["name"]]))}
            changed.setdefault(field, []).append(template)
    return {**holder, **changed}


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the minimums from before Grove released its members to 0, at least one pod, with the disruption
    mode and the claims of `live`, and in 1.36 without a priority class if `live` has none.
    """
    api_version, kind = str(desired["apiVersion"]), desired["kind"]
    recorded = mapping(mapping(live).get("spec"))
    spec = dict(desired["spec"])
    if kind != "Workload" and live is not None:
        spec = claims.kept(_classless(disruption.kept(spec, recorded), recorded, api_version), recorded)
    if kind == "CompositePodGroup":
        return {**desired, "spec": spec}
    if kind == "PodGroup":
        spec["schedulingPolicy"] = _kept(spec["schedulingPolicy"], recorded.get("schedulingPolicy"))
    elif api_version.endswith("/v1alpha1"):
        spec["podGroups"] = _kept_in(spec["podGroups"], recorded.get("podGroups"), "policy", api_version)
    else:
        for field in disruption.TEMPLATES:
            if field in spec:
                spec[field] = _kept_in(spec[field], recorded.get(field), "schedulingPolicy", api_version)
    return {**desired, "spec": spec}


def _classless(spec: Manifest, live: Mapping[str, Any], api_version: str) -> Manifest:
    """`spec` of a group or template; in 1.36 without a class that `live` lacks. The field is immutable, and the API
    server drops it while its gate is off.
    """
    if not api_version.endswith(f"/{Generation.V1ALPHA2}") or live.get("priorityClassName"):
        return spec
    return {key: value for key, value in spec.items() if key != "priorityClassName"}


def _kept_in(templates: list[Any], live: Any, policy: str, api_version: str) -> list[Any]:
    before = {text(mapping(found).get("name")): mapping(found) for found in sequence(live)}
    kept = []
    for template in templates:
        known = before.get(template["name"], {})
        found = {**template, policy: _kept(template[policy], known.get(policy))}
        if template["name"] in before:
            found = claims.kept(_classless(disruption.kept(found, known), known, api_version), known)
        for field in disruption.TEMPLATES:
            if field in found:
                found[field] = _kept_in(found[field], known.get(field), policy, api_version)
        kept.append(found)
    if before.keys() == {template["name"] for template in templates}:
        # Up to 1.36 the order is frozen as well (seen), but has no meaning.
        places = {name: place for place, name in enumerate(before)}
        kept.sort(key=lambda template: places[template["name"]])
    return kept


def _kept(policy: Any, live: Any) -> Any:
    wanted = mapping(policy.get("gang")).get("minCount")
    if wanted is None or wanted > 0:
        return policy
    before = integer(mapping(mapping(live).get("gang")).get("minCount")) or -wanted
    return {"gang": {"minCount": max(before, 1)}}


# Flat: the Workload, and from 1.36 on one PodGroup per member.


def _flat(podgang: PodGang, shared: Manifest, record: Record, found: Served, *, merged: bool) -> list[Manifest]:
    if merged:
        minimums = [(keys.MERGED, "", _sum(podgang.members))]
    else:
        minimums = [(keys.template(one.name), one.name, one.min_replicas) for one in podgang.members]
    name, spoken = keys.workload(podgang.gang), found.generation
    head = {"apiVersion": f"{GROUP}/{found.version}", "kind": "Workload", "metadata": gang_metadata(podgang, name)}
    if spoken is Generation.V1ALPHA1:
        entries = [{"name": entry, "policy": _gang(minimum)} for entry, _, minimum in minimums]
        return [{**head, "spec": {"podGroups": entries}}]
    templates, groups = [], []
    for one, clique, minimum in minimums:
        members = [clique] if clique else [member.name for member in podgang.members]
        own = {"schedulingPolicy": _gang(minimum), **shared, **claims.claims_of(podgang, members, record, spoken)}
        templates.append({"name": one, **own})
        groups.append(_pod_group(podgang, clique, found, {**_reference(spoken, name, one), **own}))
    return [{**head, "spec": {"podGroupTemplates": templates}}, *groups]


def _sum(members: Sequence[Member]) -> int:
    """The minimum of all members together. If a member is released, the sum is negative and counts one pod for each
    released member. A sum of only the other members would lower the gang's minimum, which is frozen up to 1.36.
    """
    if all(member.min_replicas > 0 for member in members):
        return sum(member.min_replicas for member in members)
    return -sum(max(member.min_replicas, 1) for member in members)


def _reference(spoken: Generation, workload: str, template: str) -> Manifest:
    if spoken is Generation.V1ALPHA2:
        return {"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}}
    return {"workloadRef": {"workloadName": workload, "templateName": template}}


def _pod_group(podgang: PodGang, clique: str, found: Served, spec: Manifest) -> Manifest:
    divided = clique in podgang.divided
    name = keys.pod_group(podgang.gang, clique, found.generation, merged=not clique, divided=divided)
    labels = {podgang.member_label: clique} if clique else {}
    metadata = gang_metadata(podgang, name, labels)
    return {"apiVersion": f"{GROUP}/{found.version}", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _gang(minimum: int) -> Manifest:
    return {"gang": {"minCount": minimum}}


def _shared(
    podgang: PodGang, record: Record, settings: KubeSettings, spoken: Generation, facts: ClusterFacts
) -> Manifest:
    """What all groups and templates of a gang have."""
    name, classes = record.priority_class, facts.priority_classes
    # In 1.36 a gang whose class the API server would refuse starts while the gate is off, so it is left out there.
    apis = workload_apis(settings, facts)
    named = name is not None and may_carry_class(spoken, settings)
    named = named and (_may_exist(name, facts) or class_problem((classes or {}).get(name or ""), apis) is None)
    priority = {"priorityClassName": name} if named else {}
    return {**priority, **disruption.written(disruption.mode_of(podgang, record, settings), spoken)}


# Hierarchical: one root, a composite for each group of members with a constraint, PodGroups as leaves.


def _tree(podgang: PodGang, shared: Manifest, record: Record, found: Served) -> list[Manifest]:
    groups = _groups(podgang)
    grouped = {name for group in groups for name in group.members}
    direct = [member for member in podgang.members if member.name not in grouped]
    by_name = {member.name: member for member in podgang.members}
    taken = {keys.template(member.name) for member in podgang.members}
    workload = keys.workload(podgang.gang)
    top = keys.root(podgang.gang)

    def template(name: str, policy: Manifest, constraint: PackConstraint) -> Manifest:
        return {"name": name, "schedulingPolicy": policy, **_topology(constraint), **shared}

    def claimed(member: str) -> Manifest:
        return claims.claims_of(podgang, [member], record, Generation.TREE)

    def leaves(members: Sequence[Member]) -> list[Manifest]:
        return [
            {**template(keys.template(one.name), _gang(one.min_replicas), one.constraint), **claimed(one.name)}
            for one in members
        ]

    def composite(name: str, part: str, parent: str | None, count: int, constraint: PackConstraint) -> Manifest:
        spec: Manifest = {} if parent is None else {PARENT: parent}
        spec |= {
            "workloadRef": {"workloadName": workload, "templateName": part},
            "schedulingPolicy": {"gang": {"minGroupCount": count}},
            **_topology(constraint),
            **shared,
        }
        version = f"{GROUP}/{found.composites}"
        metadata = gang_metadata(podgang, name)
        return {"apiVersion": version, "kind": COMPOSITE.kind, "metadata": metadata, "spec": spec}

    _limit(direct, SPEC / "podgroups")
    _limit(groups, SPEC / "topologyConstraintGroupConfigs")
    count = len(direct) + len(groups)
    root = template(keys.ROOT, {"gang": {"minGroupCount": count}}, podgang.constraint)
    if direct:
        root["podGroupTemplates"] = leaves(direct)
    composites = [composite(top, keys.ROOT, None, count, podgang.constraint)]
    parents = dict.fromkeys((member.name for member in direct), top)
    for group in groups:
        _limit(group.members, group.path)
        # A replica of a scaling group may have the same name as a clique, but names in a Workload must be unique.
        part, name = keys.template(group.name, "group", taken), keys.composite(podgang.gang, group.name)
        own = template(part, {"gang": {"minGroupCount": len(group.members)}}, group.constraint)
        own["podGroupTemplates"] = leaves([by_name[member] for member in group.members])
        root.setdefault("compositePodGroupTemplates", []).append(own)
        composites.append(composite(name, part, top, len(group.members), group.constraint))
        parents |= dict.fromkeys(group.members, name)
    pod_groups = [
        _pod_group(
            podgang,
            member.name,
            found,
            {
                PARENT: parents[member.name],
                **_reference(Generation.TREE, workload, keys.template(member.name)),
                "schedulingPolicy": _gang(member.min_replicas),
                **_topology(member.constraint),
                **shared,
                **claimed(member.name),
            },
        )
        for member in podgang.members
    ]
    whole = {
        "apiVersion": f"{GROUP}/{found.version}",
        "kind": "Workload",
        "metadata": gang_metadata(podgang, workload),
        "spec": {"compositePodGroupTemplates": [root]},
    }
    return [whole, *composites, *pod_groups]


def _topology(constraint: PackConstraint) -> Manifest:
    if constraint.required is None:
        return {}
    return {"schedulingConstraints": {"topology": [{"key": constraint.required}]}}


def _groups(podgang: PodGang) -> list[GroupConfig]:
    """The group configs, with each member in at most one of them."""
    known, used = {member.name for member in podgang.members}, set()
    for config in podgang.group_configs:
        for name in config.members:
            if name not in known or name in used:
                why = "this member is not in the PodGang, or another group has it too"
                raise inexpressible("kube/tree", config.path / "podGroupNames", name, why)
            used.add(name)
    return podgang.group_configs


# What cannot be expressed.


def _external(podgang: PodGang) -> bool:
    return podgang.labels.get("grove.io/external-workload-managed") == "true"


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
    """Whether a PriorityClass may exist and is not known."""
    return name not in (facts.priority_classes or {}) and not facts.is_whole("priority_classes")


def _refuse_class(record: Record, spoken: Generation, settings: KubeSettings, facts: ClusterFacts) -> None:
    """Refuses a missing priority class if the classes are known. An unknown class may exist."""
    name = record.priority_class
    if name is None or _may_exist(name, facts) or spoken not in CARRIES_CLASS:
        return
    found = (facts.priority_classes or {}).get(name)
    if (why := class_problem(found, workload_apis(settings, facts))) is not None:
        raise inexpressible("kube/priority-class", SPEC / "priorityClassName", name, why)


def _refuse_topology(podgang: PodGang) -> None:
    for path, required, _ in podgang.constraints:
        if required is not None:
            why = "without CompositePodGroups a gang of the Workload API has no topology"
            raise inexpressible("kube/topology", path / "required", required, why)


def _no_api(settings: KubeSettings, facts: ClusterFacts) -> Inexpressible:
    apis = workload_apis(settings, facts)
    if not known(apis):
        return unknown("kube/workload-api", SPEC, "the served APIs (or apiGeneration)", "apis")
    if (needs := unread(settings, apis)) is not None:
        return Inexpressible((), (Unjudged(SPEC, needs, "kube/workload-api", UNREAD, "apis"),))
    why = f"this cluster does not serve {missing(settings)}"
    return inexpressible("kube/workload-api", SPEC, DEFAULT_SCHEDULER, why)
