"""Releases of the products that are upgraded under living gangs, a gang that lives in the cluster, and one fact about
releases: from which release on it holds, which gangs it concerns, and what happens to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import total_ordering
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from webhook.errors import FactsUnavailable, Inexpressible
from webhook.gangs.health import GangState, Observed, judge
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.object_plan import GangObjectWriter, GangPlan, SkipReason, is_groves
from webhook.model import grove
from webhook.model.grove import PodGang, controller_in
from webhook.model.keys import LABEL_VALUE_LIMIT
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# `1.37`, `v0.16.2`, `v0.1.0-alpha.13`, and Grove's candidates of a pre-release, `v0.1.0-alpha.12-rc1`. Vendors append
# their own words: `v1.37.2+k3s1`.
_RELEASE = re.compile(
    r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?"
    r"(?:-(alpha|beta|rc)\.?(\d{1,4})(?:-rc\.?(\d{1,4}))?)?"
    r"(?:[-+][0-9A-Za-z.+_-]*)?",
    re.ASCII,
)
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, None: 3}
# After every candidate.
_FINAL = 10_000


class Product(StrEnum):
    """What can be upgraded, in the order in which it is upgraded.

    KAI comes before Grove, because Grove's own KAI backend needs an annotation that an old KAI ignores
    (KAI-Scheduler#2117).
    """

    KOORDINATOR = "koordinator"
    VOLCANO = "volcano"
    KAI = "kai"
    KUBERNETES = "kubernetes"
    GROVE = "grove"

    @property
    def example(self) -> str:
        """A release of it, as a user would write it."""
        return _EXAMPLES[self]


_EXAMPLES = {
    Product.KOORDINATOR: "1.8",
    Product.VOLCANO: "1.15",
    Product.KAI: "0.17.1",
    Product.KUBERNETES: "1.37",
    Product.GROVE: "v0.1.0-alpha.13",
}


@total_ordering
class Release:
    """A release of a product. Without a patch number it is the first of its series: `0.17` is `0.17.0`."""

    def __init__(self, written: str) -> None:
        """Raises `ValueError` if `written` is not a version."""
        match = _RELEASE.fullmatch(written)
        if match is None:
            raise ValueError(written)
        major, minor, patch, stage, number, candidate = match.groups()
        numbers = int(major), int(minor), int(patch or 0)
        before = _STAGES[stage], int(number or 0), _FINAL if candidate is None else int(candidate)
        self._order = (*numbers, *before)
        self._written = written

    @property
    def series(self) -> tuple[int, int]:
        """Its major and minor number."""
        return self._order[:2]

    def __str__(self) -> str:
        return self._written

    def __repr__(self) -> str:
        return f"Release({self._written!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: Release) -> bool:
        return self._order < other._order


POD_CLIQUE_SET = POD_CLIQUE_SETS.resource.api.kind
# A pod with this policy never succeeds.
ALWAYS = "Always"


@dataclass(frozen=True, slots=True)
class PresentGang:
    """A gang that has not ended and is not being deleted.

    `pods` is how many it has. `owners` are the kinds of the controllers of its objects ("" for an object without one),
    and `versions` the apiVersions of its objects. `missing` says whether an object that it should have is missing.
    `restarts` are the restart policies of its pods. `topology` says whether it asks for a placement, `migrated` whether
    Grove has named its PodGang by an epoch. `unknown` is why its objects are not known, if they are not. `pod_group` is
    the name of the PodGroup that it shares with the other PodGangs of its replica, if it does.
    """

    namespace: str
    name: str
    scheduler: str | None
    kind: str = POD_GANG
    workload: str = ""
    state: str = GangState.STARTED.value
    pods: int = 1
    writer: GangObjectWriter = GangObjectWriter.ROLLCALL
    owners: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    missing: bool = False
    restarts: frozenset[str] = frozenset()
    topology: bool = False
    migrated: bool = False
    unknown: str = ""
    pod_group: str = ""

    @property
    def group_name(self) -> str:
        """The name of the PodGroup that Grove's own backend writes."""
        return self.pod_group or self.name


@dataclass(frozen=True, slots=True)
class Cluster:
    """What concerns several gangs: names that PodGroups of several namespaces have, and the changes of scheduler."""

    twins: frozenset[str] = frozenset()
    moves: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


_AGGREGATED = "kai.scheduler/aggregate-podgroup"
# Of the digest that Grove adds to a name that it shortens or changes.
_DIGITS = 10
# Why the objects of a gang are not known.
_UNKNOWN = {
    SkipReason.UNRECORDED: "Rollcall did not admit its workload, so it made no gang of it",
    SkipReason.NO_PROFILE: "its recorded scheduler is not a profile of the configuration",
    SkipReason.EXTERNAL: "another program writes its objects",
    SkipReason.CLAIMED: "another program has claimed its pods",
}


def present_gangs(keys: Iterable[GangKey], observed: Callable[[GangKey], Observed | None]) -> Iterator[PresentGang]:
    """Yields the living gangs among those with these keys; `observed` returns what is known of one."""
    for key in sorted(keys):
        try:
            seen = observed(key)
            if seen is not None and (gang := present_gang(seen)) is not None:
                yield gang
        except (Malformed, FactsUnavailable) as error:
            yield PresentGang(
                key.namespace,
                key.name,
                None,
                key.kind,
                key.workload,
                "unknown",
                writer=GangObjectWriter.NONE,
                unknown=f"it cannot be read: {error}",
            )


def present_gang(seen: Observed) -> PresentGang | None:
    """Returns what is known of a gang; None if it has ended or is being deleted. Raises `Malformed`."""
    health, podgang = judge(seen), seen.podgang
    if health.state in {GangState.LEAVING, GangState.ENDED}:
        return None
    unknown, objects = _written(seen)
    live = {
        _place(manifest): manifest
        for manifest in (*seen.gang_objects, *(manifest for manifest in objects if manifest is not None))
    }.values()
    controllers = [controller_in(manifest["metadata"]) for manifest in live]
    scheduler = text(podgang.labels.get(grove.LABEL_SCHEDULER)) if is_groves(podgang) else health.scheduler
    return PresentGang(
        health.namespace,
        health.name,
        scheduler,
        health.kind,
        health.workload,
        health.state.value,
        len(seen.roster.members),
        health.writer,
        frozenset("" if controller is None else controller.kind for controller in controllers),
        frozenset(str(manifest["apiVersion"]) for manifest in live),
        None in objects,
        frozenset(str(pod.spec.get("restartPolicy") or ALWAYS) for pod in seen.roster.members),
        any(constraint.required or constraint.preferred for constraint in podgang.constraints),
        grove.LABEL_EPOCH in podgang.labels,
        unknown,
        aggregate_of(podgang),
    )


def aggregate_of(podgang: PodGang) -> str:
    """Returns the name of the KAI PodGroup that Grove's backend makes for all PodGangs of a replica of a PodCliqueSet;
    empty for a PodGang with a PodGroup of its own. Grove marks the former by a finalizer.

    Source: ai-dynamo/grove, operator/internal/scheduler/kai/aggregate.go (pull request 735).
    """
    if _AGGREGATED not in sequence(mapping(podgang.raw.get("metadata")).get("finalizers")):
        return ""
    stated = f"grove-{podgang.labels.get(grove.LABEL_PART_OF)}-{podgang.labels.get(grove.LABEL_REPLICA)}"
    words = re.sub("[^a-z0-9]+", "-", stated.lower()).strip("-")
    if words == stated and len(stated) <= LABEL_VALUE_LIMIT:
        return stated
    digest = sha256(stated.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{words[: LABEL_VALUE_LIMIT - _DIGITS - 1].rstrip('-')}-{digest}"


def _written(seen: Observed) -> tuple[str, Sequence[Manifest | None]]:
    """Returns why the gang's objects are not known, and the live object for each that it should have."""
    try:
        planned = seen.plan()
        if isinstance(planned, GangPlan):
            return "", [_live(seen, desired) for desired in planned.objects]
    except (FactsUnavailable, Inexpressible) as error:
        return f"its objects cannot be made: {error}", ()
    return _UNKNOWN.get(planned, ""), ()


def _live(seen: Observed, desired: Manifest) -> Manifest | None:
    try:
        return seen.live(desired)
    except FactsUnavailable:
        # The cluster does not serve the kind, or not in this version.
        return None


def _place(manifest: Manifest) -> tuple[str, str, str]:
    return str(manifest["apiVersion"]), str(manifest["kind"]), str(manifest["metadata"]["name"])


class ChangeOutcome(StrEnum):
    """What happens to a gang, the worst last. A gang that *must be re-created* cannot be kept whole by anything."""

    CONTINUES = "continues"
    UNKNOWN = "unknown"
    RECREATE = "must be re-created"

    @property
    def badness(self) -> int:
        """Its place in the order."""
        return list(ChangeOutcome).index(self)


class ReleaseExample(NamedTuple):
    """A gang in a cluster, and the release to which the product is upgraded."""

    to: str
    gang: PresentGang
    cluster: Cluster = Cluster()


Concerns = Callable[[PresentGang, Cluster], bool]


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """A fact about the releases of a product, from `since` on and before `until`. In the series of a release in
    `patched` it ends with that release: the fix was backported.

    `product` is None for a change of scheduler (`--scheduler`), which has no releases. `why`, `before` and `after` are
    the reason and what to do, for all gangs that it concerns. `hit` and `spared` are a gang that it concerns and one
    that it does not: they are its first test.
    """

    id: str
    product: Product | None
    concerns: Concerns
    outcome: ChangeOutcome
    why: str
    source: str
    hit: ReleaseExample
    spared: ReleaseExample
    since: str | None = None
    until: str | None = None
    patched: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    _range: tuple[Release | None, Release | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises `ValueError` if `since` or `until` is not a version."""
        bounds = tuple(None if bound is None else Release(bound) for bound in (self.since, self.until))
        object.__setattr__(self, "_range", bounds)

    def holds(self, release: Release) -> bool:
        """Returns whether it is a fact about this release."""
        since, until = self._range
        if any(fix.series == release.series and fix <= release for fix in map(Release, self.patched)):
            return False
        return (since is None or since <= release) and (until is None or release < until)


def gang(name: str = "demo-0", scheduler: str | None = "koord-scheduler", **fields: object) -> PresentGang:
    """Returns a gang for an example."""
    return replace(PresentGang("default", name, scheduler), **fields)  # type: ignore[arg-type]
