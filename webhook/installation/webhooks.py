"""The two webhook configurations that make the API server call Rollcall, with their match conditions.

They are made from the same tables as the code that serves them, so the API server calls Rollcall only for objects that
it judges. It does not call `/validate` for a pod that `/mutate` has sealed (`webhook.validators.registry`), if nothing
has changed the labels that the seal names and the pod has no trait that a rule looks for. Users that the settings name,
and Rollcall's own service accounts, are exempt from the rules about gang objects.

Source: Kubernetes documentation, "Dynamic Admission Control"; the names and policies are those of the design's section
on the server's own life.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from webhook.config.settings import Profile, Settings
from webhook.installation.names import (
    EXEMPT_LABEL,
    LABELS,
    MUTATING,
    NEXT_LABEL,
    NEXT_PATH,
    NEXT_PORT,
    RECONCILER,
    SERVER,
    VALIDATING,
)
from webhook.model import grove
from webhook.model.admission_request import ANY_NAMESPACE, service_account
from webhook.model.findings import Action
from webhook.model.gang_objects import JUDGED_PODS
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.workload_record import POD_CLIQUE, SCALING_GROUP, SCHEDULER_LABEL
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import SEAL_ANNOTATION

# The name of the condition.
NOT_EXEMPT = "not-exempt"


def installation_settings(settings: Settings, namespace: str) -> Settings:
    """Returns the settings for that namespace: its service accounts are the reconcilers, unless others are set."""
    # The server's service account in the server's Pods, another one in its own Pods. Both write during an upgrade from
    # one to the other.
    own_users = service_account(namespace, SERVER), service_account(namespace, RECONCILER)
    return replace(settings, tenancy=replace(settings.tenancy, reconcilers=settings.tenancy.reconcilers or own_users))


_USER = "request.userInfo.username"
_ACCOUNT = f"system:serviceaccount:{ANY_NAMESPACE}:"
# The labels and annotations of a pod with a controller were judged in its template.
_CONTROLLED = "object.metadata.?ownerReferences[?0].?controller.orValue(false)"


def unsealed_condition(settings: Settings) -> Manifest | None:
    """Returns the matchCondition of the webhook that judges Grove's pods; None if it judges all of them.

    If a webhook may stay without an answer, `/mutate` may not have seen the pod, and its seal says nothing.
    """
    conditions = map(seal_condition, settings.profiles.values())
    sealed = sorted(f"({condition})" for condition in conditions if condition is not None)
    if not sealed or not settings.registration.must_answer:
        return None
    users = _operators(settings.tenancy.grove_operators)
    return {"name": "unsealed", "expression": f"!({users} && {_CONTROLLED} && ({' || '.join(sealed)}))"}


def seal_condition(profile: Profile) -> str | None:
    """Returns a CEL expression: whether a pod has the seal of that profile and no trait that its rules look for; None
    if the profile seals no pods.

    It does not depend on the settings of the profile: under settings that let no pod be sealed, `/mutate` seals none.
    """
    seal = profile.seal
    if seal is None:
        return None
    podgang, podclique = (_value("labels", key) for key in (grove.LABEL_PODGANG, grove.LABEL_PODCLIQUE))
    seal_text = f'{podgang} + "/" + {podclique} + "/{seal.digest}"'
    scheduled = f"object.spec.schedulerName == {json.dumps(profile.name)}"
    sealed = f"{scheduled} && {_value('annotations', SEAL_ANNOTATION)} == {seal_text}"
    return f"{sealed} && !({seal.traits})" if seal.traits else sealed


def _operators(users: tuple[str, ...]) -> str:
    """Returns a CEL expression: whether the user is one of `users`; service accounts may be in any namespace."""
    exact = sorted(user for user in users if not user.startswith(_ACCOUNT))
    anywhere = sorted(user.removeprefix(_ACCOUNT) for user in users if user.startswith(_ACCOUNT))
    parts = f'{_USER}.split(":")'
    account = f'({_USER}.startsWith("system:serviceaccount:") && {parts}.size() == 4 && {parts}[3] in '
    conditions = [f"{_USER} in {_compact(exact)}"] if exact else []
    conditions += [f"{account}{_compact(anywhere)})"] if anywhere else []
    return f"({' || '.join(conditions)})" if conditions else "false"


def _value(part: str, key: str) -> str:
    return f'object.metadata.?{part}[?{json.dumps(key)}].orValue("")'


def _compact(values: list[str]) -> str:
    return json.dumps(values, separators=(",", ":"))


# Without these namespaces a cluster cannot recover; a broken webhook must not block its own repair.
NEVER_HERE = ("kube-system", "kube-node-lease")

# Only the stored object shows that it is being deleted. A request may contain anything: the API server drops a
# deletionTimestamp from a manifest, but only after mutation.
_NOT_LEAVING = {
    "name": "not-leaving",
    "expression": "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)",
}


# The kind of a webhook, its path, its rules, and what narrows it.
_Hook = tuple[str, str, list[Manifest], Manifest]


class Address(NamedTuple):
    """Where the API server finds the webhook: a Service (namespace, name, port), or the start of a URL."""

    namespace: str = ""
    service: str = ""
    port: int = 443
    url: str = ""
    # The whole URL of the hook for the next certificate, if there is no Service.
    next_url: str = ""


def webhook_configurations(
    settings: Settings, address: Address, own_namespace: str, ca_bundle: str | None
) -> list[Manifest]:
    """Returns the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration. `ca_bundle` is PEM in base64."""
    common = _common(settings, own_namespace)
    outside = common["namespaceSelector"]["matchExpressions"]

    def hook(kind: str, path: str, rules: list[Manifest], narrowed: Manifest) -> Manifest:
        inside = narrowed.get("namespaceSelector", {}).get("matchExpressions", [])
        return {
            "name": f"{kind}.{path}.rollcall.dev",
            "clientConfig": _client_config(address, path, ca_bundle),
            "rules": rules,
            **narrowed,
            **common,
            "namespaceSelector": {"matchExpressions": [*outside, *inside]},
        }

    def hooks(path: str) -> list[Manifest]:
        sets = [_rule(grove.GROUP, "v1alpha1", "podcliquesets", "CREATE", "UPDATE")]
        condition = unsealed_condition(settings) if path == "validate" else None
        only_unsealed = {} if condition is None else {"matchConditions": [condition]}
        registered = [
            hook("podcliquesets", path, sets, {"matchConditions": [_NOT_LEAVING]}),
            hook("pods", path, [_POD_RULE], {"objectSelector": _selected(_IN_PODGANG), **only_unsealed}),
        ]
        registered += [hook(*definition) for definition in _opted_in_hooks(settings, path)]
        if path == "validate":
            registered += [hook(*definition) for definition in _object_hooks(settings, own_namespace)]
            # Only a warning is at stake.
            marked = _marked_pod_hooks("warned-pods", settings, refusing=False)
            warned = (_scale_hook(), *_unknown_kind_hooks(settings), *marked)
            registered += [{**hook(*definition), "failurePolicy": "Ignore"} for definition in warned]
        if settings.certificates.self_managed:
            registered.append(_next_hook(settings, path, address, own_namespace, ca_bundle))
        return registered

    mutating = [{**entry, "reinvocationPolicy": "IfNeeded"} for entry in hooks("mutate")]
    return [
        {**_head("MutatingWebhookConfiguration", MUTATING), "webhooks": mutating},
        {**_head("ValidatingWebhookConfiguration", VALIDATING), "webhooks": hooks("validate")},
    ]


def next_hook_name(path: str) -> str:
    """Returns the name of the hook that shows whether the API server trusts the next authority."""
    return f"next.{path}.rollcall.dev"


def is_next_hook(name: str) -> bool:
    """Returns whether a webhook with that name only tests the certificate that will be served next."""
    return name.startswith("next.")


def _next_hook(settings: Settings, path: str, address: Address, own_namespace: str, ca_bundle: str | None) -> Manifest:
    """Returns a hook that only tests the next certificate.

    With a dry run of a ConfigMap, the reconciler sees which certificate the API server receives and trusts at the port
    of the next certificate. The label has another value in each configuration, because an API server returns equal
    warnings only once.
    """
    where = Address(address.namespace, address.service, NEXT_PORT)
    config = _client_config(where, NEXT_PATH, ca_bundle)
    if address.url:
        config = {"url": address.next_url} | ({} if ca_bundle is None else {"caBundle": ca_bundle})
    return {
        "name": next_hook_name(path),
        "clientConfig": config,
        "rules": [_rule("", "v1", "configmaps", "CREATE")],
        **_common(settings, own_namespace),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": own_namespace}},
        "objectSelector": {"matchLabels": {NEXT_LABEL: path}},
        "failurePolicy": "Ignore",
    }


def _opted_in_hooks(settings: Settings, path: str) -> Iterator[_Hook]:
    """Yields the hooks for opted-in workloads and their pods; the label is on them or on their namespace."""
    kinds = settings.kinds
    yield "owned-pods", path, [_POD_RULE], {"objectSelector": _selected(_LABELLED, _IN_NO_PODGANG)}
    rules = [_kind_rule(resource) for kind in kinds.views for resource in kinds.written(kind)]
    yield "workloads", path, rules, {"objectSelector": OPTED_IN, "matchConditions": [_NOT_LEAVING]}
    by_namespace = (kind for kind, view in kinds.views.items() if view.by_namespace)
    rules = [_kind_rule(resource) for kind in by_namespace for resource in kinds.written(kind)]
    within = {"namespaceSelector": OPTED_IN, "matchConditions": [_NOT_LEAVING, _NOT_LABELLED]}
    yield "workloads-of-namespaces", path, rules, within


def _kind_rule(resource: Resource) -> Manifest:
    # The API server converts other versions of the kind, as matchPolicy Equivalent says. A version with other paths has
    # its own rule, so that it is judged as it is written.
    return _rule(resource.api.group, resource.api.version, resource.plural, "CREATE", "UPDATE")


# A workload with the label is covered by another hook. Of an update, a selector would match either object.
_NOT_LABELLED = {
    "name": "unlabelled",
    "expression": f'!has(object.metadata.labels) || !("{SCHEDULER_LABEL}" in object.metadata.labels)',
}


def _object_hooks(settings: Settings, own_namespace: str) -> Iterator[_Hook]:
    """Yields the hooks for gang objects that other users write, and for pods that name one: one for each API group."""
    users = _compact(sorted(installation_settings(settings, own_namespace).exempt_users))
    judged_users = {"name": NOT_EXEMPT, "expression": f"!({_USER} in {users})"}
    kinds = dict.fromkeys(judged for profile in settings.profiles.values() for judged in profile.judged)
    groups = dict.fromkeys(judged.group for judged in kinds if judged != JUDGED_PODS)
    for group in groups:
        plurals = sorted(judged.plural for judged in kinds if judged.group == group)
        rule = {**_rule(group, "*", "", "CREATE", "UPDATE"), "resources": plurals, "scope": "*"}
        yield group.replace(".", "-"), "validate", [rule], {"matchConditions": [judged_users, _CHANGED]}
    yield from _marked_pod_hooks("group-pods", settings, refusing=True)


def _scale_hook() -> _Hook:
    """Returns the hook for the numbers that `kubectl scale` and autoscalers write. A Scale leaves 0 out."""
    rules = [_rule(grove.GROUP, "v1alpha1", f"{plural}/scale", "UPDATE") for plural in (POD_CLIQUE, SCALING_GROUP)]
    new, old = (f"{name}.?spec.?replicas.orValue(0)" for name in ("object", "oldObject"))
    return "scales", "validate", rules, {"matchConditions": [{"name": "changed", "expression": f"{new} != {old}"}]}


def _marked_pod_hooks(name: str, settings: Settings, *, refusing: bool) -> Iterator[_Hook]:
    """Yields the hook for pods with marks of the schedulers whose rules about pods may refuse, or do not."""
    conditions = [
        names_a_group(profile)
        for profile in settings.profiles.values()
        if profile.backend.judged_marks and refuses_pods(profile) is refusing
    ]
    if conditions:
        condition = {"name": "names-a-group", "expression": " || ".join(conditions)}
        yield name, "validate", [_POD_RULE], {"objectSelector": _OTHER_PODS, "matchConditions": [condition]}


def names_a_group(profile: Profile) -> str:
    """Returns a CEL expression: whether a pod has a mark that the rules of a profile judge."""
    return "(" + " || ".join(mark.cel for mark in profile.backend.judged_marks) + ")"


def refuses_pods(profile: Profile) -> bool:
    """Returns whether a rule of its scheduler refuses pods that name a group, unless it is configured otherwise."""
    return any(JUDGED_PODS in rule.kinds and rule.default is Action.DENY for rule in profile.backend.rules)


def _unknown_kind_hooks(settings: Settings) -> Iterator[_Hook]:
    """Yields the hooks for pods of an unknown controller: in opted-in namespaces, and for a gang scheduler."""
    controllers = sorted(f"{kind}.{group}".rstrip(".") for group, kind in settings.kinds.judged_controllers)
    qualified_kind = "(o.apiVersion.contains('/') ? o.kind + '.' + o.apiVersion.split('/')[0] : o.kind)"
    is_unknown = f"o.?controller.orValue(false) && !({qualified_kind} in {json.dumps(controllers)})"
    owned = f"object.metadata.?ownerReferences.orValue([]).exists(o, {is_unknown})"
    unknown = {"name": "unknown-kind", "expression": owned}
    within = {"namespaceSelector": OPTED_IN, "objectSelector": _OTHER_PODS, "matchConditions": [unknown]}
    yield "unknown-kinds-of-namespaces", "validate", [_POD_RULE], within
    names = sorted(name for name in settings.profiles if name != DEFAULT_SCHEDULER)
    if names:
        with_scheduler = f"object.spec.schedulerName in {json.dumps(names)}"
        conditions = [unknown, {"name": "names-a-gang-scheduler", "expression": with_scheduler}]
        elsewhere = {"namespaceSelector": _selected(_UNLABELLED), "objectSelector": _OTHER_PODS}
        yield "unknown-kinds", "validate", [_POD_RULE], {**elsewhere, "matchConditions": conditions}


def _differs(field: str) -> str:
    """Returns a CEL expression: whether an update changes that field."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


# Schedulers write status into the object itself if its kind has no status subresource (Koordinator's and Volcano's
# PodGroups). This must not wait for Rollcall. The removal of finalizers from an object that is being deleted must not
# wait either. Its scheduler still reads its spec, so a change of the spec is judged.
_CHANGED = {
    "name": "changed",
    "expression": "request.operation == 'CREATE' || "
    + " || ".join(map(_differs, ("spec", "metadata.labels", "metadata.annotations"))),
}
# The hook for pods covers every pod that names a PodGang, also one that Grove did not make, and the other hooks no such
# pod. So Grove's pods are told from others by selectors: for each hook with a matchCondition that it evaluates, the API
# server converts the whole pod, which takes a tenth of a millisecond.
_IN_PODGANG: Manifest = {"key": grove.LABEL_PODGANG, "operator": "Exists"}
_IN_NO_PODGANG: Manifest = {"key": grove.LABEL_PODGANG, "operator": "DoesNotExist"}
_LABELLED: Manifest = {"key": SCHEDULER_LABEL, "operator": "Exists"}
_UNLABELLED: Manifest = {"key": SCHEDULER_LABEL, "operator": "DoesNotExist"}


def _selected(*expressions: Manifest) -> Manifest:
    return {"matchExpressions": list(expressions)}


# A workload, pod or namespace that itself asks for a scheduler.
OPTED_IN: Manifest = _selected(_LABELLED)
_OTHER_PODS = _selected(_IN_NO_PODGANG, _UNLABELLED)

# The emergency exemption of one namespace, with any value of the label.
_NOT_EXEMPT: Manifest = {"key": EXEMPT_LABEL, "operator": "DoesNotExist"}


def _common(settings: Settings, own_namespace: str) -> Manifest:
    registration = settings.registration
    return {
        "namespaceSelector": judged_namespaces(settings, own_namespace),
        "matchPolicy": "Equivalent",
        "failurePolicy": registration.failure_policy,
        "timeoutSeconds": registration.timeout_seconds,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def judged_namespaces(settings: Settings, own_namespace: str) -> Manifest:
    """Returns the selector of the namespaces in which anything is judged."""
    excluded = [*NEVER_HERE, *settings.registration.excluded_namespaces]
    if own_namespace not in excluded:
        excluded.append(own_namespace)
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
    return {"matchExpressions": [outside, _NOT_EXEMPT]}


def _rule(group: str, version: str, plural: str, *operations: str) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "operations": list(operations),
        "scope": "Namespaced",
    }


_POD_RULE = _rule("", "v1", "pods", "CREATE")


def _client_config(address: Address, path: str, ca_bundle: str | None) -> Manifest:
    service = {"namespace": address.namespace, "name": address.service, "path": f"/{path}", "port": address.port}
    where: Manifest = {"url": f"{address.url.rstrip('/')}/{path}"} if address.url else {"service": service}
    return where if ca_bundle is None else {**where, "caBundle": ca_bundle}


def _head(kind: str, name: str) -> Manifest:
    metadata = {"name": name, "labels": dict(LABELS)}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata}
