"""What a scheduler must find for each pod of a template: a node that the pod may use, free ports, and pods apart.

One-sided: a part of a selector or an affinity that cannot be judged admits the node. Controllers add labels to each
pod and replace some, so only labels that no controller writes are sure, and those whose written value is known. Pod
affinity, and spread constraints without `minDomains`, prove nothing, because pods of other workloads can make them
easier; they may still rule out a placement.

Source: Kubernetes 1.37, component-helpers nodeaffinity.go, core/v1/toleration.go, apimachinery labels/selector.go,
pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go, pkg/scheduler/util/utils.go
(GetHostPorts), pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath, Item
from webhook.model.nodes import Taint
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import flag, integer, mapping, sequence, text

__all__ = ["EVERYTHING", "Eligibility", "Requirement", "Taint", "Toleration", "is_transient"]

# More than these are not read. A template is as large as its author likes, and is held against every node.
_MOST_PAIRS, _MOST_TERMS, _MOST_REQUIREMENTS, _MOST_VALUES, _MOST_TOLERATIONS = 32, 32, 64, 1024, 128
# Taints that come and go with the state of a node. A pod waits for that.
_TRANSIENT_PREFIXES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    "aws-node-termination-handler/",
    "medik8s.io/",
)
_TRANSIENT = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        "cloud.google.com/impending-node-termination",
    }
)
_NOT_READY = "-not-ready"
# PreferNoSchedule never blocks.
_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
# Gt and Lt of a toleration depend on a feature gate that is off, so they tolerate.
_EQUAL = frozenset({"", "Equal"})
_NAME = "metadata.name"
# Operators that ask whether a value is one of many.
_OF_MEMBERS = frozenset({"In", "NotIn"})
# As strconv.ParseInt reads it, with any number of leading zeros. A label value has 63 characters at most.
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}\Z")
_INT64 = 2**63


class Toleration(NamedTuple):
    """A toleration of a pod."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator not in _EQUAL or self.value == taint.value


# Tolerates every taint.
EVERYTHING = Toleration("", "Exists", "", "")


class Requirement(NamedTuple):
    """A requirement of a node selector term: on a label, or on the name of the node (`field`)."""

    key: str
    operator: str
    values: tuple[str, ...] | frozenset[str]
    field: bool = False

    def admits(self, value: str | None) -> bool:
        """Returns whether it holds for a label value, None for no label. An unknown operator holds."""
        check = _CHECKS.get(self.operator)
        return check is None or check(value, self.values)


def _compares(value: str | None, values: tuple[str, ...] | frozenset[str], *, greater: bool) -> bool:
    number, bound = _integer(value), _integer(next(iter(values))) if len(values) == 1 else None
    return number is not None and bound is not None and (number > bound if greater else number < bound)


_CHECKS: Mapping[str, Callable[[str | None, tuple[str, ...] | frozenset[str]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compares(value, values, greater=True),
    "Lt": lambda value, values: _compares(value, values, greater=False),
}


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes a pod may use. `terms` are ORed, the requirements of a term ANDed; None without required affinity."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str | None = None

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], *, stored: bool, resources: Iterable[str] = ()) -> Eligibility:
        """Returns what a pod spec says. Raises `Malformed`. A template of a pod that is not `stored` yet may get
        tolerations at admission: for the extended `resources` that it requests (ExtendedResourceToleration), and those
        of its RuntimeClass.
        """
        required = mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED)
        entries = map(mapping, sequence(spec.get("tolerations"))[: _MOST_TOLERATIONS + 1])
        fields = ("key", "operator", "value", "effect")
        tolerations = tuple(Toleration(*(text(entry.get(name)) or "" for name in fields)) for entry in entries)
        if not stored:
            tolerations += tuple(Toleration(resource, "Exists", "", "") for resource in sorted(resources))
            if text(spec.get("runtimeClassName")) is not None:
                tolerations = (EVERYTHING,)
        pairs = list(mapping(spec.get("nodeSelector")).items())[:_MOST_PAIRS]
        return cls(
            tuple((key, text(value) or "") for key, value in pairs),
            None if required is None else _terms(mapping(required)),
            tolerations if len(tolerations) <= _MOST_TOLERATIONS else (EVERYTHING,),
            text(spec.get("nodeName")),
        )

    def relax(self, *, affinity: bool, taints: bool) -> Eligibility:
        """Returns it for a scheduler that does not read `affinity`, or `taints`."""
        if affinity:
            return Eligibility(tolerations=(EVERYTHING,) if taints else self.tolerations, node_name=self.node_name)
        return replace(self, tolerations=(EVERYTHING,)) if taints else self

    @property
    def keys(self) -> frozenset[str]:
        """The node label keys that it reads."""
        keys = {key for key, _ in self.selector}
        for term in self.terms or ():
            keys.update(requirement.key for requirement in term if not requirement.field)
        return frozenset(keys)

    @property
    def size(self) -> int:
        """How many checks a node may take."""
        return 1 + len(self.selector) + sum(map(len, self.terms or ()))

    def admits(
        self,
        name: str | None,
        labels: Mapping[str, str],
        taints: Iterable[Taint],
        unknown: frozenset[str] = frozenset(),
    ) -> bool:
        """Returns whether the pod may use a node with that name, these labels and these taints. The name is None, and
        the labels with the keys `unknown`, for a node that does not exist yet: these may be what the pod asks for.
        """
        if self.node_name is not None and name is not None and self.node_name != name:
            return False
        if any(labels.get(key) != value for key, value in self.selector if key not in unknown):
            return False
        if self.terms is not None and not any(_holds(term, name, labels, unknown) for term in self.terms):
            return False
        return all(self.tolerates(taint) for taint in taints)

    def tolerates(self, taint: Taint) -> bool:
        """Returns whether a taint does not block the pod, or passes."""
        if taint.effect not in _BLOCKING or is_transient(taint):
            return True
        return any(toleration.tolerates(taint) for toleration in self.tolerations)


def is_transient(taint: Taint) -> bool:
    return taint.key in _TRANSIENT or taint.key.startswith(_TRANSIENT_PREFIXES) or taint.key.endswith(_NOT_READY)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _terms(required: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...] | None:
    """Returns the terms, less empty ones, which match nothing; None if they are too many to be judged."""
    terms = sequence(required.get("nodeSelectorTerms"))
    if len(terms) > _MOST_TERMS:
        return None
    read_terms = tuple(tuple(_requirements(mapping(term))) for term in terms)
    every = [requirement for term in read_terms for requirement in term]
    if len(every) > _MOST_REQUIREMENTS or sum(len(requirement.values) for requirement in every) > _MOST_VALUES:
        return None
    return tuple(term for term in read_terms if term)


def _requirements(term: Mapping[str, Any]) -> Iterator[Requirement]:
    for of_fields in (False, True):
        for expression in map(mapping, sequence(term.get("matchFields" if of_fields else "matchExpressions"))):
            operator = text(expression.get("operator")) or ""
            values = tuple(text(value) or "" for value in sequence(expression.get("values")))
            # Each value is looked for on each kind of nodes.
            members = frozenset(values) if operator in _OF_MEMBERS else values
            yield Requirement(text(expression.get("key")) or "", operator, members, of_fields)


def _holds(term: tuple[Requirement, ...], name: str | None, labels: Mapping[str, str], unknown: frozenset[str]) -> bool:
    for requirement in term:
        if requirement.field:
            # The only field of a node.
            holds = name is None or requirement.key != _NAME or requirement.admits(name)
        else:
            holds = requirement.key in unknown or requirement.admits(labels.get(requirement.key))
        if not holds:
            return False
    return True


def _integer(value: str | None) -> int | None:
    if value is None or not _INTEGER.match(value):
        return None
    number = int(value)
    return number if -_INT64 <= number < _INT64 else None


# More entries of one selector are not judged.
_MOST_ENTRIES, _MOST_EXPRESSION_VALUES = 64, 1024
# The domains of labels that controllers write, and the keys without a domain.
_WRITTEN_DOMAINS = (
    "kubernetes.io",
    "k8s.io",
    "grove.io",
    "kubeflow.org",
    "volcano.sh",
    "koordinator.sh",
    "kai.scheduler",
    "run.ai",
    "ray.io",
    "dask.org",
    "argoproj.io",
    "codeflare.dev",
    "rollcall.dev",
)
_WRITTEN_KEYS = frozenset(
    {
        "job-name",
        "controller-uid",
        "controller-revision-hash",
        "pod-template-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "app.kubernetes.io/name",
        "app.kubernetes.io/component",
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/created-by",
        "spark-role",
        "spark-app-name",
        "spark-app-selector",
        "spark-exec-id",
    }
)
# People write these, except the keys above, which Grove writes.
_OF_PEOPLE = "app.kubernetes.io"


def is_sure(key: str) -> bool:
    """Returns whether a pod surely has what its template has for a label key."""
    if key in _WRITTEN_KEYS:
        return False
    domain, slash, name = key.rpartition("/")
    # Koordinator's label for the group of a pod has no slash.
    whole = domain if slash else name
    is_written = any(whole == parent or whole.endswith((f".{parent}", f"-{parent}")) for parent in _WRITTEN_DOMAINS)
    return domain == _OF_PEOPLE or not is_written


class PodLabels(NamedTuple):
    """The labels that all pods of a role surely have. Only labels that controllers write may be there besides, and in
    `stored` pods only those that differ from pod to pod.
    """

    sure: Mapping[str, str]
    stored: bool = False

    @classmethod
    def from_template(cls, labels: Mapping[str, Any], written: Mapping[str, str], *, stored: bool) -> PodLabels:
        """Returns the labels of a template with those that are known to be `written` into its pods. Raises
        `Malformed`.
        """
        if stored:
            return cls({key: text(value) or "" for key, value in labels.items() if key not in OF_ONE_POD}, stored)
        return cls({**{key: text(value) or "" for key, value in labels.items() if is_sure(key)}, **written})

    def may_have(self, key: str) -> bool:
        """Returns whether the pods may have a label with any value."""
        return key not in self.sure and (key in OF_ONE_POD if self.stored else not is_sure(key))


def entries_of(selector: object) -> int:
    """Returns how many entries a selector has. Raises `Malformed`."""
    if selector is None:
        return 0
    return len(mapping(mapping(selector).get("matchLabels"))) + len(_expressions(selector))


def matches(selector: object, labels: PodLabels) -> bool | None:
    """Returns whether a selector matches all pods with these labels (True) or none of them (False); None if that is not
    known. Without a selector none match. Raises `Malformed`.
    """
    if selector is None:
        return False
    if entries_of(selector) > _MOST_ENTRIES:
        return None
    pairs, expressions = mapping(mapping(selector).get("matchLabels")), _expressions(selector)
    answers = [_is(labels, key, (text(value) or "",)) for key, value in pairs.items()]
    answers += [_expression_holds(mapping(expression), labels) for expression in expressions]
    return all_hold(answers)


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """Returns whether all hold; None if one that may fail is not known."""
    distinct = set(answers)
    return False if False in distinct else None if None in distinct else True


def _expressions(selector: object) -> Any:
    return sequence(mapping(selector).get("matchExpressions"))


def _is(labels: PodLabels, key: str, values: Sequence[Any]) -> bool | None:
    """Returns whether a label is there with one of these values."""
    if (value := labels.sure.get(key)) is not None:
        return value in values
    return None if labels.may_have(key) else False


def _expression_holds(expression: Mapping[str, Any], labels: PodLabels) -> bool | None:
    """Returns whether an expression holds. Only a stored pod surely lacks a label that its template lacks."""
    key, values = text(expression.get("key")) or "", sequence(expression.get("values"))
    if len(values) > _MOST_EXPRESSION_VALUES:
        return None
    operator = expression.get("operator")
    if operator == "In":
        return _is(labels, key, values)
    there = key in labels.sure
    if operator == "Exists":
        return True if there else None if labels.may_have(key) else False
    if operator == "NotIn" and there:
        return labels.sure[key] not in values
    if operator == "DoesNotExist" and there:
        return False
    lacks = labels.stored and not labels.may_have(key)
    return True if lacks and operator in {"NotIn", "DoesNotExist"} else None


# Labels that Kubernetes and others give each pod of a template another value of.
OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "grove.io/podclique-pod-index",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-key",
        "leaderworkerset.sigs.k8s.io/worker-index",
    }
)


class HostPort(NamedTuple):
    """A host port. An address of "" or 0.0.0.0 overlaps with all others."""

    number: int
    protocol: str
    address: str


class AntiAffinity(NamedTuple):
    """Pods whose labels match must not share a value of node label `key` with this pod. `matches` names the roles of
    the gang that surely match; a node without the label is not restricted.
    """

    key: str
    roles: frozenset[str]
    at: FieldPath


class SpreadLimit(NamedTuple):
    """At most `most` pods of the role in each value of node label `key`. Only made where `minDomains` is above the
    number of domains that can exist; other spread constraints prove nothing.
    """

    key: str
    min_domains: int
    most: int
    at: FieldPath


class DeviceNeed(NamedTuple):
    """Different devices that a pod needs of a DeviceClass. `driver` is the one that all of them have, if known."""

    device_class: str
    number: int
    at: FieldPath
    driver: str | None = None


class SharedClaimNeed(NamedTuple):
    """What all pods that name one ResourceClaim need of it together, once."""

    claim: str
    devices: tuple[DeviceNeed, ...]


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What one pod needs. `request` is in the scheduler's units: cpu in milli, all else in units, rounded up per sum;
    "pods" is its pod slots. Resources that the scheduler does not compare are left out. `devices` are needed by each
    pod; those of `shared_devices` once for all pods of the gang that name the claim.
    """

    request: Mapping[str, int]
    eligibility: Eligibility
    ports: tuple[HostPort, ...] = ()
    apart: tuple[AntiAffinity, ...] = ()
    spread: tuple[SpreadLimit, ...] = ()
    devices: tuple[DeviceNeed, ...] = ()
    shared_devices: tuple[SharedClaimNeed, ...] = ()
    # Why something about the pod is not judged, in words. What is named here is left out of `request`.
    unjudged: tuple[str, ...] = field(default=())
    # What the scheduler wants of the pod besides, in words: a *never* stays valid; *fits* is not reported.
    left_out: tuple[str, ...] = ()


# More are not judged. A pod has a handful.
_MOST_PORTS = 256
_LAST_PORT = 65_535


def ports_of(spec: Mapping[str, Any], *, stored: bool) -> tuple[HostPort, ...]:
    """Returns the host ports of containers and sidecars. Plain init containers need none. Raises `Malformed`. On the
    network of the host every port is one, as the API server defaults it on pods.
    """
    on_host = not stored and flag(spec.get("hostNetwork"))
    ports: dict[HostPort, None] = {}
    for container in _running(spec):
        for port in map(mapping, sequence(container.get("ports"))):
            number = integer(port.get("hostPort")) or 0
            if number <= 0 and on_host:
                number = integer(port.get("containerPort")) or 0
            if 0 < number <= _LAST_PORT:
                ports[HostPort(number, text(port.get("protocol")) or "TCP", text(port.get("hostIP")) or "")] = None
            if len(ports) == _MOST_PORTS:
                return tuple(ports)
    return tuple(ports)


def _running(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from map(mapping, sequence(spec.get("containers")))
    for container in map(mapping, sequence(spec.get("initContainers"))):
        if container.get("restartPolicy") == "Always":
            yield container


# More terms are not judged, and in a gang of more roles a term is held against its own role only.
_MOST_APART_TERMS, MOST_ROLES = 8, 8
# So is a template whose selectors have more entries than these when they are held against all roles.
_MOST_CHECKS = 256


NONE_WRITTEN: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def apart_of(
    template: PodTemplate,
    others: Mapping[str, PodTemplate],
    *,
    stored: bool,
    namespace: str,
    written: Mapping[str, Mapping[str, str]] = NONE_WRITTEN,
) -> tuple[tuple[AntiAffinity, ...], bool]:
    """Returns the anti-affinity of a template against the roles in `others` that surely match, itself among them, and
    whether that is all. `written`: by role, labels that a controller is known to write into its pods. Raises
    `Malformed`.
    """
    stated = sequence(mapping(mapping(template.spec.get("affinity")).get("podAntiAffinity")).get(_REQUIRED))
    terms = stated[:_MOST_APART_TERMS]
    if not terms:
        return (), True
    checks = len(others) * sum(1 + entries_of(mapping(term).get("labelSelector")) for term in terms)
    is_long = len(others) > MOST_ROLES or checks > _MOST_CHECKS
    if is_long:
        # Each term is held against the pods of its own role only.
        others = {name: other for name, other in others.items() if other is template}
    is_all = not is_long and len(stated) == len(terms)
    labels = {
        name: PodLabels.from_template(other.labels, written.get(name, {}), stored=stored)
        for name, other in others.items()
    }
    pod_labels = next(
        (labels[name] for name, other in others.items() if other is template),
        PodLabels.from_template(template.labels, {}, stored=stored),
    )
    apart: list[AntiAffinity] = []
    for index, term in enumerate(map(mapping, terms)):
        key = text(term.get("topologyKey"))
        covers = None if key is None else _covers(term, namespace)
        if key is None or covers is False:
            continue
        answers = {
            name: all_hold((covers, _matches(term, pod_labels, other, stored=stored))) for name, other in labels.items()
        }
        at = template.spec_path / "affinity" / "podAntiAffinity" / _REQUIRED / Item(index)
        if roles := frozenset(name for name, answer in answers.items() if answer is True):
            apart.append(AntiAffinity(key, roles, at))
        is_all = is_all and None not in answers.values()
    return tuple(apart), is_all


def mutual_needs(needs: Mapping[str, PodNeeds]) -> dict[str, PodNeeds]:
    """Returns the needs of all roles by name, with the anti-affinity that both sides state. The rest is left out. For a
    scheduler that holds a pod against its own terms alone, and not against those of the gang's pods that it has placed
    at the same moment: the pod that has no term is placed second, beside the other.
    """
    mutual = {}
    for name, pods in needs.items():
        apart = [
            rule._replace(roles=frozenset(other for other in rule.roles if _states(needs[other], rule.key, name)))
            for rule in pods.apart
        ]
        left_out = pods.left_out
        if apart != list(pods.apart):
            one_sided = "the required anti-affinity of some pods of the gang against others, which do not state it"
            left_out = (*left_out, one_sided)
        mutual[name] = replace(pods, apart=tuple(rule for rule in apart if rule.roles), left_out=left_out)
    return mutual


def _states(pods: PodNeeds, key: str, name: str) -> bool:
    return any(rule.key == key and name in rule.roles for rule in pods.apart)


def _covers(term: Mapping[str, Any], namespace: str) -> bool | None:
    """Returns whether a term is about pods of the gang's own namespace; None if the labels of the namespace decide."""
    names, selector = sequence(term.get("namespaces")), term.get("namespaceSelector")
    if namespace in names or (not names and selector is None):
        return True
    if selector is None:
        return False
    # An empty selector selects every namespace.
    return None if any(mapping(selector).values()) else True


def _matches(term: Mapping[str, Any], labels: PodLabels, other: PodLabels, *, stored: bool) -> bool | None:
    """Returns whether a term of a pod with these `labels` matches pods with those of `other`."""
    answer = matches(term.get("labelSelector"), other)
    if stored or answer is False:
        # The API server has written the keys of labels into the selector of a stored pod.
        return answer
    same = (_is_same(key, labels, other) for key in _keys(term, "matchLabelKeys"))
    different = (_is_same(key, labels, other, is_not=True) for key in _keys(term, "mismatchLabelKeys"))
    return all_hold((answer, *same, *different))


def _is_same(key: str, labels: PodLabels, other: PodLabels, *, is_not: bool = False) -> bool | None:
    """Returns whether both have the same value of a label, or with `is_not` different ones."""
    value, other_value = labels.sure.get(key), other.sure.get(key)
    return None if value is None or other_value is None else (value == other_value) is not is_not


def _keys(term: Mapping[str, Any], field: str) -> Iterator[str]:
    for key in sequence(term.get(field)):
        yield text(key) or ""


# More constraints are not judged.
_MOST_CONSTRAINTS = 16


def spread_of(template: PodTemplate) -> tuple[SpreadLimit, ...]:
    """Returns the constraints that count the pods of the template itself. Raises `Malformed`."""
    constraints = sequence(template.spec.get("topologySpreadConstraints"))[:_MOST_CONSTRAINTS]
    if not constraints:
        return ()
    labels = PodLabels.from_template(template.labels, {}, stored=False)
    spreads: list[SpreadLimit] = []
    for index, constraint in enumerate(map(mapping, constraints)):
        key, most = text(constraint.get("topologyKey")), integer(constraint.get("maxSkew")) or 0
        domains = integer(constraint.get("minDomains")) or 0
        if key is None or most < 1 or domains < 1 or constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        # Pods with other values of such a label are not counted.
        counted = all(text(name) in labels.sure for name in sequence(constraint.get("matchLabelKeys")))
        if counted and matches(constraint.get("labelSelector"), labels) is True:
            at = template.spec_path / "topologySpreadConstraints" / Item(index)
            spreads.append(SpreadLimit(key, domains, most, at))
    return tuple(spreads)


def requires_affinity(template: PodTemplate) -> bool:
    return bool(sequence(mapping(mapping(template.spec.get("affinity")).get("podAffinity")).get(_REQUIRED)))


def binding_constraints(template: PodTemplate) -> int:
    """Returns how many topology spread constraints may keep a pod waiting. Raises `Malformed`."""
    constraints = map(mapping, sequence(template.spec.get("topologySpreadConstraints")))
    return sum(constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in constraints)
