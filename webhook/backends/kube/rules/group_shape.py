"""What the API server refuses in a single Workload, PodGroup or CompositePodGroup by their schemas. In a cluster it
refuses these before a validating webhook sees them, so the rule is for files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kube.facts import Template, templates_in
from webhook.backends.kube.generation import HIGHEST, is_of_1_38, workload_apis
from webhook.backends.kube.groups import is_of_1_37
from webhook.backends.kube.keys import COMPOSITES, GROUPS, WORKLOADS
from webhook.backends.kube.rules.examples import BASIC, ON, known, pod_group
from webhook.backends.kube.settings import RuleContext
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.group_tree import MAX_DEPTH
from webhook.model.naming import is_key, is_label, is_subdomain
from webhook.model.reading import Manifest, integer, is_unrendered, mapping, sequence, text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

# Of a list of templates, in one Workload or composite (WorkloadMaxPodGroups, WorkloadMaxPodGroupTemplates).
_MOST_TEMPLATES = 8
_FIRST = "podGroups"
_LISTS = (_FIRST, "podGroupTemplates", "compositePodGroupTemplates")
_POLICIES = ("basic", "gang")
_BOTH: Manifest = {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}}
_SO = "so the API server refuses it"


@rule(
    "kube/group-shape",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**BASIC), config=ON, facts=known()),
    fails=Example(pod_group(**_BOTH), config=ON, facts=known()),
)
def group_shape(stored: StoredObject, context: RuleContext) -> Results:
    """The API server refuses a group without exactly one policy, with a minimum below 1, with more than one topology
    key, or with a key, a name, a priority or a preemption policy that cannot be. It refuses a Workload without
    templates, with more than eight in a list, with two of one name, with more than four levels, with an empty
    composite, or with several priorities. No webhook sees a file. From 1.38 on groups may have the priorities of the
    system's own classes.

    Source: kubernetes, pkg/apis/scheduling/validation/validation.go; k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2
    (1.36), v1beta1 and v1alpha3 (1.37.2, 1.38.0-beta.0).
    """
    groups: list[tuple[FieldPath, Mapping[str, Any]]] = [(SPEC, stored.spec)]
    if stored.kind == WORKLOADS.kind:
        yield from _workload_refusals(stored)
        groups = [(template.path, template.spec) for template in templates_in(stored.spec)]
    else:
        yield from _group_refusals(stored.spec, SPEC, composite=stored.kind == COMPOSITES.kind)
    if not is_of_1_37(stored) or is_of_1_38(workload_apis(context.settings, context.facts)) is False:
        for path, spec in groups:
            yield from _high_priority(spec, path)


def _workload_refusals(workload: StoredObject) -> Iterator[Finding]:
    spec, names = workload.spec, set[str]()
    templates = list(templates_in(spec))
    present = [name for name in _LISTS if sequence(spec.get(name))]
    if not present:
        at = SPEC / (_FIRST if workload.version == "v1alpha1" else "podGroupTemplates")
        yield _refused(at, None, "a Workload has at least one template", "add the templates of its groups")
    elif len(present) > 1:
        why = f"a Workload has either {present[0]} or {present[1]}"
        yield _refused(SPEC / present[1], len(sequence(spec[present[1]])), why, "put all groups below one list")
    yield from _too_many(spec, SPEC)
    for template in templates:
        yield from _group_refusals(template.spec, template.path, composite=template.group.composite)
        if template.group.composite:
            yield from _too_many(template.spec, template.path)
            if not any(sequence(template.spec.get(name)) for name in _LISTS[1:]):
                yield _refused(
                    template.path, template.name, "a composite has at least one template below it", "add one"
                )
        if _levels(template) == MAX_DEPTH + 1:
            why = f"templates are nested in at most {MAX_DEPTH} levels"
            yield _refused(template.path, template.name, why, "remove a level of composites")
        if not template.name:
            yield _refused(template.path / "name", None, "each template has a name", "name it")
        elif template.name in names:
            yield _refused(template.path / "name", template.name, "another template has this name", "rename one")
        elif not is_unrendered(template.name) and not is_label(template.name):
            yield _refused(template.path / "name", template.name, "the name of a template is a DNS label", "correct it")
        names.add(template.name)
    # The first generation has no priorities, and the second does not compare them.
    if workload.version not in {"v1alpha1", "v1alpha2"}:
        yield from _priorities(templates)


def _too_many(holder: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    for name in _LISTS:
        if (count := len(sequence(holder.get(name)))) > _MOST_TEMPLATES:
            yield _refused(path / name, count, f"a list has at most {_MOST_TEMPLATES} templates", "make fewer groups")


def _levels(template: Template) -> int:
    """The level of a template, from 1 for those of the Workload itself."""
    return sum(part in _LISTS for part in template.path.parts)


def _priorities(templates: list[Template]) -> Iterator[Finding]:
    """One finding for the first template with another priority or priority class than the first one."""
    for field, read in (("priorityClassName", text), ("priority", integer)):
        values = [read(template.spec.get(field)) for template in templates]
        place = next((index for index, value in enumerate(values) if value != values[0]), None)
        if place is not None:
            why = "all templates of a Workload have one priority"
            yield _refused(templates[place].path / field, values[place], why, "write the same in all of them, or none")


def _group_refusals(spec: Mapping[str, Any], path: FieldPath, *, composite: bool) -> Iterator[Finding]:
    """What is wrong with a group, or with its template."""
    field = "policy" if "schedulingPolicy" not in spec and "policy" in spec else "schedulingPolicy"
    policy = mapping(spec.get(field))
    names = [name for name in _POLICIES if policy.get(name) is not None]
    if len(names) != 1:
        why = "a group has exactly one policy, basic or gang"
        yield _refused(
            path / field, "basic and gang" if names else None, why, "keep one of them" if names else "add it"
        )
    elif names == ["gang"]:
        name = "minGroupCount" if composite else "minCount"
        minimum = integer(mapping(policy["gang"]).get(name))
        if minimum is None or minimum < 1:
            at = path / field / "gang" / name
            yield _refused(at, minimum, "a gang has a minimum of at least 1", "set it to what must start together")
    keys = sequence(mapping(spec.get("schedulingConstraints")).get("topology"))
    at = path / "schedulingConstraints" / "topology"
    if len(keys) > 1:
        yield _refused(at, len(keys), "a group has at most one topology key", "keep one of them")
    for index, raw in enumerate(keys):
        key = text(mapping(raw).get("key"))
        if key is None or (not is_unrendered(key) and not is_key(key)):
            yield _refused(at / Item(index) / "key", key, "it is no key of a label of nodes", "name such a key")
    yield from _values(spec, path)


def _values(spec: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    """The names and the preemption policy of a group that cannot be."""
    names = [(path / "priorityClassName", text(spec.get("priorityClassName")), is_subdomain)]
    reference = spec.get("workloadRef")
    if reference is not None:
        at = path / "workloadRef"
        for field, fits in (("workloadName", is_subdomain), ("templateName", is_label)):
            if (name := text(mapping(reference).get(field))) is None:
                yield _refused(at / field, None, "a group names its Workload and the template", "name it")
            names.append((at / field, name, fits))
    elif text(spec.get("parentCompositePodGroupName")) is not None:
        why = "a group below a composite names its Workload"
        yield _refused(path / "workloadRef", None, why, "name the Workload and the template")
    for index, raw in enumerate(sequence(spec.get("resourceClaims"))):
        claim, at = mapping(raw), path / "resourceClaims" / Item(index)
        names += [
            (at / "name", text(claim.get("name")), is_label),
            (at / "resourceClaimName", text(claim.get("resourceClaimName")), is_subdomain),
            (at / "resourceClaimTemplateName", text(claim.get("resourceClaimTemplateName")), is_subdomain),
        ]
        if names[-3][1] is None:
            yield _refused(at / "name", None, "each claim has a name", "name it")
    for at, name, fits in names:
        if name is not None and not is_unrendered(name) and not fits(name):
            yield _refused(at, name, "no such object can have this name", "correct it")
    preemption = text(spec.get("preemptionPolicy"))
    if preemption not in {None, "Never", "PreemptLowerPriority"}:
        why = "there is no such preemption policy"
        yield _refused(path / "preemptionPolicy", preemption, why, "set Never or PreemptLowerPriority")


def _high_priority(spec: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    priority = integer(spec.get("priority"))
    if priority is not None and priority > HIGHEST:
        why = "before Kubernetes 1.38 higher priorities are for the system"
        yield _refused(path / "priority", priority, why, f"set at most {HIGHEST}")


def _refused(at: FieldPath, value: object, why: str, remedy: str) -> Finding:
    return Finding(at=at, found=value, why=f"{why}, {_SO}", remedy=remedy)
