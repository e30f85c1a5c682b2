"""What an upgrade plan needs to know of a gang that lives in the cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from webhook.errors import FactsUnavailable, Inexpressible
from webhook.gangs.health import State, judge
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.observed import Observed
from webhook.gangs.plan import Plan, SkipReason, is_groves
from webhook.gangs.writers import Writer
from webhook.model import grove
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workloads.podgang import PodGang, controller_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
    state: str = State.STARTED.value
    pods: int = 1
    writer: Writer = Writer.ROLLCALL
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
    """The living gangs among those with these keys; `observed` returns what is known of one."""
    for key in sorted(keys):
        try:
            seen = observed(key)
            if seen is not None and (found := present_gang(seen)) is not None:
                yield found
        except (Malformed, FactsUnavailable) as error:
            yield PresentGang(
                key.namespace,
                key.name,
                None,
                key.kind,
                key.workload,
                "unknown",
                writer=Writer.NONE,
                unknown=f"it cannot be read: {error}",
            )


def present_gang(seen: Observed) -> PresentGang | None:
    """What is known of a gang; None if it has ended or is being deleted. Raises `Malformed`."""
    health, podgang = judge(seen), seen.podgang
    if health.state in {State.LEAVING, State.ENDED}:
        return None
    unknown, wanted = _written(seen)
    live = {_place(one): one for one in (*seen.own, *(found for found in wanted if found is not None))}.values()
    controllers = [controller_in(one["metadata"]) for one in live]
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
        frozenset("" if one is None else one.kind for one in controllers),
        frozenset(str(one["apiVersion"]) for one in live),
        None in wanted,
        frozenset(str(pod.spec.get("restartPolicy") or ALWAYS) for pod in seen.roster.members),
        any(one.required or one.preferred for one in podgang.constraints),
        grove.LABEL_EPOCH in podgang.labels,
        unknown,
        aggregate_of(podgang),
    )


def aggregate_of(podgang: PodGang) -> str:
    """The name of the KAI PodGroup that Grove's backend makes for all PodGangs of a replica of a PodCliqueSet; empty
    for a PodGang with a PodGroup of its own. Grove marks the former by a finalizer.

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
    """Why the gang's objects are not known, and the live object for each that it should have."""
    try:
        planned = seen.plan()
        if isinstance(planned, Plan):
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


def _place(one: Manifest) -> tuple[str, str, str]:
    return str(one["apiVersion"]), str(one["kind"]), str(one["metadata"]["name"])
