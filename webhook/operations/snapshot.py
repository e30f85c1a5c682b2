"""The snapshot of a cluster: the parts that are read and the fields of each that the checks use. Each part is present,
or the reason why it is missing.

Each part names the right that reading it needs, so that a missing right can be reported. Of other systems' Deployments
the images and the mounted configuration file are read.

Source: Kubernetes API reference, admissionregistration/v1 RuleWithOperations (whether a webhook has a rule about a
kind).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.installation import names
from webhook.installation.webhooks import Address, is_next_hook
from webhook.model import grove, known_kinds
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, REPORT_SELECTOR, REPORTS
from webhook.model.keys import Api
from webhook.model.known_kinds import TRAIN_JOBS
from webhook.model.kueue_objects import ADMISSION_CHECK_KIND, CLUSTER_QUEUE_KIND
from webhook.model.nodes import CLUSTER_AUTOSCALER
from webhook.model.nodes import NODE_POOLS as NODE_POOLS_READ
from webhook.model.nodes import NODES as NODES_READ
from webhook.model.projections import NAMESPACES as NAMESPACES_READ
from webhook.model.projections import POD_CLIQUE_SETS as SETS_READ
from webhook.model.projections import POD_GANGS as GANGS_READ
from webhook.model.projections import TOPOLOGY_BINDINGS as BINDINGS_READ
from webhook.model.projections import Resource, key_of, name_of
from webhook.model.reading import NAMESPACE_NAME, Manifest, mapping, sequence, slices_of, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.positions import TextProblem
from webhook.offline.yaml_and_json import yaml_documents
from webhook.workloads.opted_in_gang import GANG_LABEL
from webhook.workloads.shaped_workload import KIND as GROUP_KIND
from webhook.workloads.shaped_workload import MINIMUM_FIELDS
from webhook.workloads.workload_shape import WorkloadShape


class SnapshotPart(NamedTuple):
    """Objects of one kind: all, those of a namespace (`own` is Rollcall's), those with labels (`key`, `!key`,
    `key=value`, `key!=value`), or the one with a name.
    """

    resource: Resource
    in_own_namespace: bool = False
    namespace: str = ""
    labels: tuple[str, ...] = ()
    name: str = ""

    def right(self, own_namespace: str) -> str:
        """Returns the right that is needed to read this part, as text."""
        kind, inside = self.resource.qualified, self.namespace_to_read(own_namespace)
        verb = f"get {kind} {self.name}" if self.name else f"list {kind}"
        return f"{verb} in {inside}" if inside else verb

    def namespace_to_read(self, own_namespace: str) -> str:
        """Returns the namespace to read; empty for all."""
        return own_namespace if self.in_own_namespace else self.namespace

    def has(self, raw: Manifest, own_namespace: str) -> bool:
        """Returns whether an object belongs to this part."""
        api, metadata = self.resource.api, mapping(raw.get("metadata"))
        group = str(raw.get("apiVersion", "v1")).rpartition("/")[0]
        if (group, raw.get("kind")) != (api.group, api.kind):
            return False
        if (inside := self.namespace_to_read(own_namespace)) and metadata.get("namespace") != inside:
            return False
        return (not self.name or metadata.get("name") == self.name) and self._labelled(raw)

    def _labelled(self, raw: Manifest) -> bool:
        labels = mapping(mapping(raw.get("metadata")).get("labels"))
        for label in self.labels:
            key, differs, value = label.partition("!=")
            if differs:
                if labels.get(key) == value:
                    return False
                continue
            key, _, value = label.removeprefix("!").partition("=")
            if (key in labels) is label.startswith("!") or (value and labels[key] != value):
                return False
        return True


def _admission(kind: str, plural: str) -> Resource:
    return Resource(Api(known_kinds.ADMISSION_REGISTRATION, "v1", kind), plural, namespaced=False)


MUTATING_WEBHOOKS = SnapshotPart(known_kinds.MUTATING_WEBHOOKS)
VALIDATING_WEBHOOKS = SnapshotPart(known_kinds.VALIDATING_WEBHOOKS)
POLICIES = SnapshotPart(_admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies"))
POLICY_BINDINGS = SnapshotPart(_admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"))
NAMESPACES = SnapshotPart(NAMESPACES_READ.resource)
DEPLOYMENTS = SnapshotPart(Resource(Api("apps", "v1", "Deployment"), "deployments"))

SERVICE = SnapshotPart(known_kinds.SERVICES, in_own_namespace=True, name=names.SERVER)
ENDPOINT_SLICES = SnapshotPart(known_kinds.ENDPOINT_SLICES, in_own_namespace=True, labels=(slices_of(names.SERVER),))
BUDGETS = SnapshotPart(
    Resource(Api("policy", "v1", "PodDisruptionBudget"), "poddisruptionbudgets"), in_own_namespace=True
)
SECRET = SnapshotPart(known_kinds.SECRETS, in_own_namespace=True, name=names.TLS_SECRET)
RECONCILER_BINDING = SnapshotPart(
    Resource(Api("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"), "clusterrolebindings", namespaced=False),
    name=names.RECONCILER_ROLE,
)
_CLUSTER_ROLES = Resource(Api("rbac.authorization.k8s.io", "v1", "ClusterRole"), "clusterroles", namespaced=False)
SERVER_RIGHTS = SnapshotPart(_CLUSTER_ROLES, name=names.SERVER_ROLE)
RECONCILER_RIGHTS = SnapshotPart(_CLUSTER_ROLES, name=names.RECONCILER_ROLE)
LEASE = SnapshotPart(known_kinds.LEASES, in_own_namespace=True, name=names.LEASE_NAME)
# kube-scheduler's own Lease. It also exists where the control plane is managed by a provider and shows no pods.
SCHEDULER_LEASE = SnapshotPart(known_kinds.LEASES, namespace="kube-system", name="kube-scheduler")

POD_CLIQUE_SETS_PART = SnapshotPart(SETS_READ.resource)
POD_GANGS = SnapshotPart(GANGS_READ.resource)
GANG_PODS = SnapshotPart(known_kinds.PODS, labels=(grove.LABEL_PODGANG,))
OWNED_PODS = SnapshotPart(known_kinds.PODS, labels=(GANG_LABEL, f"!{grove.LABEL_PODGANG}"))
CLUSTER_QUEUES = SnapshotPart(CLUSTER_QUEUE_KIND)
ADMISSION_CHECKS = SnapshotPart(ADMISSION_CHECK_KIND)
OWN_REPORTS = SnapshotPart(REPORTS, labels=(REPORT_SELECTOR,))
COLOCATION_PROFILES = SnapshotPart(
    Resource(
        Api("config.koordinator.sh", "v1alpha1", "ClusterColocationProfile"),
        "clustercolocationprofiles",
        namespaced=False,
    )
)

# Read only if a profile names the ClusterTopologyBinding that feeds its topology.
TOPOLOGY_BINDINGS = SnapshotPart(BINDINGS_READ.resource)
NODES = SnapshotPart(NODES_READ.resource)
# What adds nodes to a cluster.
AUTOSCALER_STATUS = SnapshotPart(CLUSTER_AUTOSCALER.resource, namespace="kube-system", name="cluster-autoscaler-status")
NODE_POOLS = SnapshotPart(NODE_POOLS_READ.resource)

# The PodGroups that other programs wrote, such as the operators of workloads.
OPERATOR_GROUPS = tuple(
    SnapshotPart(
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
    POD_CLIQUE_SETS_PART,
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


def recorded_workloads(settings: Settings) -> tuple[SnapshotPart, ...]:
    """Returns the opted-in workloads with a recorded scheduler."""
    kinds = (*settings.kinds.gang_workloads.values(), TRAIN_JOBS)
    return tuple(SnapshotPart(kind, labels=(SCHEDULER_LABEL,)) for kind in kinds)


def gang_objects(settings: Settings) -> tuple[SnapshotPart, ...]:
    """Returns the gang objects that Rollcall wrote for the enabled schedulers."""
    every = dict.fromkeys(api for profile in settings.profiles.values() for api in profile.backend.writable_kinds)
    return tuple(SnapshotPart(Resource(api, f"{api.kind.lower()}s"), labels=(_BY_ROLLCALL,)) for api in every)


def operator_objects(settings: Settings) -> tuple[SnapshotPart, ...]:
    """Returns the PodGroups that other programs wrote, and the workloads of declared kinds that may own them."""
    return (*OPERATOR_GROUPS, *map(declared_workloads, settings.kinds.declared))


def declared_workloads(shape: WorkloadShape) -> SnapshotPart:
    """Returns the workloads of a declared kind: those with a scheduler, unless a namespace can opt them in."""
    return SnapshotPart(shape.resource, labels=() if shape.by_namespace else (SCHEDULER_LABEL,))


def topology_objects(settings: Settings) -> tuple[SnapshotPart, ...]:
    """Returns the topology objects that one ClusterTopologyBinding feeds, the bindings, and the nodes."""
    kinds = [
        kind
        for profile in settings.profiles.values()
        if (kind := profile.backend.topology_kind) is not None and profile.backend.topology_binding is not None
    ]
    return (TOPOLOGY_BINDINGS, NODES, *map(SnapshotPart, dict.fromkeys(kinds))) if kinds else ()


def trimmed(raw: Manifest) -> Manifest:
    """Returns an object without what no check uses: a cluster has many pods, and private keys must not be kept."""
    metadata = {key: value for key, value in mapping(raw.get("metadata")).items() if key != "managedFields"}
    reduced = {**raw, "metadata": metadata}
    if (kept := _KEPT.get(str(raw.get("kind")))) is not None:
        reduced["spec"] = {key: value for key, value in mapping(raw.get("spec")).items() if key in kept}
        reduced.pop("status", None)
    if raw.get("kind") == "Node":
        reduced = {**raw, "metadata": {"name": metadata.get("name"), "labels": metadata.get("labels")}}
    if raw.get("kind") in _ONLY_METADATA:
        for content in ("spec", "status", "results"):
            reduced.pop(content, None)
    if raw.get("kind") == "Secret":
        reduced["data"] = {key: value for key, value in mapping(raw.get("data")).items() if key.endswith(".crt")}
    return reduced


class Unread(NamedTuple):
    """Something that could not be read: what, why, and the right that is missing."""

    what: str
    why: str
    right: str | None = None

    def __str__(self) -> str:
        needs = f"; it takes the right to {self.right}" if self.right else ""
        return f"{self.what} could not be read: {self.why}{needs}"


class ClockOffset(NamedTuple):
    """How many seconds a clock is ahead of ours."""

    whose: str
    ahead: float


class PresentedCertificate(NamedTuple):
    """The certificate (DER) that a server presented in a TLS handshake, or `trouble`.

    `refused` maps each caBundle (base64, as in a webhook) that does not trust the server under the name `host` to the
    reason.
    """

    where: str
    host: str
    certificate: bytes | None = None
    trouble: str = ""
    refused: Mapping[str, str] = {}


class DryRunAnswer(NamedTuple):
    """The API server's answer to a creation with dryRun=All, which stores nothing.

    `stored` is the object as it would be stored; None if it was refused, with the reason in the message.
    """

    stored: Manifest | None
    message: str = ""


class MemberPod(NamedTuple):
    """A pod of a workload as its controllers would create it, and as Rollcall prepares it."""

    scheduler: str
    workload: str
    pod: Manifest
    prepared: Manifest


class MemberTrial(NamedTuple):
    """The creation of a pod of a living workload with dryRun=All."""

    member: MemberPod
    outcome: DryRunAnswer | Unread


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cluster at one moment, and the configuration that it is checked against."""

    settings: Settings
    now: datetime
    namespace: str = names.NAMESPACE
    parts: Mapping[SnapshotPart, tuple[Manifest, ...] | Unread] = field(default_factory=dict)
    apis: frozenset[Api] | Unread = frozenset()
    spec_fields: Mapping[Api, frozenset[str]] | Unread = field(default_factory=dict)
    version: str | Unread = ""
    clocks: tuple[ClockOffset, ...] = ()
    presented: tuple[PresentedCertificate, ...] = ()
    # Results of creating a PodCliqueSet that Rollcall refuses, and a pod of a group; None if not tried.
    refusal: DryRunAnswer | Unread | None = None
    grouped: DryRunAnswer | Unread | None = None
    # The pods of living workloads that were tried, at most one for each scheduler.
    members: tuple[MemberTrial, ...] = ()
    # Whether each service account that the configuration trusts exists, by user name.
    accounts: Mapping[str, bool | Unread] = field(default_factory=dict)
    # Grove's OperatorConfiguration; None where no operator was found.
    operator: Manifest | Unread | None = None
    # Kueue's Configuration; None where no Deployment of Kueue mounts one.
    kueue: Manifest | Unread | None = None

    def all(self, part: SnapshotPart) -> tuple[Manifest, ...]:
        """Returns the objects of a part. Raises `FactsUnavailable`."""
        return require_read(self.parts.get(part, ()))

    def single(self, part: SnapshotPart) -> Manifest | None:
        """Returns the object of a part for a single name, or None. Raises `FactsUnavailable`."""
        return next(iter(self.all(part)), None)

    def served(self) -> frozenset[Api]:
        """Returns the kinds that the cluster serves. Raises `FactsUnavailable`."""
        return require_read(self.apis)

    def facts(self) -> ClusterFacts:
        """Returns the facts for calls to a backend. Raises `FactsUnavailable`."""
        return ClusterFacts(apis=self.served(), spec_fields=require_read(self.spec_fields))

    def configuration(self, part: SnapshotPart) -> Manifest | None:
        """Returns Rollcall's own webhook configuration of that kind. Raises `FactsUnavailable`."""
        name = names.MUTATING if part is MUTATING_WEBHOOKS else names.VALIDATING
        return next((raw for raw in self.all(part) if name_of(raw) == name), None)

    def hooks(self) -> Iterator[tuple[str, Manifest]]:
        """Yields each webhook of Rollcall's own configurations, with its place. Raises `FactsUnavailable`."""
        for part in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            configuration = self.configuration(part)
            if configuration is not None:
                for hook in sequence(configuration.get("webhooks")):
                    yield f"{part.resource.api.kind} {name_of(configuration)}, {hook['name']}", hook

    def hook(self, name: str) -> Manifest | None:
        """Returns Rollcall's own webhook with that name. Raises `FactsUnavailable`."""
        return next((hook for _, hook in self.hooks() if hook["name"] == name), None)

    def address(self) -> Address:
        """Returns the target of the webhooks: the URL of the first, else the Service. Raises `FactsUnavailable`."""
        urls: dict[bool, str] = {}
        for _, hook in self.hooks():
            if url := text(mapping(hook.get("clientConfig")).get("url")):
                urls.setdefault(serves_next(hook), url)
        if False in urls:
            return Address(url=urls[False].rpartition("/")[0], next_url=urls.get(True, ""))
        return Address(self.namespace, names.SERVER, names.SERVICE_PORT)


def serves_next(hook: Manifest) -> bool:
    """Returns whether this is the webhook that only tests the next certificate."""
    return is_next_hook(str(hook["name"]))


def require_read(value: T | Unread) -> T:
    """Returns the value that was read. Raises `FactsUnavailable` if it could not be read."""
    if isinstance(value, Unread):
        raise FactsUnavailable(str(value))
    return value


def namespace_labels(name: str, namespaces: Mapping[str, Manifest]) -> dict[str, Any]:
    """Returns the labels of a namespace that a namespaceSelector is evaluated on."""
    raw = namespaces.get(name, {})
    return {NAMESPACE_NAME: name, **mapping(mapping(raw.get("metadata")).get("labels"))}


def is_about(hook: Manifest, group: str, plural: str, operation: str) -> bool:
    """Returns whether a webhook has a rule for that operation on that kind, in any version."""
    return any(
        not {group, "*"}.isdisjoint(sequence(rule.get("apiGroups")))
        and not {plural, "*", "*/*"}.isdisjoint(sequence(rule.get("resources")))
        and not {operation, "*"}.isdisjoint(sequence(rule.get("operations")))
        for rule in map(mapping, sequence(hook.get("rules")))
    )


def pod_of(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the pod spec in the template of a Deployment."""
    return mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))


def images(deployment: Manifest) -> Iterator[tuple[str, str]]:
    """Yields the images of a Deployment's containers, each as its name and its tag."""
    for container in map(mapping, sequence(pod_of(deployment).get("containers"))):
        yield _split(text(container.get("image")) or "")


def _split(image: str) -> tuple[str, str]:
    """Returns an image's name and tag; the tag is empty if a digest is used."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{path}{slash}{last}", tag


class ConfigurationFile(NamedTuple):
    """What a system calls its configuration file, the API group and kind of the document, and whether a Deployment is
    the system's.
    """

    called: str
    group: str
    kind: str
    runs: Callable[[Snapshot, Manifest], bool]


def config_maps(deployment: Manifest) -> Iterator[tuple[str, str]]:
    """Yields the ConfigMaps that a Deployment mounts, each as namespace and name."""
    namespace = key_of(deployment)[0]
    for volume in map(mapping, sequence(pod_of(deployment).get("volumes"))):
        if name := text(mapping(volume.get("configMap")).get("name")):
            yield namespace, name


def document_in(config_map: Manifest, group: str, kind: str) -> Manifest | None:
    """Returns the first YAML document of that API group and kind in a ConfigMap."""
    for content in mapping(config_map.get("data")).values():
        try:
            values = [document.value for document in yaml_documents(str(content))]
        except TextProblem:
            continue
        for value in values:
            if isinstance(value, dict) and (_group(value), value.get("kind")) == (group, kind):
                return value
    return None


def _group(document: Manifest) -> str:
    return str(document.get("apiVersion")).rpartition("/")[0]
