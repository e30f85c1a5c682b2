"""The audit of stored objects, by today's rules and configuration, as if they were created now: the kinds, the verdict
on one object, and what was found, counted by rule and namespace. No I/O.

The kinds are those for which the API server calls Rollcall (`webhook.installation.webhooks`). Of pods only those are
listed that a label or their scheduler's name shows to be in a gang. A stored record counts, because a created object
may name its scheduler by the same label. Faults that the ratchet would excuse at an update count here. No author is
exempt: a stored object does not name its user, and a tenant can write every field that seems to, such as the name of a
field manager.

Findings are counted completely and kept up to a limit. A tenant can store any number of objects, each with any number
of faults, so findings of one namespace never use up what is kept for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from webhook import admission
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, TooLarge
from webhook.installation.names import EXEMPT_LABEL, NAMESPACE
from webhook.installation.webhooks import NEVER_HERE
from webhook.model import grove
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import JUDGED_PODS
from webhook.model.keys import Api
from webhook.model.known_kinds import POD, PODS
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.report import Selection
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

# Pods that have not ended.
_LIVING = "status.phase!=Succeeded,status.phase!=Failed"


class Listing(NamedTuple):
    """One list of objects to audit: a kind, with a labelSelector and a fieldSelector."""

    resource: Resource
    labels: str = ""
    fields: str = ""

    @property
    def selector(self) -> Mapping[str, str]:
        """The parameters of the request."""
        both = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: selector for name, selector in both.items() if selector}


def listings(settings: Settings, served: Mapping[Api, Resource], *, pods: bool = True) -> list[Listing]:
    """Returns what to list, workloads first, without kinds that are not served. No object is in two of the lists."""
    kinds = dict.fromkeys(_kinds(settings))
    kind_listings = [Listing(resource) for kind in kinds if (resource := _served(kind, settings, served)) is not None]
    return [*kind_listings, *_pods(settings)] if pods else kind_listings


def _kinds(settings: Settings) -> Iterator[tuple[str, str]]:
    api = POD_CLIQUE_SETS.resource.api
    yield api.group, api.kind
    yield from settings.kinds.views
    for profile in settings.profiles.values():
        yield from ((judged.group, judged.kind) for judged in profile.judged if judged != JUDGED_PODS)


def _served(kind: tuple[str, str], settings: Settings, served: Mapping[Api, Resource]) -> Resource | None:
    """Returns the kind in a version that the cluster serves: that in which workloads are declared, else the first,
    which is the preferred one. Queues and other objects without a namespace are judged too.
    """
    written = settings.kinds.written(kind) if kind in settings.kinds.views else ()
    resources = [resource for api, resource in served.items() if (api.group, api.kind) == kind]
    return next((resource for resource in written if resource.api in served), resources[0] if resources else None)


def _pods(settings: Settings) -> Iterator[Listing]:
    """Yields the lists of Grove's pods, of those of opted-in workloads, and of those that name a gang scheduler."""
    yield _list_of((grove.LABEL_PODGANG,))
    yield _list_of((f"!{grove.LABEL_PODGANG}", SCHEDULER_LABEL))
    for name in settings.profiles:
        if name != DEFAULT_SCHEDULER:
            yield _list_of((f"!{grove.LABEL_PODGANG}", f"!{SCHEDULER_LABEL}"), (f"spec.schedulerName={name}",))


def _list_of(labels: Iterable[str], fields: Iterable[str] = ()) -> Listing:
    return Listing(PODS, ",".join(labels), ",".join((_LIVING, *fields)))


# The id of what is not judged because of no rule of its own: the facts that every rule about the object needs.
_EVERY_RULE = "rollcall/audit"


class StoredKey(NamedTuple):
    """What identifies an object of a cluster in a report."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Judge:
    """Facts and settings that objects are judged by, and when. Without a time no exception applies."""

    facts: ClusterFacts
    settings: Settings
    at: datetime | None = None

    def __post_init__(self) -> None:
        # An audit does not say which other schedulers could run what is refused.
        object.__setattr__(self, "settings", replace(self.settings, compares=False))

    def verdict(self, raw: Manifest, api: Api) -> Verdict | None:
        """Returns the verdict on a stored object; None if it is not audited. Does not change `raw`, except a pod: a pod
        is prepared as at its creation, and the result is judged.
        """
        request = request_of(raw, api, self.at)
        if not self._is_audited(request):
            return None
        try:
            if request.kind[::2] == POD:
                admission.mutate(request, self.facts, self.settings)
            verdict = admission.validate(request, self.facts, self.settings)
        except FactsUnavailable as error:
            return Verdict(unjudged=(Unjudged(ROOT, "a fact is", _EVERY_RULE, str(error)),))
        except TooLarge as error:
            # A webhook that does not answer refuses by its failurePolicy.
            return Verdict(unjudged=(Unjudged(ROOT, "the verdict is", _EVERY_RULE, str(error)),))
        return verdict if verdict.scheduler is not None or verdict.findings or verdict.unjudged else None

    def _is_audited(self, request: Request) -> bool:
        namespace, settings, raw = request.namespace, self.settings, request.object or {}
        if namespace in {NAMESPACE, *NEVER_HERE, *settings.registration.excluded_namespaces}:
            return False
        if self.facts.namespace_label(namespace, EXEMPT_LABEL) is not None:
            return False
        try:
            # What is being deleted, or has ended its work, creates no pods any more.
            if mapping(raw.get("metadata")).get("deletionTimestamp") is not None:
                return False
            view = settings.kinds.views.get(request.kind[::2])
            return view is None or not view(raw, namespace).finished
        except Malformed:
            return True


def request_of(raw: Manifest, api: Api, at: datetime | None = None) -> Request:
    """Returns the request with which a stored object would be created at that time. Its user is not known."""
    key = key_of(raw, api)
    # The items of a list have neither apiVersion nor kind.
    whole = {"apiVersion": key.api_version, "kind": key.kind, **raw}
    return Request(key.uid, "CREATE", Kind(api.group, api.version, api.kind), key.namespace, key.name, whole, at=at)


def key_of(raw: Manifest, api: Api) -> StoredKey:
    """Returns what identifies a stored object."""
    metadata = raw.get("metadata")
    words = metadata if isinstance(metadata, dict) else {}
    namespace, name, uid = (str(words.get(key) or "") for key in ("namespace", "name", "uid"))
    return StoredKey(f"{api.group}/{api.version}".lstrip("/"), api.kind, namespace, name, uid)


# Findings that refuse an object are kept up to this number, and as many others, with at most 3 KB each. The rest is
# only counted.
MOST_KEPT = 5_000
# Of these, what one namespace may have.
MOST_OF_NAMESPACE = 500
# The word for a rule that could not be judged, beside the actions of findings.
NOT_JUDGED = "notJudged"
EVERY_RULE = Selection()


class FindingGroup(NamedTuple):
    """What is counted together. `action` is a finding's, or `NOT_JUDGED`."""

    action: str
    rule: str
    namespace: str


class KeptFinding(NamedTuple):
    """A finding or what could not be judged, with its object."""

    object: StoredKey
    finding: Finding | Unjudged
    scheduler: str | None
    chosen_by: str

    @property
    def group(self) -> FindingGroup:
        """What it is counted with."""
        finding = self.finding
        action = NOT_JUDGED if isinstance(finding, Unjudged) else str(finding.action)
        return FindingGroup(action, finding.rule, self.object.namespace)


@dataclass(slots=True)
class FindingCount:
    """How often something was found, in how many objects, and the first of these with the field."""

    findings: int = 0
    objects: int = 0
    example: str = ""
    at: str = ""


def results_in(verdict: Verdict, selection: Selection = EVERY_RULE) -> Iterator[Finding | Unjudged]:
    """Yields the findings of a verdict, then what could not be judged."""
    for finding in verdict.findings:
        if selection.takes(finding.rule, fails_closed=finding.fails_closed):
            yield finding
    for missing in verdict.unjudged:
        if selection.takes(missing.rule):
            yield missing


@dataclass(slots=True)
class Tally:
    """The findings in some objects. `most` that refuse are kept, and `most` others; of each namespace
    `most_of_namespace`.
    """

    most: int = MOST_KEPT
    most_of_namespace: int = MOST_OF_NAMESPACE
    kept: list[KeptFinding] = field(default_factory=list)
    groups: dict[FindingGroup, FindingCount] = field(default_factory=dict)
    # Judged objects by kind; by namespace those without a finding; the objects that would be refused.
    judged: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    # Findings by action, of each namespace with any.
    counts_by_namespace: dict[str, Counter[str]] = field(default_factory=dict)
    # Kept findings by whether they refuse, in all and by namespace.
    _kept: Counter[tuple[bool, str]] = field(default_factory=Counter)

    def add(self, key: StoredKey, verdict: Verdict, results: Iterable[Finding | Unjudged]) -> None:
        """Counts one object with these results of its verdict."""
        self.judged[key.kind] += 1
        self.refused += not verdict.allowed
        seen: set[FindingGroup] = set()
        for finding in results:
            kept = KeptFinding(key, finding, verdict.scheduler, verdict.chosen_by)
            group = kept.group
            count = self.groups.setdefault(group, FindingCount())
            if not count.findings:
                count.example, count.at = f"{key.kind}/{key.name}", str(finding.at)
            count.findings += 1
            self.counts_by_namespace.setdefault(group.namespace, Counter())[group.action] += 1
            count.objects += group not in seen
            seen.add(group)
            if self._keeps(group):
                self.kept.append(kept._replace(finding=_slim(finding)))
        if not seen:
            self.passed[key.namespace] += 1

    def _keeps(self, group: FindingGroup) -> bool:
        refuses = group.action == str(Action.DENY)
        in_all, in_namespace = (refuses, ""), (refuses, group.namespace)
        if self._kept[in_all] >= self.most or self._kept[in_namespace] >= self.most_of_namespace:
            return False
        self._kept[in_all] += 1
        self._kept[in_namespace] += 1
        return True

    def total(self, action: str) -> int:
        """Returns how many findings have an action."""
        return sum(count.findings for group, count in self.groups.items() if group.action == action)

    @property
    def left_out(self) -> int:
        """How many findings were counted and not kept."""
        return sum(count.findings for count in self.groups.values()) - len(self.kept)

    @property
    def namespaces(self) -> list[str]:
        """The namespaces with any finding."""
        return sorted(self.counts_by_namespace)

    def ordered(self) -> list[tuple[FindingGroup, FindingCount]]:
        """Returns the groups: the strictest action first, then by rule and namespace."""
        return sorted(
            self.groups.items(), key=lambda entry: (_WEIGHT[entry[0].action], entry[0].rule, entry[0].namespace)
        )


_WEIGHT = {str(action): -action for action in Action} | {NOT_JUDGED: 1}


def _slim(finding: Finding | Unjudged) -> Finding | Unjudged:
    """Returns a finding without references into its object, so that the object can be freed."""
    if isinstance(finding, Unjudged):
        return finding
    value = shown(finding.value) if isinstance(finding.value, dict | list | tuple) else finding.value
    return replace(finding, value=value, absent=None, instead=())


@dataclass(slots=True)
class Audit:
    """The results of one audit. `new` and `gone` are only there if two judgements were compared: what the second one
    finds in addition, and what it no longer finds.
    """

    today: Tally
    new: Tally | None = None
    gone: Tally | None = None
    # Objects that only the second judgement refuses, and that only the first one refuses.
    newly_refused: int = 0
    newly_allowed: int = 0
    read: Counter[str] = field(default_factory=Counter)
    # The kinds that could not be listed, or not to the end, with the reason.
    unlisted: dict[str, str] = field(default_factory=dict)
    # The kinds of facts that could not be read: rules that need them are not judged.
    unread: dict[str, str] = field(default_factory=dict)
    # Objects whose judgement failed by a fault of Rollcall.
    faults: int = 0
    faulty: list[StoredKey] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every object was judged."""
        return not (self.unlisted or self.faults)

    @property
    def decisive(self) -> Tally:
        """The findings that an exit code is about: those that are new, else all."""
        return self.today if self.new is None else self.new
