"""The net: a ValidatingAdmissionPolicy that keeps a gang's pod from starting without its gang.

The API server evaluates it itself, so it works while Rollcall is down. It is compiled from the enabled profiles: for
each, the marks by which its scheduler finds a gang (`Backend.membership`). `webhook.testing.start` gives the same
answer in the terms of admission. Its meaning: docs/explanation/net.md.

Source: Kubernetes documentation, "Validating Admission Policy" (stable since 1.30), "CEL in Kubernetes".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from webhook.config.settings import ENFORCEMENT_LABEL, Profile, Settings
from webhook.installation.names import LABELS, NET
from webhook.installation.webhooks import OPTED_IN, judged_namespaces
from webhook.model import grove
from webhook.model.claims import CLAIMS, Mark
from webhook.model.findings import Action
from webhook.model.known_kinds import JOBS, STATEFUL_SETS
from webhook.model.place import LWS_NAME
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.mutators.prepare_pod import STAMP_ANNOTATION, alone_stamp
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.known_workloads import VIEWS
from webhook.workloads.workload_kinds import Candidate, WorkloadKinds
from webhook.workloads.workload_shape import LABEL_IN_NAME, WORKLOAD, PartShape, WorkloadShape

_API_VERSION = "admissionregistration.k8s.io/v1"
# The pods that Grove's operator makes for a gang.
_GANG_PODS: Manifest = {
    "matchLabels": {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE},
    "matchExpressions": [{"key": grove.LABEL_PODGANG, "operator": "Exists"}],
}

# What the API server does with a violation. Only the controller receives a warning, and ignores it; administrators find
# the violation in the audit log.
_ACTIONS = {Action.DENY: ["Deny"], Action.WARN: ["Warn", "Audit"], Action.AUDIT: ["Audit"]}


def net_policy(settings: Settings, own_namespace: str) -> list[Manifest]:
    """Returns the ValidatingAdmissionPolicy and its bindings; empty if the net is off."""
    action = Action[settings.registration.net.upper()]
    if action is Action.OFF:
        return []
    spec = {
        # Nothing here should fail; if it does, the binding's action decides about the pod.
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": judged_namespaces(settings, own_namespace),
            "resourceRules": [_PODS],
        },
        "matchConditions": [_STARTS, _NOT_LEAVING],
        "variables": [{"name": name, "expression": expression} for name, expression in _variables(settings)],
        "validations": [_validation(profile, settings.kinds) for profile in settings.profiles.values()],
    }
    policy = {**_head("ValidatingAdmissionPolicy", NET), "spec": spec}
    return [policy, _binding(NET, action, _GANG_PODS), _binding(f"{NET}-opted-in", action, OPTED_IN)]


def _binding(name: str, action: Action, pods: Manifest) -> Manifest:
    """Returns a binding. Two are needed, because each has only one label selector; other pods are not evaluated."""
    lower = [ceiling.name.lower() for ceiling in sorted(Action) if ceiling < action]
    not_lower = {"key": ENFORCEMENT_LABEL, "operator": "NotIn", "values": lower}
    spec = {
        "policyName": NET,
        "validationActions": list(_ACTIONS[action]),
        "matchResources": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [not_lower]},
            "objectSelector": pods,
        },
    }
    return {**_head("ValidatingAdmissionPolicyBinding", name), "spec": spec}


# Without subresources: pods/binding places a pod on a node, and pods/status reports its state.
_PODS: Manifest = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["CREATE", "UPDATE"],
    "scope": "Namespaced",
}
# Gates cannot be added to an existing pod, so this is the moment when the pod may start; all other updates pass.
_STARTS = {
    "name": "starts",
    "expression": "object.spec.?schedulingGates.orValue([]).size() == 0 && "
    "(request.operation == 'CREATE' || oldObject.spec.?schedulingGates.orValue([]).size() > 0)",
}
_NOT_LEAVING = {"name": "not-leaving", "expression": "!has(object.metadata.deletionTimestamp)"}


# The API group of a controller `o`.
_GROUP = "o.apiVersion.split('/')[0]"


def _variables(settings: Settings) -> Iterable[tuple[str, str]]:
    """Yields the variables of the validations. A pod is identified by its labels before the update."""
    yield "before", "request.operation == 'CREATE' ? object : oldObject"
    yield "identity", "variables.before.metadata.?labels.orValue({})"
    yield "labels", "object.metadata.?labels.orValue({})"
    yield "annotations", "object.metadata.?annotations.orValue({})"
    yield "scheduler", f"object.spec.?schedulerName.orValue({_text(DEFAULT_SCHEDULER)})"
    managed, podgang = _value("identity", grove.LABEL_MANAGED_BY), _value("identity", grove.LABEL_PODGANG)
    yield "ofGrove", f"{managed} == {_text(grove.MANAGED_BY_GROVE)} && {podgang} != ''"
    yield (
        "controllers",
        "variables.before.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))",
    )
    yield "lws", _value("identity", LWS_NAME)
    # Whether a controller `o` makes pods of an opted-in workload, like `WorkloadKinds.place_of`.
    job = f"(o.kind == {_text(JOBS.api.kind)} && {_GROUP} == {_text(JOBS.api.group)})"
    makers = (job, f"({_made_by_leader_worker_set()})", *_made_by_declared(settings.kinds.candidates))
    yield "owned", f"!variables.ofGrove && variables.controllers.exists(o, {' || '.join(makers)})"
    yield "marks", _marks_on_it()
    yield "declared", f"!variables.ofGrove && {_declared(settings.kinds)}"
    # The profile that judges the pod. A pod that the webhooks would leave unchanged has none.
    grove_s = f"{_value('identity', grove.LABEL_PODCLIQUE)} != '' ? variables.scheduler : ''"
    others = f"variables.owned ? {_value('identity', SCHEDULER_LABEL)} : ''"
    yield "profile", f"variables.ofGrove ? ({grove_s}) : ({others})"
    names = f"'PodGang ' + {podgang} : 'a workload for ' + variables.profile"
    yield "gang", f"variables.ofGrove ? {names}"


def _made_by_leader_worker_set() -> str:
    leader = "(o.name == variables.lws ? variables.before.metadata.name : o.name)"
    # Without the label, a name would have to begin with a dash to match, which is not possible.
    index = f"{leader}.substring(variables.lws.size() + 1).matches('^[0-9]+$')"
    of_set = f"o.kind == {_text(STATEFUL_SETS.api.kind)} && {_GROUP} == {_text(STATEFUL_SETS.api.group)}"
    return f"{of_set} && {leader}.startsWith(variables.lws + '-') && {index}"


def _declared(kinds: WorkloadKinds) -> str:
    """Returns whether a pod is of a workload of a declared kind, as `WorkloadKinds.place_of` finds it."""
    roles = " || ".join(f"({_is_role_pod(shape)})" for shape in kinds.with_roles) or "false"
    declared = " || ".join(_made_by_declared(kinds.candidates)) or "false"
    return f"variables.controllers.exists(o, {_made_by_leader_worker_set()} ? ({roles}) : {declared})"


def _gang_made(profile: Profile, kinds: WorkloadKinds) -> str:
    """Returns whether Rollcall makes the gang of an opted-in pod, like `Backend.makes_gangs_of`; empty if it does for
    all kinds. A scheduler that groups some kinds itself may leave the other declared kinds to Rollcall.
    """
    makes = profile.backend.makes_gangs_of
    if all(map(makes, VIEWS)):
        return ""
    others: dict[tuple[str, str], list[Candidate]] = {}
    for kind, candidates in kinds.candidates.items():
        if left := [candidate for candidate in candidates if not makes(candidate.shape.group_kind)]:
            others[kind] = left
    grouped = " || ".join(_made_by_declared(others))
    return f"variables.declared && !variables.controllers.exists(o, {grouped})" if grouped else "variables.declared"


def _is_role_pod(shape: WorkloadShape) -> str:
    """Returns whether a pod of a LeaderWorkerSet has the labels of a role of another workload, like `place_in_role`."""
    name, role = _value("identity", shape.name_label), _value("identity", shape.role_label)
    return (
        f"{name} != '' && {role} != '' && variables.lws.startsWith({name} + '-') && "
        f"variables.lws.substring({name}.size()).endsWith('-' + {role})"
    )


def _made_by_declared(of_kinds: Mapping[tuple[str, str], Iterable[Candidate]]) -> Iterator[str]:
    """Yields for each part of a declared kind whether a controller `o` makes its pods, like `place_by_shape`."""
    for (group, kind), candidates in of_kinds.items():
        parts = " || ".join(dict.fromkeys(f"({_is_part_pod(candidate.part)})" for candidate in candidates))
        core = _GROUP if group else "''"
        has_no_group = "" if group else " && !o.apiVersion.contains('/')"
        yield f"(o.kind == {_text(kind)}{has_no_group} && {core} == {_text(group)} && ({parts}))"


def _is_part_pod(part: PartShape) -> str:
    """Returns whether a pod has the labels of a part, and its controller `o` a name of the part's controllers."""
    conditions = [f"{_value('identity', key)} == {_text(value)}" for key, value in part.pod.labels]
    if part.pod.name_label:
        conditions.append(f"{_value('identity', part.pod.name_label)} != ''")
    if part.pod.chain:
        before, after = (_name_text(text) for text in part.pod.chain[0].name.split(WORKLOAD))
        size = f"({before}).size() + ({after}).size()"
        conditions.append(f"o.name.startsWith({before}) && o.name.endsWith({after}) && o.name.size() > {size}")
    return " && ".join(conditions) or "true"


def _name_text(written: str) -> str:
    """Returns a part of a controller's name as a CEL expression. A label that the pod lacks is in no name."""
    texts = LABEL_IN_NAME.split(written)
    pieces = [
        f"variables.identity[?{_text(text)}].orValue('/')" if place % 2 else _text(text)
        for place, text in enumerate(texts)
        if text
    ]
    return " + ".join(pieces) or "''"


def _marks_on_it() -> str:
    key_lists = []
    for part in ("labels", "annotations"):
        keys = [mark.key for mark, _ in CLAIMS if mark.part == part and mark.value is None]
        key_lists.append(f"{_texts(keys)}.filter(k, variables.{part}[?k].orValue('') != '')")
    single = [mark for mark, _ in CLAIMS if mark.part == "spec" or mark.value is not None]
    key_lists += [f"({_is_on(mark)} ? [{_text(mark.key)}] : [])" for mark in single]
    return " + ".join(key_lists)


def _validation(profile: Profile, kinds: WorkloadKinds) -> Manifest:
    """Returns the validation of pods that one profile judges; it passes if `variables.profile` is another one."""
    alternatives = [f"variables.profile != {_text(profile.name)}"]
    of_grove, of_workload = _is_grove_pod_prepared(profile), _is_workload_pod_prepared(profile, kinds)
    alternatives.append(f"(variables.ofGrove ? ({of_grove}) : ({of_workload}))")
    return {
        "expression": " || ".join(alternatives),
        "message": f"a pod{_complaint(profile)}",
        "messageExpression": f"'a pod of ' + variables.gang + {_text(_complaint(profile))}",
    }


def _complaint(profile: Profile) -> str:
    """Returns the end of the message about a refused pod: what is wrong and what to do."""
    ways = [" with ".join(map(_shown, marks)) for marks in profile.backend.membership if marks]
    if not ways and profile.name == DEFAULT_SCHEDULER:
        ways = [f"the annotation {STAMP_ANNOTATION}"]
    lacks = f", {' or '.join(ways)}" if ways else ""
    wrong = f"it is for {profile.name} and lacks what this scheduler needs to find the gang: the schedulerName{lacks}"
    if profile.name == DEFAULT_SCHEDULER:
        wrong = f"it names {profile.name}, as every pod does by default, without a mark of the gang{lacks}"
    return (
        f" would start without its gang: {wrong}; it bypassed Rollcall, or its workload predates it; "
        f"recreate it while Rollcall is running, or see docs/explanation/net.md for pods that must not be changed"
    )


def _is_grove_pod_prepared(profile: Profile) -> str:
    """Returns whether a pod of Grove with this scheduler has the scheduler's marks, or another system's."""
    ways = profile.backend.membership
    if () not in ways:
        whole = _any_of(ways)
    elif profile.name != DEFAULT_SCHEDULER:
        return "true"
    else:
        # Every pod has this schedulerName by default, so the stamp must show that it was intended.
        whole = f"{_value('annotations', STAMP_ANNOTATION)}.startsWith({_text(f'{DEFAULT_SCHEDULER}/')})"
    return f"{whole} || {_other_than([mark.key for marks in ways for mark in marks])}"


def _is_workload_pod_prepared(profile: Profile, kinds: WorkloadKinds) -> str:
    """Returns whether a pod of an opted-in workload for this scheduler is prepared, or claimed by another system.

    A prepared pod names the scheduler. If Rollcall makes the gang, it also names its group, or has the stamp of a pod
    that no gang needs. If the scheduler makes the gangs of some kinds, that depends on the pod's controller.
    """
    backend = profile.backend
    read = [mark.key for mark, system in CLAIMS if system in backend.reads_claims_of]
    foreign = f"!(variables.scheduler in {_texts(dict.fromkeys((DEFAULT_SCHEDULER, profile.name)))})"
    prepared = f"variables.scheduler == {_text(profile.name)}"
    if any(map(backend.makes_gangs_of, kinds.views)) and () not in backend.membership:
        alone = f"{_value('annotations', STAMP_ANNOTATION)} == {_text(alone_stamp(profile.name))}"
        gang_made = _gang_made(profile, kinds)
        grouped = f"!({gang_made}) || " if gang_made else ""
        prepared += f" && ({grouped}variables.marks.size() > 0 || {alone} || {_any_of(backend.membership)})"
    return f"{foreign} || {_other_than(read)} || ({prepared})"


def _other_than(keys: list[str]) -> str:
    return f"variables.marks.exists(k, !(k in {_texts(keys)}))" if keys else "variables.marks.size() > 0"


def _any_of(ways: Iterable[Iterable[Mark]]) -> str:
    return " || ".join(f"({' && '.join(_is_on(mark) for mark in marks)})" for marks in ways)


def _is_on(mark: Mark) -> str:
    if mark.part == "spec":
        # Some versions of Kubernetes lack the field; `dyn` avoids the check against the schema.
        return f"has(dyn(object).spec.{mark.key})"
    comparison = "!= ''" if mark.value is None else f"== {_text(mark.value)}"
    return f"{_value(mark.part, mark.key)} {comparison}"


def _shown(mark: Mark) -> str:
    if mark.part == "spec":
        return f"spec.{mark.key}"
    return f"the {mark.part.removesuffix('s')} {mark.key}"


def _value(variable: str, key: str) -> str:
    return f"variables.{variable}[?{_text(key)}].orValue('')"


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(_text(value) for value in values)}]"


def _text(value: str) -> str:
    """Returns a CEL string literal; CEL has the escapes of JSON."""
    return json.dumps(value)


def _head(kind: str, name: str) -> Manifest:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name, "labels": dict(LABELS)}}
