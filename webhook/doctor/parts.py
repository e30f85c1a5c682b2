"""The objects that are read from a cluster, and the fields of each that the checks use.

Each part names the right that reading it needs, so that a missing right can be reported.
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.config.settings import Settings
from webhook.installation.names import LEASE_NAME, RECONCILER_ROLE, SERVER, SERVER_ROLE, TLS_SECRET
from webhook.model import grove, kubernetes_kinds
from webhook.model.endpoint_slices import slices_of
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.keys import Api
from webhook.model.kueue.projections import ADMISSION_CHECK_KIND, CLUSTER_QUEUE_KIND
from webhook.model.node_growth import CLUSTER_AUTOSCALER
from webhook.model.node_growth import NODE_POOLS as NODE_POOLS_READ
from webhook.model.nodes import NODES as NODES_READ
from webhook.model.open_reports import REPORT_SELECTOR, REPORTS
from webhook.model.projections import NAMESPACES as NAMESPACES_READ
from webhook.model.projections import POD_CLIQUE_SETS as SETS_READ
from webhook.model.projections import POD_GANGS as GANGS_READ
from webhook.model.projections import TOPOLOGY_BINDINGS as BINDINGS_READ
from webhook.model.projections import Resource
from webhook.model.reading import Manifest, mapping
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.gang import GANG_LABEL
from webhook.model.workloads.kinds import TRAIN_JOBS
from webhook.model.workloads.operator_group import KIND as GROUP_KIND
from webhook.model.workloads.operator_group import MINIMUM_FIELDS
from webhook.model.workloads.shapes.shape import WorkloadShape


class Part(NamedTuple):
    """Objects of one kind: all, those of a namespace (`own` is Rollcall's), those with labels (`key`, `!key`,
    `key=value`, `key!=value`), or the one with a name.
    """

    resource: Resource
    own: bool = False
    namespace: str = ""
    labels: tuple[str, ...] = ()
    name: str = ""

    def right(self, own: str) -> str:
        """The right that is needed to read this part, as text."""
        kind, inside = self.resource.qualified, self.within(own)
        verb = f"get {kind} {self.name}" if self.name else f"list {kind}"
        return f"{verb} in {inside}" if inside else verb

    def within(self, own: str) -> str:
        """The namespace to read; empty for all."""
        return own if self.own else self.namespace

    def has(self, raw: Manifest, own: str) -> bool:
        """Whether an object belongs to this part."""
        api, metadata = self.resource.api, mapping(raw.get("metadata"))
        group = str(raw.get("apiVersion", "v1")).rpartition("/")[0]
        if (group, raw.get("kind")) != (api.group, api.kind):
            return False
        if (inside := self.within(own)) and metadata.get("namespace") != inside:
            return False
        return (not self.name or metadata.get("name") == self.name) and self._labelled(raw)

    def _labelled(self, raw: Manifest) -> bool:
        labels = mapping(mapping(raw.get("metadata")).get("labels"))
        for wanted in self.labels:
            key, differs, value = wanted.partition("!=")
            if differs:
                if labels.get(key) == value:
                    return False
                continue
            key, _, value = wanted.removeprefix("!").partition("=")
            if (key in labels) is wanted.startswith("!") or (value and labels[key] != value):
                return False
        return True


def _admission(kind: str, plural: str) -> Resource:
    return Resource(Api(kubernetes_kinds.ADMISSION_REGISTRATION, "v1", kind), plural, namespaced=False)


MUTATING_WEBHOOKS = Part(kubernetes_kinds.MUTATING_WEBHOOKS)
VALIDATING_WEBHOOKS = Part(kubernetes_kinds.VALIDATING_WEBHOOKS)
POLICIES = Part(_admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies"))
POLICY_BINDINGS = Part(_admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"))
NAMESPACES = Part(NAMESPACES_READ.resource)
DEPLOYMENTS = Part(Resource(Api("apps", "v1", "Deployment"), "deployments"))

SERVICE = Part(kubernetes_kinds.SERVICES, own=True, name=SERVER)
ENDPOINT_SLICES = Part(kubernetes_kinds.ENDPOINT_SLICES, own=True, labels=(slices_of(SERVER),))
BUDGETS = Part(Resource(Api("policy", "v1", "PodDisruptionBudget"), "poddisruptionbudgets"), own=True)
SECRET = Part(kubernetes_kinds.SECRETS, own=True, name=TLS_SECRET)
RECONCILER_BINDING = Part(
    Resource(Api("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"), "clusterrolebindings", namespaced=False),
    name=RECONCILER_ROLE,
)
_CLUSTER_ROLES = Resource(Api("rbac.authorization.k8s.io", "v1", "ClusterRole"), "clusterroles", namespaced=False)
SERVER_RIGHTS = Part(_CLUSTER_ROLES, name=SERVER_ROLE)
RECONCILER_RIGHTS = Part(_CLUSTER_ROLES, name=RECONCILER_ROLE)
LEASE = Part(kubernetes_kinds.LEASES, own=True, name=LEASE_NAME)
# kube-scheduler's own Lease. It also exists where the control plane is managed by a provider and shows no pods.
SCHEDULER_LEASE = Part(kubernetes_kinds.LEASES, namespace="kube-system", name="kube-scheduler")

POD_CLIQUE_SETS = Part(SETS_READ.resource)
POD_GANGS = Part(GANGS_READ.resource)
GANG_PODS = Part(kubernetes_kinds.PODS, labels=(grove.LABEL_PODGANG,))
OWNED_PODS = Part(kubernetes_kinds.PODS, labels=(GANG_LABEL, f"!{grove.LABEL_PODGANG}"))
CLUSTER_QUEUES = Part(CLUSTER_QUEUE_KIND)
ADMISSION_CHECKS = Part(ADMISSION_CHECK_KIND)
OWN_REPORTS = Part(REPORTS, labels=(REPORT_SELECTOR,))
COLOCATION_PROFILES = Part(
    Resource(
        Api("config.koordinator.sh", "v1alpha1", "ClusterColocationProfile"),
        "clustercolocationprofiles",
        namespaced=False,
    )
)

# Read only if a profile names the ClusterTopologyBinding that feeds its topology.
TOPOLOGY_BINDINGS = Part(BINDINGS_READ.resource)
NODES = Part(NODES_READ.resource)
# What adds nodes to a cluster.
AUTOSCALER_STATUS = Part(CLUSTER_AUTOSCALER.resource, namespace="kube-system", name="cluster-autoscaler-status")
NODE_POOLS = Part(NODE_POOLS_READ.resource)

# The PodGroups that other programs wrote, such as the operators of workloads.
OPERATOR_GROUPS = tuple(
    Part(
        Resource(Api(group, version, GROUP_KIND), "podgroups"),
        labels=(f"{grove.LABEL_MANAGED_BY}!={MANAGED_BY_ROLLCALL}",),
    )
    for group, version in (
        ("scheduling.volcano.sh", "v1beta1"),
        ("scheduling.x-k8s.io", "v1alpha1"),
        ("scheduling.sigs.k8s.io", "v1alpha1"),
        ("scheduling.k8s.io", "v1beta1"),
        ("scheduling.k8s.io", "v1alpha2"),
    )
)

PARTS = (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    POLICIES,
    POLICY_BINDINGS,
    NAMESPACES,
    DEPLOYMENTS,
    SERVICE,
    ENDPOINT_SLICES,
    BUDGETS,
    SECRET,
    RECONCILER_BINDING,
    SERVER_RIGHTS,
    RECONCILER_RIGHTS,
    LEASE,
    SCHEDULER_LEASE,
    POD_CLIQUE_SETS,
    POD_GANGS,
    GANG_PODS,
    OWNED_PODS,
    COLOCATION_PROFILES,
    CLUSTER_QUEUES,
    ADMISSION_CHECKS,
    OWN_REPORTS,
    AUTOSCALER_STATUS,
    NODE_POOLS,
)


# Of nodes, PodGangs and the built-in backends' gang objects the checks use nothing else.
_ONLY_METADATA = frozenset({"PodGang", "CompositePodGroup", "Workload", "Node", REPORTS.api.kind})
# What is kept of the spec of these: the minimum of a PodGroup that another program wrote.
_KEPT = {"Pod": frozenset({"schedulerName", "schedulingGates", "nodeName"}), GROUP_KIND: MINIMUM_FIELDS}
_BY_ROLLCALL = f"{grove.LABEL_MANAGED_BY}={MANAGED_BY_ROLLCALL}"


def recorded_workloads(settings: Settings) -> tuple[Part, ...]:
    """The opted-in workloads with a recorded scheduler."""
    kinds = (*settings.kinds.gang_workloads.values(), TRAIN_JOBS)
    return tuple(Part(kind, labels=(SCHEDULER_LABEL,)) for kind in kinds)


def gang_objects(settings: Settings) -> tuple[Part, ...]:
    """The gang objects that Rollcall wrote for the enabled schedulers."""
    every = dict.fromkeys(api for one in settings.profiles.values() for api in one.backend.writable_kinds)
    return tuple(Part(Resource(api, f"{api.kind.lower()}s"), labels=(_BY_ROLLCALL,)) for api in every)


def operator_objects(settings: Settings) -> tuple[Part, ...]:
    """The PodGroups that other programs wrote, and the workloads of declared kinds that may own them."""
    return (*OPERATOR_GROUPS, *map(declared_workloads, settings.kinds.declared))


def declared_workloads(shape: WorkloadShape) -> Part:
    """The workloads of a declared kind. If a namespace does not opt them in, only those with a scheduler are gangs."""
    return Part(shape.resource, labels=() if shape.by_namespace else (SCHEDULER_LABEL,))


def topology_objects(settings: Settings) -> tuple[Part, ...]:
    """The topology objects that one ClusterTopologyBinding feeds, the bindings, and the nodes."""
    kinds = [
        kind
        for one in settings.profiles.values()
        if (kind := one.backend.topology_kind) is not None and one.backend.topology_binding is not None
    ]
    return (TOPOLOGY_BINDINGS, NODES, *map(Part, dict.fromkeys(kinds))) if kinds else ()


def trimmed(raw: Manifest) -> Manifest:
    """An object without the fields that no check uses: a cluster has many pods, and private keys must not be kept."""
    metadata = {key: value for key, value in mapping(raw.get("metadata")).items() if key != "managedFields"}
    found = {**raw, "metadata": metadata}
    if (kept := _KEPT.get(str(raw.get("kind")))) is not None:
        found["spec"] = {key: value for key, value in mapping(raw.get("spec")).items() if key in kept}
        found.pop("status", None)
    if raw.get("kind") == "Node":
        found = {**raw, "metadata": {"name": metadata.get("name"), "labels": metadata.get("labels")}}
    if raw.get("kind") in _ONLY_METADATA:
        for content in ("spec", "status", "results"):
            found.pop(content, None)
    if raw.get("kind") == "Secret":
        found["data"] = {key: value for key, value in mapping(raw.get("data")).items() if key.endswith(".crt")}
    return found
