"""Rules about the templates of a PodCliqueSet: what they must not have, because Grove's own webhook refuses it. A file
on the command line has no such check.

Source of all: ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation (v0.1.0-alpha.8 to 2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from webhook.model.capabilities import Capability
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.keys import is_key, is_label_value
from webhook.model.quantity import nanoseconds
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, rule
from webhook.workloads.pod_clique_set import PodCliqueSet

_TEMPLATE = SPEC / "template"
_CONTAINERS = ("containers", "initContainers")
_SCOPES = ("AllReplicas", "PerReplica")
# IsEnvVarName of k8s.io/apimachinery.
_VARIABLE = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z][-._a-zA-Z0-9]*")
_NAME = itemgetter("name")
_NO_VARIABLE = (
    "a variable's name has only letters, digits, -, _ and ., begins with no digit and not with .., and is not a dot, "
    "so Grove refuses it"
)


@rule(
    "grove/pod-template",
    looks_at=("nodeName", "topologySpreadConstraints"),
    passes=Example(pod_clique_set(clique("worker", pod={"nodeSelector": {"pool": "gpu"}}))),
    fails=Example(pod_clique_set(clique("worker", pod={"nodeName": "node-1"}))),
)
def pod_template(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Grove refuses a new set whose pods name their node or have topologySpreadConstraints. The API server refuses a
    pod with a nodeName and a scheduling gate, and Grove gives a gate to every pod.

    Source: Grove's own validation of podSpec, at creation only; k8s.io/kubernetes, pkg/apis/core/validation
    (`ValidatePodCreate`).
    """
    for member in workload.cliques:
        if (node := text(member.pod_spec.get("nodeName"))) is not None:
            why = "Grove refuses a new set with it, and no pod can have it beside Grove's scheduling gate"
            yield Finding(member.spec_path / "nodeName", node, why, "choose nodes by nodeSelector or nodeAffinity")
        constraints = sequence(member.pod_spec.get("topologySpreadConstraints"))
        if constraints and not context.is_update:
            why = "Grove refuses a new set whose pods have them"
            remedy = (
                "remove them; podAntiAffinity keeps pods apart, a topologyConstraint of the clique keeps them close"
            )
            yield Finding(member.spec_path / "topologySpreadConstraints", constraints, why, remedy)


@rule(
    "grove/clique-labels",
    looks_at=("labels", "annotations"),
    passes=Example(pod_clique_set(clique("worker", labels={"example.com/role": "worker"}))),
    fails=Example(pod_clique_set(clique("worker", labels={"role": "a worker"}))),
)
def clique_labels(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses labels and annotations of a clique that its pods could not have.

    Source: Grove's own validation of cliques[].labels and cliques[].annotations; k8s.io/apimachinery, metav1 and api
    validation.
    """
    for member in workload.cliques:
        for key, value in mapping(member.raw.get("labels")).items():
            if not is_key(key):
                yield Finding(member.path / "labels" / key, key, "no label can have this key", "correct the key")
            elif not is_label_value(text(value) or ""):
                why = "a label's value has letters, digits, -, _ and . between letters or digits, at most 63 in all"
                yield Finding(member.path / "labels" / key, value, why, "correct it, or make it an annotation")
        for key in member.annotations:
            if not is_key(key.lower()):
                at = member.path / "annotations" / key
                yield Finding(at, key, "no annotation can have this key", "correct the key")


def _environment(*names: str) -> Manifest:
    container = {"name": "main", "image": "example.com/main", "env": [{"name": name, "value": "1"} for name in names]}
    return clique("worker", pod={"containers": [container]})


@rule(
    "grove/environment",
    passes=Example(pod_clique_set(_environment("RANK", "WORLD_SIZE"))),
    fails=Example(pod_clique_set(_environment("RANK", "RANK"))),
)
def environment(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a container with an environment variable twice, or with a name that no variable can have.

    Source: Grove's own validation of the containers and initContainers of podSpec (since v0.1.0-alpha.7).
    """
    for member in workload.cliques:
        for field in _CONTAINERS:
            if (containers := member.pod_spec.get(field)) is None:
                continue
            for index, container in enumerate(sequence(containers)):
                variables = sequence(mapping(container).get("env"))
                if variables and not _have_valid_names(variables):
                    place = member.spec_path / field / Item(index, text(container.get("name"))) / "env"
                    yield from _name_faults(variables, place)


def _have_valid_names(variables: Sequence[Any]) -> bool:
    """Returns whether each variable has a valid name of its own. Nearly all do."""
    try:
        names = {*map(_NAME, variables)}
        # A name in ASCII that Python accepts is one that Kubernetes accepts, and quicker to recognize.
        plain = all(map(str.isidentifier, names)) and "".join(names).isascii()
        return len(names) == len(variables) and (plain or all(map(_VARIABLE.fullmatch, names)))
    except (TypeError, KeyError):
        return False


def _name_faults(variables: Sequence[Any], place: FieldPath) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, name in enumerate(text(mapping(variable).get("name")) or "" for variable in variables):
        at = place / Item(index, name or None) / "name"
        if not _VARIABLE.fullmatch(name):
            why = _NO_VARIABLE
            yield Finding(at, name or None, why, "rename it")
        elif name in seen:
            yield Finding(at, name, "the container has the variable twice, and Grove refuses the set", "write it once")
        seen.add(name)


@rule(
    "grove/termination-delay",
    looks_at=("terminationDelay",),
    passes=Example(pod_clique_set(terminationDelay="30m")),
    fails=Example(pod_clique_set(terminationDelay="0s")),
)
def termination_delay(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a set whose terminationDelay is not above zero. It cannot read one that is no duration.

    Source: Grove's own validation of terminationDelay; k8s.io/apimachinery, metav1.Duration.
    """
    written = workload.template.get("terminationDelay")
    delay = 1 if written is None else nanoseconds(text(written) or "")
    if delay is None or delay <= 0:
        why = "Grove cannot read it as a duration" if delay is None else "Grove refuses a delay that is not above zero"
        remedy = "set one such as 30m, or remove it: then it is 4h"
        yield Finding(_TEMPLATE / "terminationDelay", written, why, remedy)


def _claim(name: str, *requests: str) -> Manifest:
    devices = {"requests": [{"name": request, "exactly": {"deviceClassName": "gpu"}} for request in requests]}
    return {"name": name, "templateSpec": {"spec": {"devices": devices}}}


@rule(
    "grove/claim-templates",
    capability=Capability.RESOURCE_CLAIMS,
    passes=Example(pod_clique_set(resourceClaimTemplates=[_claim("gpus", "gpu")])),
    fails=Example(pod_clique_set(resourceClaimTemplates=[_claim("gpus", "gpu"), _claim("gpus", "gpu")])),
)
def claim_templates(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a ResourceClaim template without a name, with the name of another one, or without a device request.

    Source: Grove's own validation of resourceClaimTemplates.
    """
    seen: set[str] = set()
    for template, path in _entries(workload.template, "resourceClaimTemplates", _TEMPLATE):
        yield from _entry_name_faults(template, path, seen, "template")
        spec = mapping(mapping(template.get("templateSpec")).get("spec"))
        if not sequence(mapping(spec.get("devices")).get("requests")):
            at = path / "templateSpec" / "spec" / "devices" / "requests"
            why = "Grove refuses a template that requests no device"
            yield Finding(at, None, why, "add a device request, or remove the template")


@rule(
    "grove/resource-sharing",
    capability=Capability.RESOURCE_CLAIMS,
    passes=Example(pod_clique_set(resourceSharing=[{"name": "gpus", "scope": "AllReplicas"}])),
    fails=Example(pod_clique_set(resourceSharing=[{"name": "gpus", "scope": "Replica"}])),
)
def resource_sharing(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a shared claim without a name, with the name of another one in the list, with a scope that it does
    not know, with a namespace although the set has the template, or with a filter that selects nothing.

    Source: Grove's own validation of resourceSharing, of sets, scaling groups and cliques.
    """
    templates = {
        text(template.get("name")) for template, _ in _entries(workload.template, "resourceClaimTemplates", _TEMPLATE)
    }
    cliques = {member.name for member in workload.cliques}
    groups = {group.name for group in workload.scaling_groups}
    children: dict[str, Container[str]] = {"childCliqueNames": cliques, "childScalingGroupNames": groups}
    yield from _sharing_faults(workload.template, _TEMPLATE, templates, children)
    for group in workload.scaling_groups:
        if group.raw.get("resourceSharing"):
            yield from _sharing_faults(
                group.raw, group.path, templates, {"childCliqueNames": frozenset(group.clique_names)}
            )
    for member in workload.cliques:
        yield from _sharing_faults(member.raw, member.path, templates, {})


def _sharing_faults(
    holder: Mapping[str, Any], path: FieldPath, templates: Container[str | None], children: Mapping[str, Container[str]]
) -> Iterator[Finding]:
    """Yields what Grove refuses in one list. `children` are the names that each field of a filter may select."""
    seen: set[str] = set()
    for shared, at in _entries(holder, "resourceSharing", path):
        yield from _entry_name_faults(shared, at, seen, "shared claim")
        namespace, scope = text(shared.get("namespace")), text(shared.get("scope"))
        if namespace is not None and (name := text(shared.get("name"))) is not None and name in templates:
            why = "the set itself has the template of that name, and Grove refuses a namespace beside it"
            yield Finding(at / "namespace", namespace, why, "remove the namespace, or rename the template")
        if scope not in _SCOPES:
            why = "Grove knows no such scope" if scope else "Grove requires a scope"
            yield Finding(at / "scope", scope, why, f"set {' or '.join(_SCOPES)}")
        if children and shared.get("filter") is not None:
            yield from _filter_faults(mapping(shared["filter"]), at / "filter", children)


def _filter_faults(
    selected: Mapping[str, Any], at: FieldPath, children: Mapping[str, Container[str]]
) -> Iterator[Finding]:
    if not any(sequence(selected.get(field)) for field in children):
        why = "Grove refuses a filter that names nothing"
        yield Finding(at, selected, why, f"name entries in {' or '.join(children)}, or remove the filter")
    for field, names in children.items():
        for index, name in enumerate(sequence(selected.get(field))):
            if (text(name) or "") not in names:
                what = "scaling group of the set" if field == "childScalingGroupNames" else "clique here"
                why = f"no {what} has that name, and Grove refuses the filter"
                yield Finding(at / field / Item(index), name, why, "correct the name, or remove it")


def _entries(holder: Mapping[str, Any], field: str, path: FieldPath) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    for index, entry in enumerate(map(mapping, sequence(holder.get(field)))):
        yield entry, path / field / Item(index, text(entry.get("name")))


def _entry_name_faults(entry: Mapping[str, Any], path: FieldPath, seen: set[str], what: str) -> Iterator[Finding]:
    name = text(entry.get("name"))
    if name is None:
        yield Finding(path / "name", None, f"Grove refuses a {what} without a name", f"name the {what}")
    elif name in seen:
        why = f"another {what} in the list has the same name, and Grove refuses the set"
        yield Finding(path / "name", name, why, "rename one of the two")
    else:
        seen.add(name)
