"""The rules' registry: what a rule is, how it is declared, how a list of rules is run, and the seal of pods that need
no run.

A rule is a generator of `Finding` (and of `Unjudged`, if facts are missing). It does no I/O and reads no configuration
except its backend's own settings. It does not know whether it denies or warns: the registry adds the rule's id and the
configured action.

The seal is an annotation of `/mutate`. It says that the rules about pods find nothing in this pod, unless the pod has
a trait that the API server checks itself (`webhook.validators.pod_guard`). It contains the PodGang, the PodClique and
a digest of the profile's rules and guards, so a change of these labels or rules makes it void.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, repeat
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from webhook.fit.packing import GangFit
from webhook.model.any_object import AnyObject
from webhook.model.capabilities import Capability, Uses
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import JudgedKind, StoredObject
from webhook.model.grove import OwnerReference
from webhook.model.keys import Api, GroupKind, Needed
from webhook.model.known_objects import SpecField
from webhook.model.kueue import DEFAULT_QUEUE, INSTALLED, QUEUE_NAME, KueueSettings
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.model.workload_record import ScaleChange
from webhook.validators.gang_scheduler import NO_GANG_SCHEDULER, Choice, GangScheduler
from webhook.validators.pod_guard import PodGuard, any_of
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

S = TypeVar("S")

# The most findings of one rule about one object. An object of three megabytes may have a quarter of a million faults. A
# thousand are enough to see what is wrong, and each one delays other requests.
MAX_FINDINGS = 1000
# Called between the rules of a run. It may raise, if the result is no longer needed.
Proceed = Callable[[], None]


def go_on() -> None:
    """Never stops a run."""


# Returns the verdicts on the gangs of a workload.
FitsOf = Callable[[PodCliqueSet | OptedInWorkload], Sequence[GangFit]]


def no_fits(_: PodCliqueSet | OptedInWorkload) -> Sequence[GangFit]:
    """Judges no gang."""
    return ()


# What a rule looks at that asks whether gangs fit. No object mentions it: it is there where anything is known that a
# gang may not fit into.
GANG_FITS = "whether gangs fit"


# What rules about a change look at.
UPDATE = "an update"


class Subject(StrEnum):
    """What a rule is called with."""

    WORKLOAD = "PodCliqueSet"
    # Called once for each clique of a PodCliqueSet, and once for a Pod.
    POD = "Pod"
    # Called with a `PodCreation`, once for a Pod of a gang that its controller is not known to have made.
    POD_CREATION = "creation of a Pod"
    # Called with the plain dict of an object that could not be read.
    MALFORMED = "malformed object"
    # Called with a `Change`, on UPDATE only. Its findings are forbidden changes: never softened by the ratchet.
    CHANGE = "change of a PodCliqueSet"
    # Called with a `StoredObject` that has one of the rule's `kinds` and that another program stored.
    OBJECT = "gang object"
    # Called with an `OptedInWorkload`; for a TrainJob also with the JobSet that is made from it.
    OPTED_IN = "workload of another kind"
    # Called with a `PodCliqueSet` or an `OptedInWorkload`.
    ANY_WORKLOAD = "workload of any kind"
    # Called with a Job that names a JobSet as its controller. No other rule judges it.
    PART = "Job of a JobSet"
    # Called with an `UnknownOwner`, once for a Pod whose controller is of a kind that is not known.
    UNKNOWN_OWNER = "Pod of an unknown kind"
    # Called with an `AnyObject`, in the webhook and for files.
    KEYS = "labels and annotations"
    # Called with an `AnyObject`, for files only: an API server accepts no such object, or has changed it.
    MANIFEST = "object in a file"
    # Called with an `OptedInChange`, on UPDATE only.
    OPTED_IN_CHANGE = "change of another kind"
    # Called with a `ScaleChange`, of a PodClique or of a PodCliqueScalingGroup.
    SCALE = "scale of a PodClique"


# Constants, because looking up a member of an enumeration takes as long as calling a rule.
_POD, _CHANGE, _OPTED_IN_CHANGE = Subject.POD, Subject.CHANGE, Subject.OPTED_IN_CHANGE
# The subjects that are called with a whole PodCliqueSet, and with a whole workload of another kind.
_OF_SETS = (Subject.WORKLOAD, Subject.ANY_WORKLOAD)
OF_OPTED_IN = (Subject.OPTED_IN, Subject.ANY_WORKLOAD)


# Uses are read from PodCliqueSets and pods, so a workload of another kind may use any capability.
_EVERY_USE: Uses = {capability: [] for capability in Capability}


class PodCliqueSetChange(NamedTuple):
    """A PodCliqueSet before and after an update."""

    old: PodCliqueSet
    new: PodCliqueSet


class OptedInChange(NamedTuple):
    """An opted-in workload before and after an update."""

    old: OptedInWorkload
    new: OptedInWorkload


class PodCreation(NamedTuple):
    """A Pod of a gang, and the user who creates it: a Pod with Grove's labels, where the user is not Grove's operator,
    or a Pod with a `controller` that belongs to an opted-in workload. `uid` is that of the workload if it is itself the
    Pod's controller, else None.
    """

    pod: PodTemplate
    user: str
    controller: OwnerReference | None = None
    workload: Needed | None = None
    uid: str | None = None


class UnknownOwner(NamedTuple):
    """A Pod that should start with others, and its controller, of whose kind Rollcall makes no gangs."""

    pod: PodTemplate
    controller: OwnerReference
    opted_in_by: str


# Nothing changes one. It is not frozen, because one is made for each decision, and that would take longer than most
# rules.
@dataclass(slots=True)
class Context(Generic[S]):
    """What a rule may read besides its subject. `settings` are those of the chosen backend. `workload` is None if a Pod
    is judged without its workload.
    """

    facts: ClusterFacts
    choice: Choice
    uses: Uses
    settings: S
    workload: PodCliqueSet | None = None
    scheduler_version: Version | None = None
    required_apis: tuple[Api, ...] = ()
    required_fields: tuple[SpecField, ...] = ()
    # The namespace of a Pod that is judged without its workload.
    namespace: str = ""
    # The uid of the opted-in workload that a judged Pod belongs to; empty if it belongs to none.
    owner: str = ""
    # Whether Rollcall makes the gangs of opted-in workloads for that scheduler.
    makes_gangs: bool = False
    # Whether the judged workload is opted in. Else only independent rules run.
    opted_in: bool = True
    # The systems whose memberships on a pod that scheduler reads, as named in `webhook.model.claims`.
    reads_claims_of: frozenset[str] = frozenset()
    gang_scheduler: GangScheduler = NO_GANG_SCHEDULER
    # The keys of labels that some profile's settings say its scheduler reads.
    configured_keys: frozenset[str] = frozenset()
    kueue: KueueSettings = INSTALLED
    proceed: Proceed = go_on
    # Whether the gangs of the judged workload can ever start. All rules of one decision share the answer.
    fits: FitsOf = no_fits
    # Whether a stored PodCliqueSet is changed.
    is_update: bool = False


Results = Iterator[Finding | Unjudged]


@dataclass(frozen=True, slots=True)
class Example:
    """An object that a rule passes or refuses: the rule's first test, and an example in the documentation."""

    object: Manifest
    old: Manifest | None = None
    facts: ClusterFacts = NO_FACTS
    config: Mapping[str, Any] = field(default_factory=dict)
    # The section `kueue` of the configuration.
    kueue: Mapping[str, Any] = field(default_factory=dict)
    # The scheduler's version, if the profile states one.
    version: str | None = None
    # The user who creates it.
    user: str = ""
    # The scheduler that a rule for every scheduler is shown with, if not with koord-scheduler.
    scheduler: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A declared rule. `fails_closed`: the gang cannot be translated, so no setting may lower it below `deny`.
    `membership`: it keeps pods and groups out of gangs that are not theirs. `guard`: which pods of Grove's operator a
    rule about pods must see, None for all of them. `independent`: what it finds is true whoever makes the gang, so in
    files it also judges a workload that is not opted in. `looks_at`: it finds nothing about a workload or a pod that
    mentions none of these fields, keys and resources; empty for a rule that must see every one. `of_kind`: of opted-in
    workloads it judges only those of this kind. `of_grove`: the strongest action on a PodGroup that Grove's own backend
    writes, OFF for a rule about a form that such a PodGroup need not have.
    """

    id: str
    check: Callable[[Any, Context[Any]], Results]
    subject: Subject
    capabilities: frozenset[Capability]
    default: Action
    fails_closed: bool
    passes: Example
    fails: Example
    kinds: tuple[JudgedKind, ...] = ()
    # The documentation of a rule whose function has none, because it checks for several rules.
    text: str = ""
    membership: bool = False
    guard: PodGuard | None = None
    independent: bool = False
    looks_at: frozenset[str] = frozenset()
    of_kind: GroupKind | None = None
    of_grove: Action = Action.DENY

    @property
    def judges(self) -> str:
        """The subject of the rule, in words."""
        return ", ".join(judged.kind for judged in self.kinds) or self.subject.value

    def may_be_about(self, used: AbstractSet[Capability], mentioned: AbstractSet[str]) -> bool:
        """Returns whether the rule may find anything about an object that uses and mentions these."""
        return not (self.capabilities and self.capabilities.isdisjoint(used)) and not (
            self.looks_at and self.looks_at.isdisjoint(mentioned)
        )

    @property
    def never_excepted(self) -> str:
        """Why no exception may cover the rule; empty if one may."""
        if self.fails_closed:
            return "the rule fails closed: what it refuses cannot be translated, so the gang would never start"
        if self.kinds and not any(judged.namespaced for judged in self.kinds):
            return "its objects are in no namespace"
        if self.membership:
            return "the rule keeps pods out of gangs that are not theirs, so other gangs would pay for the exception"
        return ""

    @property
    def documentation(self) -> str:
        """What happens without the rule, and the source of that fact: its own text, else the docstring."""
        return self.text or self.check.__doc__ or ""


def rule(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    *,
    passes: Example,
    fails: Example,
    subject: Subject = Subject.WORKLOAD,
    capability: Capability | tuple[Capability, ...] = (),
    default: Action = Action.DENY,
    fails_closed: bool = False,
    membership: bool = False,
    kinds: tuple[JudgedKind, ...] = (),
    documentation: str = "",
    guard: PodGuard | None = None,
    independent: bool = False,
    looks_at: Iterable[str] = (),
    of_kind: GroupKind | None = None,
    of_grove: Action = Action.DENY,
) -> Callable[[Callable[[Any, Context[Any]], Results]], Rule]:
    """Declares the decorated function as the rule `id`. With `capability`, it runs only for workloads that use one of
    them; with `kinds`, for objects of these kinds; with `looks_at`, for workloads and pods that mention one of these;
    with `of_kind`, for opted-in workloads of this kind. `documentation` is the function's docstring unless it is given.
    A rule about pods without a `guard` must see every pod.
    """
    subject = Subject.OBJECT if kinds else subject
    capabilities = frozenset({capability} if isinstance(capability, Capability) else capability)
    of_kinds = [_kind_word(judged.group, judged.kind) for judged in kinds]
    of_kinds += [] if of_kind is None else [_kind_word(*of_kind)]
    seen = frozenset(of_kinds or looks_at or ((UPDATE,) if subject is _CHANGE else ()))

    def declare(check: Callable[[Any, Context[Any]], Results]) -> Rule:
        return Rule(
            id,
            check,
            subject,
            capabilities,
            default,
            fails_closed,
            passes,
            fails,
            kinds,
            documentation,
            membership,
            guard,
            independent,
            seen,
            of_kind,
            of_grove,
        )

    return declare


def collect(*modules: ModuleType) -> tuple[Rule, ...]:
    """Returns every rule that the modules declare, in the order of declaration."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Rule))


class BoundRule(NamedTuple):
    """A rule with its configured action."""

    rule: Rule
    action: Action


# Not frozen, as `Context`.
@dataclass(slots=True)
class RuleOutcome:
    """The findings of a run of rules, and what it could not judge."""

    findings: list[Finding] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)

    def add(self, bound: BoundRule, results: Iterable[Finding | Unjudged], facts: ClusterFacts = NO_FACTS) -> None:
        """Adds the results of one rule, with its id and action, up to a limit. An object that is missing from partly
        known `facts` may exist, so such a finding is recorded as unjudged.
        """
        declared = bound.rule
        room = MAX_FINDINGS
        for result in results:
            if not room:
                break
            room -= 1
            if isinstance(result, Finding):
                if result.absent is not None and facts.may_exist(result.absent):
                    self.unjudged.append(
                        Unjudged(result.at, f"the {result.absent}", declared.id, part=result.absent.part)
                    )
                    continue
                action = min(max(bound.action, result.at_least), result.at_most)
                finding = replace(result, rule=declared.id, action=action, fails_closed=declared.fails_closed)
                self.findings.append(finding)
            else:
                self.unjudged.append(replace(result, rule=declared.id))


# The most answers of one list of rules that are kept. Workloads differ in few of the words that rules look at.
_MOST_KEPT = 64


def _relevant_rules(rules: Sequence[BoundRule], uses: Uses, mentioned: AbstractSet[str]) -> Sequence[BoundRule]:
    """Returns those of `rules` that may find something."""
    if isinstance(rules, IndexedRules):
        return rules.select(uses, mentioned)
    return [bound for bound in rules if bound.rule.may_be_about(uses.keys(), mentioned)]


class IndexedRules(tuple[BoundRule, ...]):
    """Rules in the order in which they run, which know those that may find something about an object."""

    _capabilities: frozenset[Capability]
    _words: frozenset[str]
    # By the capabilities and words among these that an object uses and mentions. The code of `about` limits it.
    _about: dict[tuple[frozenset[Capability], frozenset[str]], Sequence[BoundRule]]
    _of_grove: dict[Action, IndexedRules]

    def __new__(cls, rules: Iterable[BoundRule]) -> IndexedRules:
        indexed = super().__new__(cls, rules)
        indexed._capabilities = frozenset(chain.from_iterable(bound.rule.capabilities for bound in indexed))
        indexed._words = frozenset(chain.from_iterable(bound.rule.looks_at for bound in indexed))
        indexed._about, indexed._of_grove = {}, {}
        return indexed

    def select(self, uses: Uses, mentioned: AbstractSet[str]) -> Sequence[BoundRule]:
        """Returns those that may find something about an object with these uses of capabilities, and that mentions
        this.
        """
        used, words = self._capabilities.intersection(uses), self._words.intersection(mentioned)
        about = self._about.get((used, words))
        if about is None:
            about = [bound for bound in self if bound.rule.may_be_about(used, words)]
            if len(self._about) >= _MOST_KEPT:
                self._about.clear()
            self._about[used, words] = about
        return about

    def soften_for_grove(self, least: Action) -> IndexedRules:
        """Returns the rules about a PodGroup of Grove's own backend: those that are milder for it are no milder than
        `least`.
        """
        rules = self._of_grove.get(least)
        if rules is None:
            capped = (BoundRule(rule, min(action, max(rule.of_grove, least))) for rule, action in self)
            rules = self._of_grove[least] = IndexedRules(bound for bound in capped if bound.action is not Action.OFF)
        return rules


def run(
    rules: Sequence[BoundRule], context: Context[Any], pod: PodTemplate | None = None, old: PodCliqueSet | None = None
) -> RuleOutcome:
    """Runs each rule that may find something: on `context.workload` and on each of its pod templates, or on the change
    from `old`; without a workload on `pod`.
    """
    outcome = RuleOutcome()
    workload, facts, proceed = context.workload, context.facts, context.proceed
    pods: tuple[PodTemplate, ...] | None = None
    for bound in _relevant_rules(rules, context.uses, _mentioned(context, workload, pod, old)):
        declared = bound.rule
        subject = declared.subject
        if proceed is not go_on:
            proceed()
        if subject in _OF_SETS and workload is not None:
            results = declared.check(workload, context)
        elif subject is _POD:
            if pods is None:
                alone = (pod,) if pod is not None else ()
                pods = alone if workload is None else tuple(workload.pod_templates())
            results = chain.from_iterable(map(declared.check, pods, repeat(context)))
        elif subject is _CHANGE and workload is not None and old is not None:
            results = declared.check(PodCliqueSetChange(old, workload), context)
        else:
            continue
        for first in results:
            # Most rules find nothing.
            outcome.add(bound, chain((first,), results), facts)
            break
    return outcome


def _mentioned(
    context: Context[Any], workload: PodCliqueSet | None, pod: PodTemplate | None, old: PodCliqueSet | None
) -> AbstractSet[str]:
    """Returns what rules may look at: what a set or a pod mentions, and what is known of the cluster."""
    if workload is None:
        return frozenset() if pod is None else pod.mentions
    mentions = _words_of_workload(workload.mentions, workload.namespace, context)
    return mentions if old is None else {*mentions, UPDATE}


def _words_of_workload(mentions: AbstractSet[str], namespace: str, context: Context[Any]) -> AbstractSet[str]:
    words = [GANG_FITS] if context.fits is not no_fits else []
    if context.kueue.manage_without_queue_name or (namespace, DEFAULT_QUEUE) in (context.facts.local_queues or ()):
        # Kueue holds the workload as if it named a queue.
        words.append(QUEUE_NAME)
    return {*mentions, *words} if words else mentions


def run_on_opted_in(
    rules: Sequence[BoundRule], context: Context[Any], workload: OptedInWorkload, old: OptedInWorkload | None = None
) -> RuleOutcome:
    """Runs each rule about opted-in workloads that may find something."""
    outcome = RuleOutcome()
    facts, proceed = context.facts, context.proceed
    kind = (workload.resource.api.group, workload.resource.api.kind)
    if workload.has_own_pods:
        mentioned = _words_of_workload(workload.mentions, workload.namespace, context) | {_kind_word(*kind)}
        rules = _relevant_rules(rules, _EVERY_USE, mentioned)
    for bound in rules:
        declared = bound.rule
        if declared.of_kind is not None and declared.of_kind != kind:
            continue
        subject = declared.subject
        if subject in OF_OPTED_IN:
            results = declared.check(workload, context)
        elif subject is _OPTED_IN_CHANGE and old is not None:
            results = declared.check(OptedInChange(old, workload), context)
        else:
            continue
        proceed()
        for first in results:
            outcome.add(bound, chain((first,), results), facts)
            break
    return outcome


def run_each(
    rules: Sequence[BoundRule],
    context: Context[Any],
    judged: PodCreation | UnknownOwner | OptedInWorkload | AnyObject | ScaleChange,
) -> RuleOutcome:
    """Runs each of `rules`, which are all called with `judged`: a `PodCreation`, an `UnknownOwner`, a Job of a JobSet,
    a scale, or any object.
    """
    outcome = RuleOutcome()
    for bound in rules:
        outcome.add(bound, bound.rule.check(judged, context), context.facts)
    return outcome


def run_on_object(rules: IndexedRules, context: Context[Any], group: str, judged: StoredObject) -> RuleOutcome:
    """Runs each rule about objects of that kind."""
    outcome = RuleOutcome()
    for bound in rules.select({}, {_kind_word(group, judged.kind)}):
        context.proceed()
        outcome.add(bound, bound.rule.check(judged, context), context.facts)
    return outcome


def _kind_word(group: str, kind: str) -> str:
    """Returns what the rules about a kind look at."""
    return f"{kind} of {group}"


SEAL_ANNOTATION = "rollcall.dev/seal"
_DIGEST_CHARACTERS = 12


class ProfileSeal(NamedTuple):
    """How the pods of a profile are sealed: a digest of its rules about pods and of their guards, the expression for a
    pod that has such a trait (empty if there are no traits), and the rules that are asked before a pod is sealed, with
    the parts of the facts that these are about. With `given` False the settings of the profile let no pod be sealed.
    """

    digest: str
    traits: str
    rules_by_facts: tuple[BoundRule, ...]
    parts: tuple[str, ...]
    given: bool


def seal_of(rules: Iterable[Rule], settings: Any) -> ProfileSeal | None:
    """Returns the seal of a profile with these rules and settings; None if a rule must see every pod."""
    about = [declared for declared in rules if declared.subject is Subject.POD]
    guards: list[PodGuard] = []
    for declared in about:
        if declared.guard is None:
            return None
        guards.append(declared.guard)
    stated = "\n".join(f"{rule.id} {_stated(guard)}" for rule, guard in zip(about, guards, strict=True))
    digest = hashlib.sha256(stated.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    by_facts = tuple(BoundRule(rule, rule.default) for rule, guard in zip(about, guards, strict=True) if guard.by_facts)
    parts = tuple(dict.fromkeys(part for guard in guards for part in guard.by_facts))
    return ProfileSeal(digest, any_of(guards), by_facts, parts, all(guard.suffices(settings) for guard in guards))


def _stated(guard: PodGuard) -> str:
    return f"{any_of((guard,))}{' by facts' if guard.by_facts else ''}"
