"""The rights of the two service accounts, and the CRDs of other projects that a configuration needs.

Both are made from the same tables as the code that uses them, so the rights grant exactly what is needed. Rollcall has
no CRD of its own: its state is in labels and in the schedulers' objects.
"""

from __future__ import annotations

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
from webhook.model import grove, kueue
from webhook.model.gang_objects import REPORTS
from webhook.model.keys import Api
from webhook.model.kueue_objects import ADMISSION_CHECK_KIND, WORKLOAD_KIND
from webhook.model.place import OF_GROVE
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, Resource
from webhook.model.reading import Manifest
from webhook.workloads.kueue_integration import OWNERS_BESIDES, CheckMode

# API groups that an API server serves without a CRD, if it serves them.
_BUILT_IN = {"", "apps", "batch", "resource.k8s.io", "scheduling.k8s.io"}


class NeededKind(NamedTuple):
    """A CustomResourceDefinition: its name, the version that is used, and its users.

    If a `required` one is missing, no workload of that scheduler is admitted; the others are read if served.
    """

    name: str
    version: str
    wanted_by: tuple[str, ...]
    required: bool


def needed_kinds(settings: Settings) -> list[NeededKind]:
    """Returns the CustomResourceDefinitions that the enabled profiles need, the required ones first."""
    kinds: dict[Api, NeededKind] = {}

    def add(resource: Resource, who: str, *, required: bool) -> None:
        api = resource.api
        if api.group in _BUILT_IN:
            return
        earlier = kinds.get(api)
        wanted_by = (who,) if earlier is None else tuple(dict.fromkeys((*earlier.wanted_by, who)))
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
    followed = dict.fromkeys(
        projection for objects in (True, False) for projection in followed_projections(settings, objects=objects)
    )
    for projection in followed:
        if projection.resource.api.group == kueue.GROUP:
            add(projection.resource, "Kueue", required=False)
    return sorted(kinds.values(), key=lambda kind: not kind.required)


# Server-side apply is a patch that may create.
_WRITING = ("list", "watch", "create", "patch", "delete")
_BINDINGS = TOPOLOGY_BINDINGS.resource


def access_rules(settings: Settings, namespace: str, account: str) -> list[Manifest]:
    """Returns the ClusterRole of the server and its binding to a service account. It grants no writes."""
    # An object that a watch has not delivered yet is read by name.
    rules = _reading(settings, "get", "list", "watch", objects=True)
    # To see whether a PodCliqueSet that is being adopted has pods on nodes.
    rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    return _bound("ClusterRole", SERVER_ROLE, rules, namespace, account)


def reconciler_access_rules(settings: Settings, namespace: str, *accounts: str) -> list[Manifest]:
    """Returns the ClusterRole of the reconciler, the Role for its Lease and its records of losses, and their bindings
    to service accounts.
    """
    rules = _reading(settings, "list", "watch", objects=False)
    for profile in settings.profiles.values():
        for group, plural in dict.fromkeys(
            (tree.resource.api.group, tree.resource.plural) for tree in profile.backend.trees
        ):
            rules.append({"apiGroups": [group], "resources": [plural], "verbs": ["list", "watch"]})
        for api in profile.backend.writable_kinds:
            rules.append({"apiGroups": [api.group], "resources": [f"{api.kind.lower()}s"], "verbs": list(_WRITING)})
    # Gangs are judged by their pods, and the stage of a gang is read from them.
    made_by = [*OF_GROVE, *(settings.kinds.pod_controllers if settings.makes_opted_in_gangs else ())]
    rules += [
        {"apiGroups": [controller.api.group], "resources": [controller.plural], "verbs": ["list", "watch"]}
        for controller in made_by
    ]
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
    rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": pods})
    if "groveGate" in settings.remedies.causes:
        sets = POD_CLIQUE_SETS.resource
        rules.append({"apiGroups": [sets.api.group], "resources": [sets.plural], "verbs": ["patch"]})
    # One is read, and its status written, for the condition of a PodGang that lost pods.
    podgangs = POD_GANGS.resource
    rules += [
        {"apiGroups": [podgangs.api.group], "resources": [podgangs.plural], "verbs": ["list", "watch", "get"]},
        {"apiGroups": [podgangs.api.group], "resources": [f"{podgangs.plural}/status"], "verbs": ["patch"]},
    ]
    rules += _writing_topologies(settings)
    if settings.admission_check is not CheckMode.OFF:
        rules += _answering_checks(settings)
    if settings.auditing.open_reports:
        rules += _auditing(settings)
    # A blockOwnerDeletion reference needs the right to set the owner's finalizers.
    owners = [POD_CLIQUE_SETS.resource, POD_GANGS.resource]
    workloads = settings.gang_workloads.values()
    owners += workloads
    rules += [
        {"apiGroups": [workload.api.group], "resources": [workload.plural], "verbs": ["list", "watch"]}
        for workload in workloads
    ]
    rules += [
        {"apiGroups": [owner.api.group], "resources": [f"{owner.plural}/finalizers"], "verbs": ["update"]}
        for owner in owners
    ]
    # The series of an event is changed, which counts the gangs that share it.
    events = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
    # A create request has no name yet, so resourceNames cannot restrict it.
    leases = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [LEASE_NAME],
            "verbs": ["get", "update"],
        },
    ]
    records = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": list(LOSS_RECORDS),
            "verbs": ["get", "patch", "delete"],
        },
    ]
    cluster, namespaced = _keeping_certificates(namespace) if settings.certificates.self_managed else ([], [])
    return [
        *_bound("ClusterRole", RECONCILER_ROLE, [*rules, events, *cluster], namespace, *accounts),
        *_bound("Role", RECONCILER_ROLE, [*leases, *records, *namespaced], namespace, *accounts),
    ]


def _keeping_certificates(namespace: str) -> tuple[list[Manifest], list[Manifest]]:
    """Returns the rules for self-managed certificates: those for the cluster, and those for Rollcall's namespace."""
    configurations = [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": [plural],
            "resourceNames": [name],
            # With OwnerReferencesPermissionEnforcement, setting ownerReferences needs the right to delete the object;
            # nothing is deleted.
            "verbs": ["get", "list", "watch", "patch", "delete"],
        }
        for plural, name in (
            ("mutatingwebhookconfigurations", MUTATING),
            ("validatingwebhookconfigurations", VALIDATING),
        )
    ]
    # For its uid: the namespace owns the configurations.
    space = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [namespace], "verbs": ["get"]}
    namespaced = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [CA_SECRET, TLS_SECRET],
            "verbs": ["get", "list", "watch", "update"],
        },
        # Only as a dry run: creating one shows whether the API server trusts the next authority.
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        # To find the servers and their ports, and see which certificate each presents.
        {"apiGroups": [""], "resources": ["services"], "resourceNames": [SERVER], "verbs": ["get"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
    ]
    return [*configurations, space], namespaced


def _writing_topologies(settings: Settings) -> list[Manifest]:
    """Returns the rules for the topology objects of the enabled schedulers, and for the owners of those that are
    written.
    """
    backends = [profile.backend for profile in settings.profiles.values()]
    followed = [(kind, backend) for backend in backends if (kind := backend.topology_kind) is not None]
    compared = [kind for kind, backend in followed if not backend.topology_written]
    kinds = [kind for kind, backend in followed if backend.topology_written]
    reading = [
        {"apiGroups": [kind.api.group], "resources": [kind.plural], "verbs": ["list", "watch"]} for kind in compared
    ]
    if not kinds:
        return reading
    finalizing = {"apiGroups": [grove.GROUP], "resources": [f"{_BINDINGS.plural}/finalizers"], "verbs": ["update"]}
    return [
        *reading,
        *({"apiGroups": [kind.api.group], "resources": [kind.plural], "verbs": list(_WRITING)} for kind in kinds),
        finalizing,
    ]


def _answering_checks(settings: Settings) -> list[Manifest]:
    """Returns the rules to read a Workload and its objects when Kueue asks, and to answer."""
    read = (WORKLOAD_KIND, *settings.kinds.admitted, *OWNERS_BESIDES)
    written = (WORKLOAD_KIND, ADMISSION_CHECK_KIND)
    return [
        *({"apiGroups": [resource.api.group], "resources": [resource.plural], "verbs": ["get"]} for resource in read),
        *(
            {"apiGroups": [resource.api.group], "resources": [f"{resource.plural}/status"], "verbs": ["patch"]}
            for resource in written
        ),
    ]


def _auditing(settings: Settings) -> list[Manifest]:
    """Returns the rules to list everything that is audited, with the facts that admission has, and to write reports."""
    resources = [resource for kind in settings.kinds.views for resource in settings.kinds.written(kind)]
    kinds = {(resource.api.group, resource.plural) for resource in resources}
    kinds |= {(judged.group, judged.plural) for profile in settings.profiles.values() for judged in profile.judged}
    writing = ["list", "create", "patch", "delete"]
    return [
        *_reading(settings, "list", objects=True),
        *({"apiGroups": [group], "resources": [plural], "verbs": ["list"]} for group, plural in sorted(kinds)),
        {"apiGroups": [REPORTS.api.group], "resources": [REPORTS.plural], "verbs": writing},
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
    return [
        {
            "apiGroups": [projection.resource.api.group],
            "resources": [projection.resource.plural],
            # The API server takes the name of a list or watch from its fieldSelector.
            **({} if projection.named is None else {"resourceNames": [projection.named]}),
            "verbs": list(verbs),
        }
        for projection in followed_projections(settings, objects=objects)
    ]


def _merged(rules: list[dict[str, Any]]) -> list[Manifest]:
    """Returns the rules merged to one for each kind and name, with the verbs of all of them."""
    merged: dict[tuple[str, ...], Manifest] = {}
    for rule in rules:
        key = (*rule["apiGroups"], "", *rule["resources"], "", *rule.get("resourceNames", ()))
        merged_rule = merged.setdefault(key, {**rule, "verbs": []})
        merged_rule["verbs"] += [verb for verb in rule["verbs"] if verb not in merged_rule["verbs"]]
    return list(merged.values())
