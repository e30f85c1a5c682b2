"""The ElasticQuotas that limit a gang under koord-scheduler: that of its pods, and those above it.

A quota limits the resources that its `max` names. Its pods may have more than that up to `min` and `guaranteed`. What
it gives at the moment (`runtime`) is no ceiling: it follows the requests of other quotas. Quotas above limit only with
the plugin's arguments enableRuntimeQuota or enableCheckParentQuota, which no object shows.

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/elasticquota: plugin.go (`PreFilter`), plugin_helper.go
(`GetQuotaName`, `checkQuotaRecursive`), core/quota_info.go, core/runtime_quota_calculator.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest

from webhook.backends.koordinator.facts import quotas_of_namespace
from webhook.backends.koordinator.keys import BUILT_IN_QUOTAS, LABEL_PREEMPTIBLE, ROOT_QUOTA
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.queue_tree import place_of
from webhook.fit.demand import MOST_TRIED, allows, demand_of, exact_requests, floors, requested, templates_of
from webhook.fit.packing import Ceiling, Ceilings, Role
from webhook.fit.shape import GangShape, MemberShape
from webhook.fit.verdict import Family, Scope
from webhook.model.amounts import Amounts
from webhook.model.capabilities import QUOTA_ANNOTATION, QUOTA_LABEL
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.findings import shown
from webhook.model.known_objects import ElasticQuotas, Quota
from webhook.model.reading import text

_NO_QUOTAS = ElasticQuotas()
_UNKNOWN_QUOTAS = "the ElasticQuotas are unknown"
_UNKNOWN_QUOTA = "the ElasticQuota {} is unknown"
_PARENT = "the ElasticQuota {} is a parent, and Koordinator refuses pods that are charged to it"
_UNREADABLE = "an amount of the ElasticQuota {} cannot be read"
_DISPUTED = "another namespace has an ElasticQuota {} as well, and which one counts is not known"
_ABOVE = "the ElasticQuota above"
_UNREADABLE_ABOVE = "an amount of an ElasticQuota above {} cannot be read"
_DISPUTED_ABOVE = "two namespaces have the ElasticQuota above {}, and which one counts is not known"
_BY_NAMESPACE = (
    "an ElasticQuota may take the pods of the namespace; the profile's disableDefaultQuota says whether the scheduler "
    "looks for it"
)
_PARENTS = (
    "an ElasticQuota above {} may limit the gang; the profile's enableRuntimeQuota and enableCheckParentQuota say "
    "whether it does"
)


def ceilings_of(
    shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts, settings: KoordinatorSettings
) -> Ceilings:
    """Return the quotas that limit a gang with these roles. Raises `Malformed`."""
    return _Quotas(shape, roles, facts, settings).found()


class _Quotas:
    """The quotas of one gang."""

    def __init__(
        self, shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts, settings: KoordinatorSettings
    ) -> None:
        self._shape, self._roles, self._settings = shape, roles, settings
        quotas = facts.elastic_quotas
        if not (quotas is None or isinstance(quotas, ElasticQuotas)):
            quotas = ElasticQuotas(quotas)
        self._known = quotas
        self._partial = not facts.is_whole("elastic_quotas")
        self._templates = templates_of(shape)
        self._members: dict[str, list[MemberShape]] = {}
        for member in shape.needed:
            self._members.setdefault(member.called, []).append(member)
        self._unknown: dict[str, None] = {}
        self._counts: dict[str, Mapping[str, int]] = {}

    def found(self) -> Ceilings:
        """Return the ceilings of the gang."""
        by_quota: dict[str, list[str]] = {}
        for role in self._roles:
            if (name := self._name(role)) is not None:
                by_quota.setdefault(name, []).append(role)
        ceilings = [one for name, roles in by_quota.items() for one in self._of_quota(name, frozenset(roles))]
        return Ceilings(tuple(ceilings), tuple(self._unknown))

    def _name(self, role: str) -> str | None:
        """Return the quota that the pods of a role are charged to; None for the default one, which has no limit."""
        template = self._templates.get(role)
        labelled = None if template is None else text(template.labels.get(QUOTA_LABEL))
        # The label of a stored pod is the one that counts. Of others, Rollcall writes the recorded quota.
        name = labelled if self._shape.stored else self._shape.record.quota or labelled
        if name is None:
            return self._of_namespace()
        return None if name in (*BUILT_IN_QUOTAS, ROOT_QUOTA) else name

    def _of_namespace(self) -> str | None:
        """Return the quota that takes the pods of the gang's namespace that name none."""
        namespace, known = self._shape.namespace, self._known
        if known is None or self._settings.disableDefaultQuota is True:
            return None
        found = quotas_of_namespace(namespace, known)
        if not found:
            if self._partial:
                self._unknown[_UNKNOWN_QUOTAS] = None
            return None
        # Of several quotas the scheduler takes any.
        if self._settings.disableDefaultQuota is None or len(found) > 1 or known[found[0]].namespaces is None:
            self._unknown[_BY_NAMESPACE] = None
            return None
        return found[0]

    def _of_quota(self, name: str, roles: frozenset[str]) -> Iterator[Ceiling]:
        if self._known is None:
            self._unknown[_UNKNOWN_QUOTAS] = None
            return
        quota = self._known.get(name)
        if quota is None and self._partial:
            self._unknown[_UNKNOWN_QUOTA.format(shown(name))] = None
            return
        # The pods of an unknown quota are charged to the default one.
        if quota is None:
            return
        if quota.is_parent:
            self._unknown[_PARENT.format(shown(name))] = None
            return
        if self._is_disputed(name):
            self._unknown[_DISPUTED.format(shown(name))] = None
            return
        most = _limit(quota, ())
        if most is None:
            self._unknown[_UNREADABLE.format(shown(name))] = None
            return
        yield self._ceiling("the ElasticQuota", name, most, roles, of=name)
        yield from self._of_kept_pods(name, quota, roles)
        yield from self._of_parents(name, quota, most, roles)

    def _is_disputed(self, name: str) -> bool:
        return self._known is not None and name in self._known.disputed

    def _of_kept_pods(self, name: str, quota: Quota, roles: frozenset[str]) -> Iterator[Ceiling]:
        """Yield the min of a quota, which limits the pods that are never preempted."""
        kept = frozenset(role for role in roles if self._is_never_preempted(role))
        least = {resource: amount for resource, amount in (quota.min or {}).items() if resource in (quota.max or {})}
        if kept and least:
            found = self._ceiling("the min of the ElasticQuota", name, least, kept)
            yield found._replace(cure="let the pods be preempted")

    def _is_never_preempted(self, role: str) -> bool:
        template = self._templates.get(role)
        return template is not None and template.labels.get(LABEL_PREEMPTIBLE) == "false"

    def _of_parents(self, name: str, quota: Quota, most: Amounts, roles: frozenset[str]) -> Iterator[Ceiling]:
        above = [one for one in self._above(quota) if one[1].max is None or one[1].max]
        modes = (self._settings.enableRuntimeQuota, self._settings.enableCheckParentQuota)
        if not above or modes == (False, False):
            return
        if True not in modes:
            self._unknown[_PARENTS.format(shown(name))] = None
            return
        below = [quota]
        for parent_name, parent in self._above(quota):
            # What a quota below has for sure, it has whatever the parent's max is.
            limit = _limit(parent, below)
            below.append(parent)
            if self._is_disputed(parent_name):
                self._unknown[_DISPUTED_ABOVE.format(shown(name))] = None
                return
            if limit is None:
                self._unknown[_UNREADABLE_ABOVE.format(shown(name))] = None
            elif amounts := {resource: amount for resource, amount in limit.items() if resource in most}:
                named = self._may_be_named(parent)
                called, own = ("the parent ElasticQuota", parent_name) if named else (_ABOVE, name)
                yield self._ceiling(called, own, amounts, roles, of=name)

    def _above(self, quota: Quota) -> Iterator[tuple[str, Quota]]:
        """Yield the known quotas above one, of the same tree."""
        passed: set[str] = set()
        name = quota.parent
        while name is not None and name not in passed and (found := (self._known or _NO_QUOTAS).get(name)) is not None:
            if found.tree != quota.tree:
                return
            yield name, found
            passed.add(name)
            name = found.parent

    def _ceiling(
        self, called: str, name: str, amounts: Amounts, roles: frozenset[str], of: str | None = None
    ) -> Ceiling:
        """Return a ceiling. If it is too low, it says which other quota than `of` allows the gang."""
        found = Ceiling(
            called,
            name,
            amounts,
            Family.QUOTA,
            Scope.EVER,
            at=self._at(),
            counted=self._counted,
            roles=roles,
        )
        if of is None or allows(found, self._part(roles), self._roles):
            return found
        return found._replace(cure=self._cure(of, roles))

    def _at(self) -> FieldPath:
        keys = ("annotations", QUOTA_ANNOTATION), ("labels", QUOTA_LABEL)
        return place_of(self._shape, keys, ANNOTATIONS / QUOTA_ANNOTATION)

    def _counted(self, role: Role) -> Mapping[str, int]:
        """Return the least that a pod is charged: its requests, without the overhead that a gate may leave out."""
        if role.name not in self._counts:
            template = self._templates.get(role.name)
            own = requested(role)
            bare = own if template is None else floors(exact_requests(template, overhead=False))
            self._counts[role.name] = {name: min(amount, bare.get(name, 0)) for name, amount in own.items()}
        return self._counts[role.name]

    def _cure(self, name: str, roles: frozenset[str]) -> str:
        """Return the advice to name another leaf that allows the gang, if one is known."""
        demand = demand_of(self._part(roles), self._roles, self._counted, roles)
        # A message to users of the gang's namespace names no other quotas that they have not named.
        known = self._known or _NO_QUOTAS
        for other in nsmallest(MOST_TRIED, known.named_in(self._shape.namespace)):
            quota = known[other]
            if other != name and not quota.is_parent and self._allow(quota, demand):
                return f"name the ElasticQuota {shown(other)}, which allows it"
        return ""

    def _may_be_named(self, quota: Quota) -> bool:
        """Return whether a message to users of the gang's namespace may name a quota that they have not named."""
        namespace = self._shape.namespace
        return quota.namespace == namespace or namespace in (quota.namespaces or ())

    def _allow(self, quota: Quota, demand: Mapping[str, int]) -> bool:
        """Return whether a quota and all above it allow what pods count together."""
        limits = [one.max for one in (quota, *(parent for _, parent in self._above(quota)))]
        if any(limit is None for limit in limits):
            return False
        return all(
            demand.get(resource, 0) <= max(amount, 0) for limit in limits for resource, amount in (limit or {}).items()
        )

    def _part(self, roles: frozenset[str]) -> GangShape:
        """Return the gang with the members of some roles only."""
        return self._shape._replace(members=tuple(one for role in roles for one in self._members.get(role, ())))


def _limit(quota: Quota, below: tuple[Quota, ...] | list[Quota]) -> Amounts | None:
    """Return the most that a quota gives: its max, or what it or one of those `below` has for sure, if that is more.
    None if it cannot be read.
    """
    sure = [stated for one in (quota, *below) for stated in (one.min, one.guaranteed)]
    if quota.max is None or any(stated is None for stated in sure):
        return None
    return {
        resource: max(amount, *((stated or {}).get(resource, 0) for stated in sure))
        for resource, amount in quota.max.items()
    }
