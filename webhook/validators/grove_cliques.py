"""Rules about the cliques and scaling groups of a PodCliqueSet: their names, their numbers, and what they refer to.

Grove's own webhook refuses most of it; a file on the command line has no such check. Source of all names and limits:
ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain
from typing import Any

from webhook.model import grove
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, SPEC, FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Api, is_label, is_subdomain
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.validators.examples import clique, pod_clique_set, scaling_group
from webhook.validators.registry import Context, Example, Results, rule
from webhook.validators.shared_checks import missing_apis
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet, ScalingGroup

# How many cliques are suggested in place of a wrong one.
_OFFERED = 3
_KOORDINATOR_POD_GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")


@rule(
    "rollcall/api-missing",
    capability=Capability.GANG,
    passes=Example(pod_clique_set(), facts=ClusterFacts(apis=frozenset({_KOORDINATOR_POD_GROUP}))),
    fails=Example(pod_clique_set(), facts=ClusterFacts(apis=frozenset({Api("grove.io", "v1alpha1", "PodCliqueSet")}))),
)
def api_missing(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Without the kind of its gang objects a scheduler either holds the pods for a group that cannot be written, or
    does not know that they are a gang. The API server drops a field that the CRD of an older release lacks, without an
    error. The gang then has no minimum for each clique.

    Source: Koordinator, pkg/scheduler/plugins/coscheduling: a pod whose PodGroup does not exist is held without an
    event. Volcano's CRD before v1.14.0, KAI's before v0.15.0; Kubernetes prunes fields that a CRD does not know.
    """
    return missing_apis(context)


@rule(
    "grove/min-available",
    passes=Example(pod_clique_set(clique("worker", replicas=4, minimum=2))),
    fails=Example(pod_clique_set(clique("worker", replicas=2, minimum=4))),
)
def min_available(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """A gang that needs more pods than will ever exist never starts. A gang that needs no pods is not a gang.

    Source: in a cluster Grove's own validation refuses it (minAvailable > 0 and at most replicas, for cliques and
    scaling groups). A file on the command line has no such check.
    """
    for member in workload.cliques:
        if not 1 <= member.min_available <= member.replicas:
            yield _minimum(member.min_available, member.replicas, member.spec, member.path / "spec", "clique")
    for group in workload.scaling_groups:
        if not 1 <= group.min_available <= group.replicas:
            yield _minimum(group.min_available, group.replicas, group.raw, group.path, "scaling group")


def _minimum(minimum: int, replicas: int, spec: Mapping[str, Any], path: FieldPath, holder: str) -> Finding:
    if spec.get("minAvailable") is None:
        why = f"a gang needs at least one pod of every {holder}"
        if spec.get("replicas") is None:
            why = "without replicas Grove sets minAvailable to 0, and then refuses the set"
        return Finding(at=path / "replicas", value=spec.get("replicas"), why=why, remedy="set replicas to 1 or more")
    path /= "minAvailable"
    if minimum < 1:
        why = f"a gang needs at least one pod of every {holder}"
        remedy = "set minAvailable to 1 or more" if replicas > 0 else "set replicas and minAvailable to 1 or more"
        return Finding(at=path, value=minimum, why=why, remedy=remedy)
    why = f"the {holder} has {replicas} replicas, so its gang could never be complete"
    remedy = (
        f"set minAvailable to {replicas} or less, or raise replicas" if replicas > 0 else "set replicas to 1 or more"
    )
    return Finding(path, minimum, why, remedy)


@rule(
    "grove/clique-name-suffix",
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("pleader"), clique("pworker"))),
    fails=Example(pod_clique_set(clique("worker"), clique("pworker"))),
)
def clique_name_suffix(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove finds the template of a PodClique by the suffix of its name and uses the first match, so a clique may be
    built from the template of another clique.

    Source: ai-dynamo/grove, operator/internal/controller/podcliqueset/components/podclique/podclique.go
    (`strings.HasSuffix`, first hit in template order; 2026-08).
    """
    suffixes = _longest_suffixes([member.name for member in workload.cliques])
    if not suffixes:
        return
    # By name: the first later clique whose longer name ends in it. Only later cliques count, because Grove finds a
    # longer name correctly if it comes first.
    longer: dict[str, str] = {}
    matches: list[tuple[Clique, str]] = []
    for member in reversed(workload.cliques):
        if member.name in longer:
            matches.append((member, longer[member.name]))
        suffix = suffixes.get(member.name)
        while suffix is not None:
            longer[suffix] = member.name
            suffix = suffixes.get(suffix)
    for member, name in reversed(matches):
        why = f"it is the suffix of the clique name {name}, and Grove matches templates by suffix"
        yield Finding(member.path / "name", member.name, why, "rename one of the two")


def _longest_suffixes(names: Iterable[str]) -> dict[str, str]:
    """Returns, by name that ends in another name, the longest such other name."""
    longest: dict[str, str] = {}
    # Sorted from their ends: the names that are suffixes of a name come directly before it, on this stack.
    every, ends = sorted({name[::-1] for name in names if name}), list[str]()
    if not any(map(str.startswith, every[1:], every)):
        return longest
    for backwards in every:
        while ends and not backwards.startswith(ends[-1]):
            ends.pop()
        if ends:
            longest[backwards[::-1]] = ends[-1][::-1]
        ends.append(backwards)
    return longest


@rule(
    "grove/scaling-group-clique",
    looks_at=("podCliqueScalingGroups",),
    passes=Example(pod_clique_set(clique("worker"), groups=[scaling_group("decode", "worker")])),
    fails=Example(pod_clique_set(clique("worker"), groups=[scaling_group("decode", "wroker")])),
)
def scaling_group_clique(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """A scaling group with a clique that does not exist yields a gang with a member that never gets pods.

    Source: in a cluster Grove's own validation refuses it (podCliqueScalingGroups[].cliqueNames). A file on the command
    line has no such check.
    """
    names = {member.name for member in workload.cliques}
    wrong = any(not names.issuperset(group.clique_names) for group in workload.scaling_groups)
    offered = ", ".join(nsmallest(_OFFERED, names)) if wrong and names else "the cliques"
    for group in workload.scaling_groups if wrong else ():
        for name in group.clique_names:
            if name not in names:
                why = "no clique of the set has that name"
                remedy = f"name one of {offered}, or add a clique with that name"
                yield Finding(group.path / "cliqueNames", name, why, remedy)


@rule(
    "grove/own-names",
    fails_closed=True,
    passes=Example(pod_clique_set(clique("leader"), clique("worker"), groups=[scaling_group("decode", "worker")])),
    fails=Example(pod_clique_set(clique("worker"), clique("worker"))),
)
def duplicate_names(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """The members of a gang are identified by the names of cliques and scaling groups. If two share a name, or a clique
    is in two groups, the pods of one would count for the other. No gang object is written for such a gang.

    Source: in a cluster the CRD of grove.io/v1alpha1 (cliques are a map by name) and Grove's own validation refuse it.
    A file on the command line has no such check.
    """
    for what, holders in (("clique", workload.cliques), ("scaling group", workload.scaling_groups)):
        seen: set[str] = set()
        for holder in holders:
            if not holder.name:
                yield Finding(holder.path / "name", None, f"a {what} needs a name", f"name the {what}")
            elif holder.name in seen:
                yield Finding(
                    holder.path / "name", holder.name, f"another {what} has the same name", "rename one of the two"
                )
            seen.add(holder.name)
    grouped: dict[str, str] = {}
    for group in workload.scaling_groups:
        for name in group.clique_names:
            if name in grouped:
                why = f"the clique is already in the scaling group {shown(grouped[name])}"
                yield Finding(group.path / "cliqueNames", name, why, "name the clique once, in one scaling group")
            grouped[name] = group.name


@rule(
    "grove/no-cliques",
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example({**pod_clique_set(), "spec": {"replicas": 1, "template": {"cliques": []}}}),
)
def no_cliques(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """A set without cliques has no gang to judge. Grove's validation of an empty list ends in a recovered panic.

    Source: ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation (2026-08).
    """
    if not workload.cliques:
        yield Finding(SPEC / "template" / "cliques", [], "a PodCliqueSet needs at least one clique", "add a clique")


# The names of pods are built from these names, and a pod's name must fit a host name.
_MAX_JOINED_CHARACTERS = 45


@rule("grove/names", passes=Example(pod_clique_set(clique("decode"))), fails=Example(pod_clique_set(clique("Decode"))))
def names(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """The names of the set, of its cliques and of its scaling groups become names of objects. Grove refuses a name that
    no object can have.

    Source: Grove's own validation of metadata.name, cliques[].name and podCliqueScalingGroups[].name.
    """
    set_name = text(mapping(workload.raw.get("metadata")).get("name"))
    if set_name is not None and not is_subdomain(set_name):
        yield _wrong_name(set_name, METADATA)
    for member in _members(workload):
        if member.name and not is_subdomain(member.name):
            yield _wrong_name(member.name, member.path)


def _wrong_name(name: str, holder: FieldPath) -> Finding:
    why = "Grove refuses a name with other characters than a-z, 0-9, - and ., or with - or . at an end"
    right = name.lower().replace("_", "-")
    return Finding(holder / "name", name, why, "rename it", instead=(right,) if is_subdomain(right) else ())


@rule(
    "grove/name-length",
    passes=Example(pod_clique_set(clique("w" * 41))),
    fails=Example(pod_clique_set(clique("w" * 42))),
)
def name_length(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a set if its name, the name of a scaling group and the name of a clique have more than 45
    characters together: the names of the pods would be too long.

    Source: Grove's own validation of cliques[].name and podCliqueScalingGroups[].cliqueNames.
    """
    set_name = text(mapping(workload.raw.get("metadata")).get("name")) or ""
    for member in workload.cliques:
        group = "" if member.group is None else member.group.name
        if (joined := len(set_name) + len(group) + len(member.name)) > _MAX_JOINED_CHARACTERS:
            with_group = ", of its scaling group" if group else ""
            why = (
                f"the names of the set{with_group} and of the clique have {joined} characters together, and Grove "
                f"refuses more than {_MAX_JOINED_CHARACTERS}"
            )
            yield Finding(member.path / "name", member.name, why, "shorten one of these names")


def _clique_of_role(role: str, name: str) -> Manifest:
    member = clique(name)
    member["spec"]["roleName"] = role
    return member


@rule(
    "grove/role-name",
    passes=Example(pod_clique_set(_clique_of_role("lead", "leader"), _clique_of_role("work", "worker"))),
    fails=Example(pod_clique_set(_clique_of_role("work", "leader"), _clique_of_role("work", "worker"))),
)
def role_name(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses two cliques with the same role, or two without one.

    Source: Grove's own validation of cliques[].spec.roleName.
    """
    seen: set[str | None] = set()
    for member in workload.cliques:
        role = text(member.spec.get("roleName"))
        if role in seen:
            same = "no roleName either" if role is None else "the same roleName"
            why = f"another clique has {same}, and Grove refuses the set"
            yield Finding(member.path / "spec" / "roleName", role, why, "give each clique its own roleName")
        seen.add(role)


@rule(
    "grove/negative-replicas",
    passes=Example({**pod_clique_set(), "spec": {**pod_clique_set()["spec"], "replicas": 0}}),
    fails=Example({**pod_clique_set(), "spec": {**pod_clique_set()["spec"], "replicas": -1}}),
)
def negative_replicas(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a set with a negative number of replicas.

    Source: Grove's own validation of spec.replicas.
    """
    if workload.replicas < 0:
        why = "Grove refuses a negative number"
        yield Finding(SPEC / "replicas", workload.replicas, why, "set 0 or more", instead=(1,))


@rule(
    "grove/mnnvl-name",
    looks_at=(grove.MNNVL_GROUP,),
    passes=Example(pod_clique_set(annotations={grove.MNNVL_GROUP: "train"})),
    fails=Example(pod_clique_set(annotations={grove.MNNVL_GROUP: "Train 1"})),
)
def mnnvl_name(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses the name of a multi-node NVLink group that is not a DNS label: it is part of the name of a
    ComputeDomain.

    Source: ai-dynamo/grove, operator/internal/mnnvl (validation of the annotation, v0.1.0-alpha.9 on).
    """
    holders = [(workload.annotations, METADATA)]
    holders += [(member.annotations, member.path) for member in _members(workload)]
    for written, holder in holders:
        if grove.MNNVL_GROUP in written and not is_label(text(written[grove.MNNVL_GROUP]) or ""):
            at = holder / "annotations" / grove.MNNVL_GROUP
            why = "Grove refuses a group whose name is not a DNS label"
            remedy = f'name it with a-z, 0-9 and -, or set "{grove.MNNVL_NONE}"'
            yield Finding(at, written[grove.MNNVL_GROUP], why, remedy)


def _members(workload: PodCliqueSet) -> Iterable[Clique | ScalingGroup]:
    return chain(workload.cliques, workload.scaling_groups)


def _scaled(**limits: int) -> Manifest:
    member = clique("worker", replicas=4, minimum=2)
    member["spec"]["autoScalingConfig"] = limits
    return member


@rule(
    "grove/scaling-limits",
    looks_at=("autoScalingConfig", "scaleConfig"),
    passes=Example(pod_clique_set(_scaled(minReplicas=2, maxReplicas=8))),
    fails=Example(pod_clique_set(_scaled(minReplicas=1, maxReplicas=8))),
)
def scaling_limits(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses autoscaling below the minimum of a gang, and a maximum below the number of replicas. A clique of a
    scaling group cannot be scaled alone.

    Source: Grove's own validation of autoScalingConfig and scaleConfig.
    """
    for member in workload.cliques:
        if (written := member.spec.get("autoScalingConfig")) is None:
            continue
        config, path = mapping(written), member.path / "spec" / "autoScalingConfig"
        if member.group is not None:
            why = "the clique is in a scaling group, and Grove scales only the whole group"
            yield Finding(path, config, why, "remove it, and set scaleConfig of the scaling group")
        else:
            yield from _limits(member, config, path)
            most, least = integer(config.get("maxReplicas")), integer(config.get("minReplicas"))
            minimum = max(member.replicas, least or 0)
            if (most or 0) < minimum:
                why = "Grove refuses a maxReplicas that is missing or below replicas or minReplicas"
                yield Finding(path / "maxReplicas", most, why, f"set {minimum} or more", instead=(minimum,))
    for group in workload.scaling_groups:
        if (written := group.raw.get("scaleConfig")) is not None:
            yield from _limits(group, mapping(written), group.path / "scaleConfig")


def _limits(scaled: Clique | ScalingGroup, config: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    minimum, written = scaled.min_available, integer(config.get("minReplicas"))
    # Grove's defaulting: the replicas as they are written, for a clique 0 if they are missing.
    missing = scaled.replicas if isinstance(scaled, ScalingGroup) else integer(scaled.spec.get("replicas")) or 0
    if (missing if written is None else written) < minimum:
        why = f"minAvailable is {minimum}, and Grove refuses a lower minReplicas"
        if written is None:
            why = f"{why}; it is {missing}, as replicas are written"
        yield Finding(path / "minReplicas", written, why, f"set {minimum} or more", instead=(minimum,))
