"""Names and numbers of a PodCliqueSet that Grove's own webhook refuses: a file on the command line has no such check.

Source of all: ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from webhook.model import grove
from webhook.model.fields import METADATA, SPEC, FieldPath
from webhook.model.findings import Finding
from webhook.model.naming import is_label, is_subdomain
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet, ScalingGroup
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, rule

# The names of pods are built from these names, and a pod's name must fit a host name.
_MAX_JOINED_CHARACTERS = 45


@rule(
    "grove/names",
    passes=Example(pod_clique_set(clique("decode"))),
    fails=Example(pod_clique_set(clique("Decode"))),
)
def names(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """The names of the set, of its cliques and of its scaling groups become names of objects. Grove refuses a name that
    no object can have.

    Source: Grove's own validation of metadata.name, cliques[].name and podCliqueScalingGroups[].name.
    """
    own = text(mapping(workload.raw.get("metadata")).get("name"))
    if own is not None and not is_subdomain(own):
        yield _wrong_name(own, METADATA)
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
    own = text(mapping(workload.raw.get("metadata")).get("name")) or ""
    for member in workload.cliques:
        group = "" if member.group is None else member.group.name
        if (joined := len(own) + len(group) + len(member.name)) > _MAX_JOINED_CHARACTERS:
            with_group = ", of its scaling group" if group else ""
            yield Finding(
                at=member.path / "name",
                found=member.name,
                why=f"the names of the set{with_group} and of the clique have {joined} characters together, and Grove "
                f"refuses more than {_MAX_JOINED_CHARACTERS}",
                remedy="shorten one of these names",
            )


def _as_role(role: str, name: str) -> Manifest:
    found = clique(name)
    found["spec"]["roleName"] = role
    return found


@rule(
    "grove/role-name",
    passes=Example(pod_clique_set(_as_role("lead", "leader"), _as_role("work", "worker"))),
    fails=Example(pod_clique_set(_as_role("work", "leader"), _as_role("work", "worker"))),
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
    found = clique("worker", replicas=4, minimum=2)
    found["spec"]["autoScalingConfig"] = limits
    return found


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
            yield from _maximum(member, config, path)
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


def _maximum(member: Clique, config: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    most, least = integer(config.get("maxReplicas")), integer(config.get("minReplicas"))
    wanted = max(member.replicas, least or 0)
    if (most or 0) < wanted:
        why = "Grove refuses a maxReplicas that is missing or below replicas or minReplicas"
        yield Finding(path / "maxReplicas", most, why, f"set {wanted} or more", instead=(wanted,))
