"""Registration, pure: the two webhook configurations that bring requests here, and what the server must be allowed.

Both are made from the same tables as the code that they serve, so that nothing is asked for that is not needed, and
nothing is needed that was not asked for. Source: Kubernetes documentation, "Dynamic Admission Control"; the names and
policies are those of the design's section on the server's own life.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.general import GENERAL, general_to_reconciler
from webhook.model.owners.facts import OWNERS
from webhook.model.owners.kinds import GANG_OWNERS
from webhook.model.projections import POD_GANGS, TOPOLOGY_BINDINGS
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.stored_object import PODS
from webhook.settings import Settings

# Mutating webhooks run in the order of their configurations' names: this one after koordinator-, kueue- and lws-, whose
# profiles overwrite fields, and before mutating-kai-admission.
MUTATING, VALIDATING = "m-rollcall", "v-rollcall"
# Without these a cluster cannot heal; whoever breaks the webhook must still be able to repair the cluster.
NEVER_HERE = ("kube-system", "kube-node-lease")

# The Lease by which the reconciler's replicas agree on the one that writes.
LEASE_NAME = "rollcall-reconciler"

LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}
# The API server drops a deletionTimestamp from a manifest only after mutation, so at CREATE it excuses nothing.
_NOT_LEAVING = {
    "name": "not-leaving",
    "expression": "request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp)",
}

# Server-side apply is a patch, which may create.
_WRITING = ("list", "watch", "create", "patch", "delete")
_BINDINGS = TOPOLOGY_BINDINGS.resource


class Address(NamedTuple):
    """Where the API server finds the webhook: a Service (namespace, name, port), or the start of a URL."""

    namespace: str = ""
    service: str = ""
    port: int = 443
    url: str = ""


def webhook_configurations(
    settings: Settings, address: Address, own_namespace: str, ca_bundle: str | None
) -> list[Manifest]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration. `ca_bundle` is PEM in base64."""
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
        found = [
            hook(
                "podcliquesets",
                path,
                [_rule(grove.GROUP, "v1alpha1", "podcliquesets", "CREATE", "UPDATE")],
                {"matchConditions": [_NOT_LEAVING]},
            ),
            hook("pods", path, [_rule("", "v1", "pods", "CREATE")], {"objectSelector": _GANG_PODS}),
        ]
        found += [hook(*one) for one in _owner_hooks(path)]
        return found if path == "mutate" else [*found, *(hook(*one) for one in _object_hooks(settings))]

    return [
        {
            **_head("MutatingWebhookConfiguration", MUTATING),
            "webhooks": [{**found, "reinvocationPolicy": "IfNeeded"} for found in hooks("mutate")],
        },
        {**_head("ValidatingWebhookConfiguration", VALIDATING), "webhooks": hooks("validate")},
    ]


def _owner_hooks(path: str) -> Iterator[tuple[str, str, list[Manifest], Manifest]]:
    """The hooks for workloads that are not Grove's and for their pods: those that are opted in by the label, on them or
    on their namespace.
    """
    opted_in = {"matchExpressions": [{"key": SCHEDULER_LABEL, "operator": "Exists"}]}
    pods = {"objectSelector": opted_in, "matchConditions": [_NOT_GROVES]}
    yield "owned-pods", path, [_rule("", "v1", "pods", "CREATE")], pods
    rules = [_rule(found.api.group, found.api.version, found.plural, "CREATE", "UPDATE") for found in OWNERS]
    yield "workloads", path, rules, {"objectSelector": opted_in, "matchConditions": [_NOT_LEAVING]}
    within = {"namespaceSelector": opted_in, "matchConditions": [_NOT_LEAVING, _UNLABELLED]}
    yield "workloads-of-namespaces", path, rules, within


# What bears it comes by a hook of its own.
_UNLABELLED = {
    "name": "unlabelled",
    "expression": f'!has(object.metadata.labels) || !("{SCHEDULER_LABEL}" in object.metadata.labels)',
}


def _object_hooks(settings: Settings) -> Iterator[tuple[str, str, list[Manifest], Manifest]]:
    """The hooks for gang objects that somebody else stores, and for pods that name such: one a group of kinds."""
    kinds = dict.fromkeys(judged for profile in settings.profiles.values() for judged in profile.judged)
    groups = dict.fromkeys(judged.group for judged in kinds if judged != PODS)
    for group in groups:
        plurals = sorted(judged.plural for judged in kinds if judged.group == group)
        rule = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": plurals,
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }
        yield group.replace(".", "-"), "validate", [rule], {"matchConditions": [_NOT_LEAVING, _NOT_OURS, _CHANGED]}
    conditions = [
        condition for profile in settings.profiles.values() if (condition := profile.backend.judged_pods) is not None
    ]
    if conditions:
        named = {"name": "names-a-group", "expression": " || ".join(f"({one})" for one in conditions)}
        rule = _rule("", "v1", "pods", "CREATE")
        yield "group-pods", "validate", [rule], {"matchConditions": [_NOT_GROVES, _UNLABELLED, named]}


def _differs(field: str) -> str:
    """A CEL expression: whether an update changes that field."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


# Schedulers write their status into the object itself where its kind has no subresource for it (Koordinator's and
# Volcano's PodGroups): that must not wait for us either.
_CHANGED = {
    "name": "changed",
    "expression": "request.operation == 'CREATE' || "
    + " || ".join(map(_differs, ("spec", "metadata.labels", "metadata.annotations"))),
}
# Ours are right, and must not wait for us.
_NOT_OURS = {
    "name": "not-ours",
    "expression": '!has(object.metadata.labels) || !("app.kubernetes.io/managed-by" in object.metadata.labels) || '
    f'object.metadata.labels["app.kubernetes.io/managed-by"] != "{MANAGED_BY_ROLLCALL}"',
}
# Those are asked about by the hook for pods.
_NOT_GROVES = {
    "name": "not-groves",
    "expression": f'!has(object.metadata.labels) || !("{grove.LABEL_PODGANG}" in object.metadata.labels)'
    f' || !("{grove.LABEL_MANAGED_BY}" in object.metadata.labels)'
    f' || object.metadata.labels["{grove.LABEL_MANAGED_BY}"] != "{grove.MANAGED_BY_GROVE}"',
}
# The pods that Grove's operator makes for a gang; no other pod of the cluster ever comes here.
_GANG_PODS: Manifest = {
    "matchLabels": {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE},
    "matchExpressions": [{"key": grove.LABEL_PODGANG, "operator": "Exists"}],
}


def _common(settings: Settings, own_namespace: str) -> Manifest:
    registration = settings.registration
    excluded = [*NEVER_HERE, *registration.excluded_namespaces]
    if own_namespace not in excluded:
        excluded.append(own_namespace)
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
    return {
        "namespaceSelector": {"matchExpressions": [outside]},
        "matchPolicy": "Equivalent",
        "failurePolicy": registration.failure_policy,
        "timeoutSeconds": registration.timeout_seconds,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def _rule(group: str, version: str, plural: str, *operations: str) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "operations": list(operations),
        "scope": "Namespaced",
    }


def _client_config(address: Address, path: str, ca_bundle: str | None) -> Manifest:
    where: Manifest
    if address.url:
        where = {"url": f"{address.url.rstrip('/')}/{path}"}
    else:
        service = {"namespace": address.namespace, "name": address.service, "path": f"/{path}", "port": address.port}
        where = {"service": service}
    return where if ca_bundle is None else {**where, "caBundle": ca_bundle}


def _head(kind: str, name: str) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": dict(LABELS)},
    }


def access_rules(settings: Settings, namespace: str, account: str) -> list[Manifest]:
    """The ClusterRole of the serving process, and its binding to a service account. Nothing in it can write."""
    # What a watch has not brought yet is read by its name.
    rules = _reading(settings, "get", "list", "watch", objects=True)
    # Whether a set that is adopted has pods on nodes.
    rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    return _bound("ClusterRole", "rollcall-serve", rules, namespace, account)


def reconciler_access_rules(settings: Settings, namespace: str, account: str) -> list[Manifest]:
    """The ClusterRole of the reconciler, the Role for its Lease, and their bindings to a service account."""
    rules = _reading(settings, "list", "watch", objects=False)
    for profile in settings.profiles.values():
        if (trees := profile.backend.trees) is not None:
            kind = trees.resource
            rules.append({"apiGroups": [kind.api.group], "resources": [kind.plural], "verbs": ["list", "watch"]})
        for api in profile.backend.writable_kinds:
            rules.append({"apiGroups": [api.group], "resources": [f"{api.kind.lower()}s"], "verbs": list(_WRITING)})
    # By its pods a gang is judged, and asked how far it has come.
    pods = ["list", "watch"]
    if any(profile.gate for profile in settings.profiles.values()):
        pods.append("patch")
    if settings.deleted_escapes:
        pods += ["get", "delete"]
    rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": pods})
    rules += _writing_topologies(settings)
    # An owner reference that blocks its owner's deletion is for those who may finalize the owner.
    owners = [POD_GANGS.resource]
    if settings.makes_gangs_of_owners:
        owners += GANG_OWNERS
        rules += [
            {"apiGroups": [found.api.group], "resources": [found.plural], "verbs": ["list", "watch"]}
            for found in GANG_OWNERS
        ]
    rules += [
        {"apiGroups": [found.api.group], "resources": [f"{found.plural}/finalizers"], "verbs": ["update"]}
        for found in owners
    ]
    events = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}
    # A name can only be asked for where there is one: a creation has none yet.
    leases = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [LEASE_NAME],
            "verbs": ["get", "update"],
        },
    ]
    return [
        *_bound("ClusterRole", "rollcall-reconcile", [*rules, events], namespace, account),
        *_bound("Role", "rollcall-reconcile", leases, namespace, account),
    ]


def _writing_topologies(settings: Settings) -> list[Manifest]:
    """The rules for the topology objects of the enabled schedulers, and for what owns them."""
    kinds = [kind for profile in settings.profiles.values() if (kind := profile.backend.topology_kind) is not None]
    if not kinds:
        return []
    finalizing = {"apiGroups": [grove.GROUP], "resources": [f"{_BINDINGS.plural}/finalizers"], "verbs": ["update"]}
    return [
        *({"apiGroups": [kind.api.group], "resources": [kind.plural], "verbs": list(_WRITING)} for kind in kinds),
        finalizing,
    ]


def _bound(kind: str, name: str, rules: list[Manifest], namespace: str, account: str) -> list[Manifest]:
    """A role, and its binding to a service account; a Role is one of the account's namespace."""
    api_version = "rbac.authorization.k8s.io/v1"
    metadata: Manifest = {"name": name, "labels": dict(LABELS)}
    if kind == "Role":
        metadata["namespace"] = namespace
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": _merged(rules)},
        {
            "apiVersion": api_version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        },
    ]


def _reading(settings: Settings, *verbs: str, objects: bool) -> list[Manifest]:
    """The rules for what the facts of the enabled schedulers are read from, those for judging `objects` or without."""
    backends = [profile.backend for profile in settings.profiles.values()]
    general = GENERAL if objects else general_to_reconciler(owners=settings.makes_gangs_of_owners)
    resources = [
        projection.resource
        for projection in (*general, *(found for one in backends for found in one.followed(objects=objects)))
    ]
    return [{"apiGroups": [found.api.group], "resources": [found.plural], "verbs": list(verbs)} for found in resources]


def _merged(rules: list[dict[str, Any]]) -> list[Manifest]:
    """One rule for each kind and name, with all the verbs that any of `rules` gives."""
    found: dict[tuple[str, ...], Manifest] = {}
    for rule in rules:
        key = (*rule["apiGroups"], "", *rule["resources"], "", *rule.get("resourceNames", ()))
        known = found.setdefault(key, {**rule, "verbs": []})
        known["verbs"] += [verb for verb in rule["verbs"] if verb not in known["verbs"]]
    return list(found.values())
