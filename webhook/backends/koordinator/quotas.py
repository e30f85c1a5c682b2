"""ElasticQuotas and QoS classes: the quotas that limit a gang, the rules about the quota that it names, and what
koord-manager's webhook would refuse in a pod.

A quota limits the resources that its `max` names. Its pods may have more than that up to `min` and `guaranteed`. What
it gives at the moment (`runtime`) is no ceiling: it follows the requests of other quotas. Quotas above limit only with
the plugin's arguments enableRuntimeQuota or enableCheckParentQuota, which no object shows.

All cliques use one quota, which exists and is a leaf. A PodCliqueSet names it by the annotation
scheduling.grove.io/koordinator-quota on itself or on its cliques (GREP-537's later revision). A clique can also use
Koordinator's own pod label.

A QoS class must fit its priority band and CPU. The rules judge the clique, so that the author sees the message, and
judge the pod again. v1.6.0 to v1.7.0 computed the same verdicts but dropped them by mistake (fixed by #2595).

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/elasticquota: plugin.go (`PreFilter`),
plugin_helper.go (`GetQuotaName`, `checkQuotaRecursive`), core/quota_info.go, core/runtime_quota_calculator.go;
pkg/webhook/elasticquota; pkg/webhook/pod/validating/cluster_colocation_profile.go, apis/extension/{qos,priority}.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from heapq import nsmallest

from webhook.backends.koordinator import keys
from webhook.backends.koordinator.gangs import quotas_of_namespace
from webhook.backends.koordinator.keys import KoordinatorSettings, RuleContext
from webhook.backends.queues import path_of, place_of
from webhook.fit.ceilings import MOST_TRIED, allows, demand_of, exact_requests, queue_request, round_down, templates_of
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.packing import Ceiling, Ceilings, PackingRole
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.capabilities import QOS_LABEL, QUOTA_ANNOTATION, QUOTA_LABEL, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import ElasticQuotas, PodGangFacts, PriorityClass, Quota
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import Amounts
from webhook.model.reading import integer, text
from webhook.model.workload_record import recorded_quota
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.pod_guard import HasLabel, Requests, sees
from webhook.validators.registry import Example, PodCliqueSetChange, Results, Subject, rule
from webhook.validators.shared_checks import first_name, forbidden_move
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

_NO_QUOTAS = ElasticQuotas()
_UNKNOWN_QUOTAS = "the ElasticQuotas are unknown"


def ceilings_of(
    shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts, settings: KoordinatorSettings
) -> Ceilings:
    """Returns the quotas that limit a gang with these roles. Raises `Malformed`."""
    return _Quotas(shape, roles, facts, settings).ceilings()


class _Quotas:
    """The quotas of one gang."""

    def __init__(
        self, shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts, settings: KoordinatorSettings
    ) -> None:
        self._shape, self._roles, self._settings = shape, roles, settings
        quotas = facts.elastic_quotas
        if not (quotas is None or isinstance(quotas, ElasticQuotas)):
            quotas = ElasticQuotas(quotas)
        self._elastic_quotas = quotas
        self._partial = not facts.is_whole("elastic_quotas")
        self._templates = templates_of(shape)
        self._members: dict[str, list[MemberShape]] = {}
        for member in shape.needed:
            self._members.setdefault(member.called, []).append(member)
        self._unknown: dict[str, None] = {}
        self._counts: dict[str, Mapping[str, int]] = {}

    def ceilings(self) -> Ceilings:
        by_quota: dict[str, list[str]] = {}
        for role in self._roles:
            if (name := self._name(role)) is not None:
                by_quota.setdefault(name, []).append(role)
        ceilings = [
            ceiling for name, roles in by_quota.items() for ceiling in self._quota_ceilings(name, frozenset(roles))
        ]
        return Ceilings(tuple(ceilings), tuple(self._unknown))

    def _name(self, role: str) -> str | None:
        """Returns the quota that the pods of a role are charged to; None for the default one, which has no limit."""
        template = self._templates.get(role)
        labelled = None if template is None else text(template.labels.get(QUOTA_LABEL))
        # The label of a stored pod is the one that counts. Of others, Rollcall writes the recorded quota.
        name = labelled if self._shape.stored else self._shape.record.quota or labelled
        if name is None:
            return self._namespace_quota()
        return None if name in (*keys.BUILT_IN_QUOTAS, keys.ROOT_QUOTA) else name

    def _namespace_quota(self) -> str | None:
        namespace, quotas = self._shape.namespace, self._elastic_quotas
        if quotas is None or self._settings.disableDefaultQuota is True:
            return None
        takers = quotas_of_namespace(namespace, quotas)
        if not takers:
            if self._partial:
                self._unknown[_UNKNOWN_QUOTAS] = None
            return None
        # Of several quotas the scheduler takes any.
        if self._settings.disableDefaultQuota is None or len(takers) > 1 or quotas[takers[0]].namespaces is None:
            gate = "the profile's disableDefaultQuota says whether the scheduler looks for it"
            self._unknown[f"an ElasticQuota may take the pods of the namespace; {gate}"] = None
            return None
        return takers[0]

    def _quota_ceilings(self, name: str, roles: frozenset[str]) -> Iterator[Ceiling]:
        if self._elastic_quotas is None:
            self._unknown[_UNKNOWN_QUOTAS] = None
            return
        quota = self._elastic_quotas.get(name)
        if quota is None:
            # The pods of an unknown quota are charged to the default one.
            if self._partial:
                self._unknown[f"the ElasticQuota {shown(name)} is unknown"] = None
            return
        called, most = f"the ElasticQuota {shown(name)}", _limit(quota, ())
        if quota.is_parent:
            self._unknown[f"{called} is a parent, and Koordinator refuses pods that are charged to it"] = None
            return
        if name in self._elastic_quotas.disputed:
            why = f"another namespace has an ElasticQuota {shown(name)} as well, and which one counts is not known"
            self._unknown[why] = None
            return
        if most is None:
            self._unknown[f"an amount of {called} cannot be read"] = None
            return
        yield self._ceiling("the ElasticQuota", name, most, roles, of=name)
        yield from self._kept_pods_ceiling(name, quota, roles)
        yield from self._parent_ceilings(name, quota, most, roles)

    def _kept_pods_ceiling(self, name: str, quota: Quota, roles: frozenset[str]) -> Iterator[Ceiling]:
        labels = {role: self._templates[role].labels for role in roles if role in self._templates}
        kept = frozenset(role for role in labels if labels[role].get(keys.LABEL_PREEMPTIBLE) == "false")
        least = {resource: amount for resource, amount in (quota.min or {}).items() if resource in (quota.max or {})}
        if kept and least:
            ceiling = self._ceiling("the min of the ElasticQuota", name, least, kept)
            yield ceiling._replace(cure="let the pods be preempted")

    def _parent_ceilings(self, name: str, quota: Quota, most: Amounts, roles: frozenset[str]) -> Iterator[Ceiling]:
        is_limited = any(parent.max is None or parent.max for _, parent in self._ancestors(quota))
        modes = (self._settings.enableRuntimeQuota, self._settings.enableCheckParentQuota)
        if not is_limited or modes == (False, False):
            return
        if True not in modes:
            settings = "the profile's enableRuntimeQuota and enableCheckParentQuota say whether it does"
            self._unknown[f"an ElasticQuota above {shown(name)} may limit the gang; {settings}"] = None
            return
        below = [quota]
        for parent_name, parent in self._ancestors(quota):
            # What a quota below has for sure, it has whatever the parent's max is.
            limit = _limit(parent, below)
            below.append(parent)
            if parent_name in (self._elastic_quotas or _NO_QUOTAS).disputed:
                why = f"two namespaces have the ElasticQuota above {shown(name)}, and which one counts is not known"
                self._unknown[why] = None
                return
            if limit is None:
                self._unknown[f"an amount of an ElasticQuota above {shown(name)} cannot be read"] = None
            elif amounts := {resource: amount for resource, amount in limit.items() if resource in most}:
                # A message to users of the gang's namespace names no quota that they may not name.
                namespace = self._shape.namespace
                is_nameable = parent.namespace == namespace or namespace in (parent.namespaces or ())
                if is_nameable:
                    yield self._ceiling("the parent ElasticQuota", parent_name, amounts, roles, of=name)
                else:
                    yield self._ceiling("the ElasticQuota above", name, amounts, roles, of=name)

    def _ancestors(self, quota: Quota) -> Iterator[tuple[str, Quota]]:
        """Yields the known quotas above one, of the same tree."""
        for name, parent in path_of(quota.parent or "", self._elastic_quotas or _NO_QUOTAS):
            if parent.tree != quota.tree:
                return
            yield name, parent

    def _ceiling(
        self, called: str, name: str, amounts: Amounts, roles: frozenset[str], of: str | None = None
    ) -> Ceiling:
        """Returns a ceiling. If it is too low, it says which other quota than `of` allows the gang."""
        at = place_of(self._shape, keys.QUOTA_KEYS, ANNOTATIONS / QUOTA_ANNOTATION)
        ceiling = Ceiling(
            called, name, amounts, FitFamily.QUOTA, FitScope.EVER, at=at, counted=self._counted, roles=roles
        )
        if of is None or allows(ceiling, self._part(roles), self._roles):
            return ceiling
        return ceiling._replace(cure=self._cure(of, roles))

    def _counted(self, role: PackingRole) -> Mapping[str, int]:
        """Returns the least that a pod is charged: its requests, without the overhead that a gate may leave out."""
        if role.name not in self._counts:
            template = self._templates.get(role.name)
            requests = queue_request(role)
            bare = requests if template is None else round_down(exact_requests(template, overhead=False))
            self._counts[role.name] = {name: min(amount, bare.get(name, 0)) for name, amount in requests.items()}
        return self._counts[role.name]

    def _cure(self, name: str, roles: frozenset[str]) -> str:
        """Returns the advice to name another leaf that allows the gang, if one is known."""
        demand = demand_of(self._part(roles), self._roles, self._counted, roles)
        # A message to users of the gang's namespace names no other quotas that they have not named.
        quotas = self._elastic_quotas or _NO_QUOTAS
        for other in nsmallest(MOST_TRIED, quotas.visible_in(self._shape.namespace)):
            quota = quotas[other]
            if other != name and not quota.is_parent and self._allow(quota, demand):
                return f"name the ElasticQuota {shown(other)}, which allows it"
        return ""

    def _allow(self, quota: Quota, demand: Mapping[str, int]) -> bool:
        """Returns whether a quota and all above it allow what pods count together."""
        limits = [charged.max for charged in (quota, *(parent for _, parent in self._ancestors(quota)))]
        amounts = [amount for limit in limits for amount in (limit or {}).items()]
        return None not in limits and all(demand.get(name, 0) <= max(amount, 0) for name, amount in amounts)

    def _part(self, roles: frozenset[str]) -> GangShape:
        return self._shape._replace(members=tuple(member for role in roles for member in self._members.get(role, ())))


def _limit(quota: Quota, below: tuple[Quota, ...] | list[Quota]) -> Amounts | None:
    """Returns the most that a quota gives: its max, or what it or one `below` surely has; None if unreadable."""
    sure = [stated for holder in (quota, *below) for stated in (holder.min, holder.guaranteed)]
    if quota.max is None or any(stated is None for stated in sure):
        return None
    return {
        resource: max(amount, *((stated or {}).get(resource, 0) for stated in sure))
        for resource, amount in quota.max.items()
    }


# Koordinator's priority bands; any other value is in no band.
_BANDS = (
    ("koord-prod", 9000, 9999),
    ("koord-mid", 7000, 7999),
    ("koord-batch", 5000, 5999),
    ("koord-free", 3000, 3999),
)
_BAND_NAMES = tuple(name for name, _, _ in _BANDS)
_NO_BAND = "no band"
# The bands that each class may not have. A class that is not listed may have any band.
_FORBIDDEN = {"BE": (_NO_BAND, "koord-prod"), "LSR": (_NO_BAND, "koord-mid", "koord-batch", "koord-free")}
_WHOLE_CPU_CLASSES = ("LSR", "LSE")
# The classes for which neither `qos-priority` nor `qos-cpu` refuses a pod.
_UNRESTRICTED = tuple(name for name in keys.QOS_CLASSES if name not in _FORBIDDEN and name not in _WHOLE_CPU_CLASSES)

# A pod without the label has the default class of the profile.
_RESTRICTED = sees(
    HasLabel(QOS_LABEL, other_than=_UNRESTRICTED),
    suffices=lambda settings: settings.defaultQoSClass in (None, *_UNRESTRICTED),
)
_PROD = ClusterFacts(priority_classes={"koord-prod": PriorityClass(9000, is_default=False)})


def _lsr(priority: str | None, cpu: str = "4") -> Example:
    pod = {} if priority is None else {"priorityClassName": priority}
    member = clique("worker", labels={QOS_LABEL: "LSR"}, requests={"cpu": cpu}, pod=pod)
    return Example(pod_clique_set(member), facts=_PROD)


@rule(
    "koordinator/qos-class",
    subject=Subject.POD,
    guard=sees(HasLabel(QOS_LABEL, other_than=keys.QOS_CLASSES)),
    looks_at=(QOS_LABEL,),
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=Example(pod_clique_set(clique("worker", labels={QOS_LABEL: "LS"}))),
    fails=Example(pod_clique_set(clique("worker", labels={QOS_LABEL: "ls"}))),
)
def qos_class(pod: PodTemplate, _: RuleContext) -> Results:
    """Koordinator treats an unknown QoS class, also one in the wrong case, as no class, without a message.

    Source: koordinator-sh/koordinator, apis/extension/qos.go (`GetPodQoSClassByName`).
    """
    value = pod.labels.get(QOS_LABEL)
    if value is not None and value not in keys.QOS_CLASSES:
        why = "Koordinator does not know this QoS class and would treat the pod as a pod without a class"
        remedy = f"use one of {', '.join(keys.QOS_CLASSES)}, or remove the label"
        spelled = tuple(name for name in keys.QOS_CLASSES if name == str(value).upper())
        yield Finding(at=pod.labels_path / QOS_LABEL, value=value, why=why, remedy=remedy, instead=spelled)


@rule(
    "koordinator/qos-priority",
    subject=Subject.POD,
    guard=_RESTRICTED,
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=_lsr("koord-prod"),
    fails=_lsr(None),
)
def qos_priority(pod: PodTemplate, context: RuleContext) -> Results:
    """koord-manager refuses the pods, so the gang never starts. BE needs the mid, batch or free band; LSR needs the
    prod band.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go
    (`forbidSpecialQoSClassAndPriorityClass`).
    """
    if (qos := _effective(pod, context)) not in _FORBIDDEN:
        return
    place = pod.labels_path / QOS_LABEL
    band = _band(pod, context)
    if band is None:
        yield Unjudged(place, "the PriorityClasses", part="priority_classes")
    elif band in _FORBIDDEN[qos]:
        allowed = [name for name in _BAND_NAMES if name not in _FORBIDDEN[qos]]
        why = f"koord-manager refuses this class with a priority in {band}{_origin(pod)}"
        remedy = f"set priorityClassName to one of {', '.join(allowed)}, or use another QoS class"
        yield Finding(at=place, value=qos, why=why, remedy=remedy)


@rule(
    "koordinator/qos-cpu",
    subject=Subject.POD,
    guard=_RESTRICTED,
    capability=Capability.QOS_CLASS,
    independent=True,
    passes=_lsr("koord-prod"),
    fails=_lsr("koord-prod", cpu="1500m"),
)
def qos_cpu(pod: PodTemplate, context: RuleContext) -> Results:
    """LSR and LSE pods are bound to whole CPU cores. koord-manager refuses a pod whose CPU request is not a whole
    number.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go (`validateResources`).
    """
    qos = _effective(pod, context)
    if qos not in _WHOLE_CPU_CLASSES:
        return
    total = pod.total_request("cpu")
    if total is None or total <= 0 or total.denominator != 1:
        amount = "no readable amount" if total is None else f"{float(total):g} in all"
        why = f"the class needs a whole number of CPUs, and the pod requests {amount}{_origin(pod)}"
        remedy = "request a whole number of CPUs (the sum of all containers counts), or use LS"
        yield Finding(at=pod.labels_path / QOS_LABEL, value=qos, why=why, remedy=remedy)


@rule(
    "koordinator/batch-resources",
    subject=Subject.POD,
    guard=sees(Requests(keys.BATCH_RESOURCES)),
    looks_at=keys.BATCH_RESOURCES,
    independent=True,
    passes=Example(
        pod_clique_set(
            clique(
                "worker",
                labels={QOS_LABEL: "BE"},
                requests={"kubernetes.io/batch-cpu": "4000"},
                pod={"priorityClassName": "koord-batch"},
            )
        )
    ),
    fails=Example(pod_clique_set(clique("worker", requests={"kubernetes.io/batch-cpu": "4000"}))),
)
def batch_resources(pod: PodTemplate, context: RuleContext) -> Results:
    """koord-manager refuses a pod that requests batch resources without the class BE.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/cluster_colocation_profile.go
    (`validateRequiredQoSClass`).
    """
    qos = _effective(pod, context)
    if qos == "BE":
        return
    if (request := pod.request_of(keys.BATCH_RESOURCES)) is not None:
        path = FieldPath((*pod.spec_path.parts, *request.path))
        why = f"koord-manager admits batch resources only for the QoS class BE, and the pod has {qos or 'none'}"
        remedy = f"set the label {QOS_LABEL}: BE, or request cpu and memory"
        yield Finding(at=path, value=request.resource, why=why, remedy=remedy)


def _effective(pod: PodTemplate, context: RuleContext) -> str | None:
    if QOS_LABEL in pod.labels:
        return text(pod.labels[QOS_LABEL])
    return context.settings.defaultQoSClass


def _origin(pod: PodTemplate) -> str:
    return "" if QOS_LABEL in pod.labels else " (the class is the profile's defaultQoSClass)"


def _band(pod: PodTemplate, context: RuleContext) -> str | None:
    """Returns the pod's priority band; None if it depends on unknown PriorityClasses."""
    if keys.LABEL_PRIORITY_CLASS in pod.labels:
        label = pod.labels[keys.LABEL_PRIORITY_CLASS]
        return label if label in _BAND_NAMES else _NO_BAND
    name = text(pod.spec.get("priorityClassName"))
    # In a template the number has no effect: the API server computes it from the class, and refuses a pod with another
    # number.
    value = integer(pod.spec.get("priority")) if context.workload is None else None
    if value is None and name in _BAND_NAMES:
        # Koordinator installs these itself, with fixed values.
        return name
    if value is None:
        classes = context.facts.priority_classes
        if classes is None:
            return None
        if name is None:
            if not context.facts.is_whole("priority_classes"):
                return None
            value = next((priority_class.value for priority_class in classes.values() if priority_class.is_default), 0)
        elif name in classes:
            value = classes[name].value
        else:
            return None
    return next((band for band, low, high in _BANDS if low <= value <= high), _NO_BAND)


# The limit of Kubernetes for a label value; the name of an ElasticQuota may be longer.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")

_QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all-teams": Quota(is_parent=True)})


def _asking(quota: str) -> dict[str, str]:
    return {QUOTA_ANNOTATION: quota}


@rule(
    "koordinator/quota",
    capability=Capability.QUOTA,
    passes=Example(pod_clique_set(annotations=_asking("team-a")), facts=_QUOTAS),
    fails=Example(pod_clique_set(annotations=_asking("team-b")), facts=_QUOTAS),
)
def quota(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Koordinator charges a pod that names a missing quota to koordinator-default-quota, without a message. It refuses
    the creation of a pod that names a parent quota.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go.
    """
    for use in context.uses[Capability.QUOTA]:
        yield from judge_quota(use.value, use.path, context)


@rule(
    "koordinator/pod-quota",
    subject=Subject.POD,
    guard=sees(HasLabel(QUOTA_LABEL)),
    looks_at=(QUOTA_LABEL,),
    passes=Example(pod_clique_set(), facts=_QUOTAS),
    fails=Example(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "demo-0-worker-",
                "labels": {
                    "app.kubernetes.io/managed-by": "grove-operator",
                    "app.kubernetes.io/part-of": "demo",
                    "grove.io/podgang": "demo-0",
                    "grove.io/podclique": "demo-0-worker",
                    QUOTA_LABEL: "all-teams",
                },
            },
            "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        },
        facts=_QUOTAS,
    ),
)
def pod_quota(pod: PodTemplate, context: RuleContext) -> Results:
    """The check of koordinator/quota for a pod, if its set bypassed the webhook or if its quota has become a parent
    since. A missing quota is not a reason to refuse a pod, because the known facts may be older than the cluster.

    Source: as for koordinator/quota.
    """
    if context.workload is None and QUOTA_LABEL in pod.labels:
        for result in judge_quota(pod.labels[QUOTA_LABEL], pod.labels_path / QUOTA_LABEL, context):
            if isinstance(result, Unjudged) or result.absent is None:
                yield result


@rule(
    "koordinator/quota-disagree",
    capability=Capability.QUOTA,
    passes=Example(pod_clique_set(clique("worker", annotations=_asking("team-a")), annotations=_asking("team-a"))),
    fails=Example(pod_clique_set(clique("worker", annotations=_asking("team-b")), annotations=_asking("team-a"))),
)
def quota_disagree(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A gang with two quotas starts only when both have room at the same moment. One quota may hold its room until the
    timeout of the other.

    Source: koordinator-sh/koordinator checks quotas pod by pod in PreFilter
    (pkg/scheduler/plugins/elasticquota/plugin.go).
    """
    # First the PodCliqueSet's own, then by clique name, so that reordering the cliques moves no finding.
    uses = sorted(context.uses[Capability.QUOTA], key=lambda use: use.path.anchor)
    for use in uses[1:]:
        if use.value != uses[0].value:
            why = f"all pods of a set need one quota, and {uses[0].path} is {uses[0].value}"
            remedy = f"name one quota, preferably in the annotation {QUOTA_ANNOTATION} of the set"
            yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


def _in_namespace_quota(*, is_parent: bool) -> Example:
    facts = ClusterFacts(elastic_quotas={"default": Quota(is_parent=is_parent, namespace="default")})
    return Example(pod_clique_set(), config={"disableDefaultQuota": False}, facts=facts)


@rule(
    "koordinator/namespace-quota",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=_in_namespace_quota(is_parent=False),
    fails=_in_namespace_quota(is_parent=True),
)
def namespace_quota(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Pods that name no quota get the ElasticQuota with the name of their namespace, or one that lists the namespace.
    Koordinator refuses the creation of their pods if that is a parent. The feature gate DisableDefaultQuota, which the
    profile's disableDefaultQuota states, turns this off.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go, v1.8.0.
    """
    quotas, disabled = context.facts.elastic_quotas, context.settings.disableDefaultQuota
    if not quotas or disabled is True:
        return
    if isinstance(workload, PodCliqueSet):
        names_quota = bool(context.uses.get(Capability.QUOTA))
    else:
        names_quota = first_name(workload, keys.QUOTA_KEYS, keys.QUOTA_KEYS_OF_PODS) is not None
    if names_quota:
        return
    takers = quotas_of_namespace(workload.namespace, quotas)
    if not takers or not all(quotas[name].is_parent for name in takers):
        return
    of_set = isinstance(workload, PodCliqueSet)
    at = ANNOTATIONS / QUOTA_ANNOTATION if of_set else LABELS / QUOTA_LABEL
    if takers != [workload.namespace] and not context.facts.is_whole("elastic_quotas"):
        # One with the name of the namespace comes before those that list it.
        yield Unjudged(at, "the ElasticQuotas", part="elastic_quotas")
        return
    parent = shown(min(takers))
    if disabled is None:
        yield Unjudged(
            at,
            f"the gate DisableDefaultQuota, by which pods get the parent quota {parent} of their namespace,",
            remedy="state disableDefaultQuota in the profile's config, or name a quota",
        )
        return
    why = f"the namespace gives its pods the quota {parent}, which is a parent and takes none"
    yield Finding(at=at, value=None, why=why, remedy="name one of its children")


_LIVING = ClusterFacts(
    elastic_quotas={"team-a": Quota(is_parent=False), "team-b": Quota(is_parent=False)},
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")},
)


@rule(
    "koordinator/quota-change",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(annotations=_asking("team-a")), old=pod_clique_set(annotations=_asking("team-a")), facts=_LIVING
    ),
    fails=Example(
        pod_clique_set(annotations=_asking("team-b")), old=pod_clique_set(annotations=_asking("team-a")), facts=_LIVING
    ),
)
def quota_change(change: PodCliqueSetChange, context: RuleContext) -> Results:
    """If the quota of an existing gang changes, its old pods stay charged to the old quota and replacements are charged
    to the new one.

    Source: GREP-537's later revision makes the quota immutable; Koordinator never re-reads the label of a bound pod.
    """
    before, now = recorded_quota(change.old), recorded_quota(change.new)
    if before == now:
        return
    uses = context.uses.get(Capability.QUOTA)
    use = Use(uses[0].path if uses else ANNOTATIONS / QUOTA_ANNOTATION, now)
    yield from forbidden_move(
        change, context, use, f"the pods of its gangs are charged to {before or 'no named quota'}", "quota"
    )


def judge_quota(name: object, path: FieldPath, context: RuleContext) -> Results:
    quotas = context.facts.elastic_quotas
    if name in keys.BUILT_IN_QUOTAS:
        return
    if name and not _LABEL_VALUE.match(str(name)):
        yield Finding(
            at=path,
            value=name,
            why=f"it becomes the value of the pod label {QUOTA_LABEL} but is not a valid value, "
            "so no pod could be created",
            remedy="name an ElasticQuota of at most 63 letters, digits, dots and dashes",
        )
        return
    if quotas is None and name != keys.ROOT_QUOTA:
        yield Unjudged(path, "the ElasticQuotas", part="elastic_quotas")
        return
    quota = Quota(is_parent=True) if name == keys.ROOT_QUOTA or quotas is None else quotas.get(str(name))
    if quota is None:
        why = "no ElasticQuota has that name, so the pods would count against koordinator-default-quota"
        remedy = "name an ElasticQuota that exists, or create it first"
        yield Finding(at=path, value=name, why=why, remedy=remedy, absent=Needed("elastic_quotas", str(name)))
    elif quota.is_parent:
        why = "it is a parent quota, and Koordinator admits pods only to a leaf"
        yield Finding(at=path, value=name, why=why, remedy="name one of its children")
