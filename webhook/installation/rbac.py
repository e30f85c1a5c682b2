"""The rights of the two service accounts, and the CRDs of other projects that a configuration needs.

Both are made from the same tables as the code that uses them, so the rights grant exactly what is needed. Rollcall has
no CRD of its own: its state is in labels and in the schedulers' objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from webhook.config.settings import Settings, followed_projections
from webhook.installation.names import (
    CA_SECRET,
    LABELS,
    LEASE_NAME,
    LOSS_RECORDS,
    MUTATING,
    RECONCILER_ROLE,
    SERVER,
    SERVER_ROLE,
    TLS_SECRET,
    VALIDATING,
)
from webhook.model import kueue
from webhook.model.gang_objects import REPORTS
from webhook.model.keys import Api
from webhook.model.kueue_objects import ADMISSION_CHECK_KIND, WORKLOAD_KIND
from webhook.model.place import GROVE_POD_CONTROLLERS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, Resource
from webhook.model.reading import Manifest
from webhook.workloads.kueue_integration import OWNERS_BESIDES, CheckMode

# API groups that an API server serves without a CRD, if it serves them.
_BUILT_IN = {"", "apps", "batch", "resource.k8s.io", "scheduling.k8s.io"}


class NeededKind(NamedTuple):
    """A CustomResourceDefinition: its name, the version that is used, and its users. If a `required` one is missing, no
    workload of that scheduler is admitted; the others are read if served.
    """

    name: str
    version: str
    users: tuple[str, ...]
    required: bool


def needed_kinds(settings: Settings) -> list[NeededKind]:
    """Returns the CustomResourceDefinitions that the enabled profiles need, the required ones first."""
    kinds: dict[Api, NeededKind] = {}

    def add(resource: Resource, who: str, *, required: bool) -> None:
        api = resource.api
        if api.group in _BUILT_IN:
            return
        earlier = kinds.get(api)
        wanted_by = (who,) if earlier is None else tuple(dict.fromkeys((*earlier.users, who)))
        needed = required or (earlier is not None and earlier.required)
        kinds[api] = NeededKind(resource.qualified, api.version, wanted_by, needed)

    for projection in (POD_CLIQUE_SETS, POD_GANGS):
        add(projection.resource, "Grove", required=True)
    add(TOPOLOGY_BINDINGS.resource, "Grove", required=False)
    for name, profile in settings.profiles.items():
        backend = profile.backend
        read = {projection.resource.api: projection.resource for projection in backend.followed(objects=True)}
        for api in backend.required_apis:
            add(read.get(api) or Resource(api, f"{api.kind.lower()}s"), name, required=True)
        others = [*read.values()]
        if backend.topology_kind is not None:
            others.append(backend.topology_kind)
        for resource in others:
            add(resource, name, required=False)
    for shadow in settings.shadows:
        for profile in shadow.settings.profiles.values():
            for projection in profile.backend.followed(objects=True):
                if not projection.for_objects:
                    add(projection.resource, f"shadow {shadow.name}", required=False)
    for resource in (*settings.kinds.admitted, *(projection.resource for projection in settings.kinds.projections)):
        add(resource, "other workloads", required=False)
    followed = (followed_projections(settings, objects=objects) for objects in (True, False))
    for projection in dict.fromkeys(projection for projections in followed for projection in projections):
        if projection.resource.api.group == kueue.GROUP:
            add(projection.resource, "Kueue", required=False)
    return sorted(kinds.values(), key=lambda kind: not kind.required)


def _rule(group: str, plural: str, *verbs: str, names: Sequence[str] = ()) -> Manifest:
    restricted = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": [plural], **restricted, "verbs": list(verbs)}


def _rule_on(resource: Resource, *verbs: str, part: str = "") -> Manifest:
    """Returns a rule on a kind, or on a `part` of its objects such as `/status`."""
    return _rule(resource.api.group, resource.plural + part, *verbs)


# Server-side apply is a patch that may create.
_WRITING = ("list", "watch", "create", "patch", "delete")


def access_rules(settings: Settings, namespace: str, account: str) -> list[Manifest]:
    """Returns the ClusterRole of the server and its binding to a service account. It grants no writes."""
    # An object that a watch has not delivered yet is read by name.
    rules = _reading(settings, "get", "list", "watch", objects=True)
    # To see whether a PodCliqueSet that is being adopted has pods on nodes.
    rules.append(_rule("", "pods", "list"))
    return _bound("ClusterRole", SERVER_ROLE, rules, namespace, account)


def reconciler_access_rules(settings: Settings, namespace: str, *accounts: str) -> list[Manifest]:
    """Returns the ClusterRole of the reconciler, the Role for its Lease and records of losses, and their bindings."""
    # The series of an event is changed, which counts the gangs that share it.
    cluster = [*_gang_rules(settings), _rule("events.k8s.io", "events", "create", "patch")]
    # A create request has no name yet, so resourceNames cannot restrict it.
    namespaced = [
        _rule("coordination.k8s.io", "leases", "create"),
        _rule("coordination.k8s.io", "leases", "get", "update", names=[LEASE_NAME]),
        _rule("", "configmaps", "create"),
        _rule("", "configmaps", "get", "patch", "delete", names=LOSS_RECORDS),
    ]
    if settings.certificates.self_managed:
        cluster += _certificate_rules(namespace)
        namespaced += _CERTIFICATE_RULES
    return [
        *_bound("ClusterRole", RECONCILER_ROLE, cluster, namespace, *accounts),
        *_bound("Role", RECONCILER_ROLE, namespaced, namespace, *accounts),
    ]


def _gang_rules(settings: Settings) -> list[Manifest]:
    """Returns the rules for gangs, their pods and objects, and for what the settings turn on."""
    rules = _reading(settings, "list", "watch", objects=False)
    for profile in settings.profiles.values():
        rules += [_rule_on(tree.resource, "list", "watch") for tree in profile.backend.trees]
        rules += [_rule(api.group, f"{api.kind.lower()}s", *_WRITING) for api in profile.backend.writable_kinds]
    # Gangs are judged by their pods, and the stage of a gang is read from them.
    made_by = [*GROVE_POD_CONTROLLERS, *(settings.kinds.pod_controllers if settings.makes_opted_in_gangs else ())]
    rules += [_rule_on(controller, "list", "watch") for controller in made_by]
    pods = ["list", "watch"]
    if any(profile.gate for profile in settings.profiles.values()):
        pods.append("patch")
    if settings.deleted_escapes:
        pods += ["get", "delete"]
    # A gang is woken by a change of its pods, before one of them is replaced.
    if "forgotten" in settings.remedies.causes:
        pods += ["get", "patch", "delete"]
    if "oldMembership" in settings.remedies.causes:
        pods += ["get", "delete"]
    rules.append(_rule("", "pods", *pods))
    if "groveGate" in settings.remedies.causes:
        rules.append(_rule_on(POD_CLIQUE_SETS.resource, "patch"))
    # One is read, and its status written, for the condition of a PodGang that lost pods.
    rules.append(_rule_on(POD_GANGS.resource, "list", "watch", "get"))
    rules.append(_rule_on(POD_GANGS.resource, "patch", part="/status"))
    rules += _topology_rules(settings)
    if settings.admission_check is not CheckMode.OFF:
        # To read a Workload and its objects when Kueue asks, and to answer.
        rules += [_rule_on(kind, "get") for kind in (WORKLOAD_KIND, *settings.kinds.admitted, *OWNERS_BESIDES)]
        rules += [_rule_on(kind, "patch", part="/status") for kind in (WORKLOAD_KIND, ADMISSION_CHECK_KIND)]
    if settings.auditing.open_reports:
        rules += _audit_rules(settings)
    workloads = settings.gang_workloads.values()
    rules += [_rule_on(workload, "list", "watch") for workload in workloads]
    # A blockOwnerDeletion reference needs the right to set the owner's finalizers.
    owners = (POD_CLIQUE_SETS.resource, POD_GANGS.resource, *workloads)
    return rules + [_rule_on(owner, "update", part="/finalizers") for owner in owners]


# In Rollcall's namespace, for self-managed certificates.
_CERTIFICATE_RULES = (
    _rule("", "secrets", "create"),
    _rule("", "secrets", "get", "list", "watch", "update", names=[CA_SECRET, TLS_SECRET]),
    # Only as a dry run: creating one shows whether the API server trusts the next authority.
    _rule("", "configmaps", "create"),
    # To find the servers and their ports, and see which certificate each presents.
    _rule("", "services", "get", names=[SERVER]),
    _rule("discovery.k8s.io", "endpointslices", "list"),
)


def _certificate_rules(namespace: str) -> list[Manifest]:
    """Returns the rules on the cluster for self-managed certificates."""
    group = "admissionregistration.k8s.io"
    # With OwnerReferencesPermissionEnforcement, setting ownerReferences needs the right to delete the object; nothing
    # is deleted.
    verbs = ("get", "list", "watch", "patch", "delete")
    return [
        _rule(group, "mutatingwebhookconfigurations", *verbs, names=[MUTATING]),
        _rule(group, "validatingwebhookconfigurations", *verbs, names=[VALIDATING]),
        # For its uid: the namespace owns the configurations.
        _rule("", "namespaces", "get", names=[namespace]),
    ]


def _topology_rules(settings: Settings) -> list[Manifest]:
    """Returns the rules for the topology objects of the enabled schedulers, and for the owners of written ones."""
    backends = [profile.backend for profile in settings.profiles.values()]
    followed = [(kind, backend) for backend in backends if (kind := backend.topology_kind) is not None]
    rules = [_rule_on(kind, "list", "watch") for kind, backend in followed if not backend.topology_written]
    if written := [_rule_on(kind, *_WRITING) for kind, backend in followed if backend.topology_written]:
        rules += [*written, _rule_on(TOPOLOGY_BINDINGS.resource, "update", part="/finalizers")]
    return rules


def _audit_rules(settings: Settings) -> list[Manifest]:
    """Returns the rules to list everything that is audited, with the facts that admission has, and to write reports."""
    resources = [resource for kind in settings.kinds.views for resource in settings.kinds.written(kind)]
    kinds = {(resource.api.group, resource.plural) for resource in resources}
    kinds |= {(judged.group, judged.plural) for profile in settings.profiles.values() for judged in profile.judged}
    return [
        *_reading(settings, "list", objects=True),
        *(_rule(group, plural, "list") for group, plural in sorted(kinds)),
        _rule_on(REPORTS, "list", "create", "patch", "delete"),
    ]


def _bound(kind: str, name: str, rules: list[Manifest], namespace: str, *accounts: str) -> list[Manifest]:
    """Returns a role and its binding to service accounts; a Role is in the namespace of the accounts."""
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
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account} for account in accounts],
        },
    ]


def _reading(settings: Settings, *verbs: str, objects: bool) -> list[Manifest]:
    """Returns the rules to read the facts of the enabled schedulers, with or without those for judging `objects`."""
    # The API server takes the name of a list or watch from its fieldSelector.
    return [
        _rule(api.group, plural, *verbs, names=() if projection.only_name is None else (projection.only_name,))
        for projection in followed_projections(settings, objects=objects)
        for api, plural, _ in (projection.resource,)
    ]


def _merged(rules: list[dict[str, Any]]) -> list[Manifest]:
    merged: dict[tuple[str, ...], Manifest] = {}
    for rule in rules:
        key = (*rule["apiGroups"], "", *rule["resources"], "", *rule.get("resourceNames", ()))
        merged_rule = merged.setdefault(key, {**rule, "verbs": []})
        merged_rule["verbs"] += [verb for verb in rule["verbs"] if verb not in merged_rule["verbs"]]
    return list(merged.values())
