"""The smallest edit of a PodCliqueSet that no rule refuses, and the changes after which the scheduler of an object no
longer refuses it.

The code knows no scheduler. Candidates come from the findings, and the caller says what is still refused after each.
So every edit that is shown has been judged by the whole admission. Edits that a user could not want are not offered: a
clique, its containers, their requests, and fields that Grove requires stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from webhook.admission.workload_admission import POD_CLIQUE_SETS
from webhook.config.settings import Profile, Settings
from webhook.model import grove
from webhook.model.admission_request import Change, Changes, applied, value_at
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.reading import Malformed, Manifest, integer
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.judgement import judge, kind_of
from webhook.validators.gang_scheduler import Choice
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet

# A longer edit is a rewrite, which the remedies describe better.
MAX_CHANGES = 12
# For findings of the same rule at many cliques, the first few show what helps.
_LOOKED_AT = 8
# Each trial runs all rules over every clique. These limits keep a search well under a second.
_MAX_TRIALS = 120
_MAX_WORK = 10_000

_TEMPLATE = SPEC / "template"
_TEMPLATE_TOPOLOGY = _TEMPLATE / "topologyConstraint"
# Optional fields by which a workload requests something. Other fields are never removed, except labels and annotations.
_OPTIONAL = frozenset({"topologyConstraint", "priorityClassName", "schedulingGroup", "workloadRef"})


# Returns the findings that still refuse the workload.
Denials = Callable[[PodCliqueSet], list[Finding]]


def smallest_edit(workload: PodCliqueSet, denials: Denials) -> Changes:
    """Returns the fewest changes of `workload` that leave no denial; empty if none are found or needed."""
    cliques = max(1, len(workload.cliques))
    search = _Search(workload, denials, min(_MAX_TRIALS, _MAX_WORK // cliques))
    edit = search.greedy()
    if edit is None:
        return ()
    edit = search.fewer(search.pruned(edit))
    # Pruning needs trials too, even if the search used up all of them.
    search.trials = max(search.trials, MAX_CHANGES)
    return _restated(workload.raw, search.pruned(edit))


def _restated(raw: Manifest, changes: Changes) -> Changes:
    """Returns the changes with the old values that they now meet: an earlier change may have been left out."""
    restated: list[Change] = []
    for change in changes:
        there, was = value_at(raw, change.path)
        op = change.op if change.op == "remove" else "replace" if there else "add"
        restated.append(Change(op, change.path, was, change.value))
        raw = applied(raw, (change,))
    return tuple(restated)


@dataclass(slots=True)
class _Search:
    workload: PodCliqueSet
    denials: Denials
    trials: int
    _results: dict[frozenset[str], list[Finding] | None] = field(default_factory=dict)

    def greedy(self) -> Changes | None:
        """Returns some edit, by the steps that first leave fewer denials, else by those that leave the fewest."""
        edit: Changes = ()
        while findings := self._denials_after(edit):
            best: tuple[int, int, Changes] | None = None
            for finding, step in self._steps(edit, findings):
                left = self._denials_after((*edit, *step))
                if left is None or finding.identity in {other.identity for other in left}:
                    continue
                if best is None or (len(left), len(step)) < best[:2]:
                    best = (len(left), len(step), (*edit, *step))
                if len(left) < len(findings):
                    break
            if best is None or len(best[2]) > MAX_CHANGES:
                return None
            edit = best[2]
        return edit if findings is not None and edit else None

    def pruned(self, edit: Changes) -> Changes:
        """Returns `edit` without changes that are not needed."""
        for change in edit:
            fewer = tuple(other for other in edit if other is not change)
            if fewer and self._denials_after(fewer) == []:
                # Without this change an earlier one may not be needed either.
                return self.pruned(fewer)
        return edit

    def fewer(self, edit: Changes) -> Changes:
        """Returns the first edit with fewer changes than `edit`, breadth first; `edit` if there is none."""
        level: list[Changes] = [()]
        while level:
            below: list[Changes] = []
            for before in level:
                for _, step in self._steps(before, self._denials_after(before) or []):
                    now = (*before, *step)
                    if len(now) >= len(edit):
                        continue
                    if (left := self._denials_after(now)) == []:
                        return now
                    if left is not None:
                        below.append(now)
            level = list({frozenset(change.key for change in longer): longer for longer in below}.values())
        return edit

    def _steps(self, edit: Changes, findings: list[Finding]) -> Iterator[tuple[Finding, Changes]]:
        raw = applied(self.workload.raw, edit)
        view = PodCliqueSet(raw, self.workload.namespace)
        for finding in findings[:_LOOKED_AT]:
            for step in candidates(finding, view):
                yield finding, step

    def _denials_after(self, edit: Changes) -> list[Finding] | None:
        """Returns what still refuses the workload after `edit`; None if it cannot be applied or no trial is left."""
        key = frozenset(change.key for change in edit)
        if key not in self._results:
            if self.trials <= 0:
                return None
            self.trials -= 1
            self._results[key] = self._judged(edit)
        return self._results[key]

    def _judged(self, edit: Changes) -> list[Finding] | None:
        try:
            raw = applied(self.workload.raw, edit)
        except (KeyError, IndexError, TypeError):
            # A later change cannot be applied without an earlier one.
            return None
        try:
            return self.denials(PodCliqueSet(raw, self.workload.namespace))
        except Malformed:
            return None


def candidates(finding: Finding, workload: PodCliqueSet) -> Iterator[Changes]:
    """Yields changes that may remove `finding`. Those that keep most of what the workload requests come first."""
    at = finding.at
    there, was = value_at(workload.raw, at)
    for value in finding.instead:
        yield (Change("replace", at, was, value) if there else _addition(at, value, workload),)
    if not at.parts:
        return
    last = at.parts[-1]
    if last == "packDomain" and there:
        yield Change("remove", at, was, None), _addition(FieldPath((*at.parts[:-1], "pack", "required")), was, workload)
    if finding.rule.startswith("grove/") and _constraint_above(at) is not None:
        # A slip of the pen. Without the constraint, the gang that asked for one domain would run in any.
        return
    if last == grove.MNNVL_GROUP:
        yield (Change("replace", at, was, grove.MNNVL_NONE),)
        return
    if last == "minAvailable":
        yield from _minimum_changes(at, workload)
        return
    yield from _topology_changes(at, workload)
    if there and _removable(at):
        yield (Change("remove", at, was, None),)
    if (constraint := _constraint_above(at)) is not None and constraint != at:
        there, was = value_at(workload.raw, constraint)
        if there:
            yield (Change("remove", constraint, was, None),)


def _addition(at: FieldPath, value: Any, workload: PodCliqueSet) -> Change:
    """Returns the change that adds a missing field, and its parent map if that is missing too."""
    above, last = FieldPath(at.parts[:-1]), at.parts[-1]
    there, holder = value_at(workload.raw, above)
    if there and holder is not None:
        return Change("add", at, None, value)
    return Change("add", above, None, {last: value})


def _removable(at: FieldPath) -> bool:
    *above, last = at.parts
    if not above or isinstance(last, Item) or "containers" in above or "initContainers" in above:
        return False
    if above[-1] in {"labels", "annotations"}:
        # The choice of the scheduler is not a fault of the workload.
        return last != SCHEDULER_LABEL
    return last in _OPTIONAL


def _constraint_above(at: FieldPath) -> FieldPath | None:
    for index, part in enumerate(at.parts):
        if part == "topologyConstraint":
            return FieldPath(at.parts[: index + 1])
    return None


def _minimum_changes(at: FieldPath, workload: PodCliqueSet) -> Iterator[Changes]:
    holder_path = FieldPath(at.parts[:-1])
    there, holder = value_at(workload.raw, holder_path)
    if not there or not isinstance(holder, dict):
        return
    replicas = integer(holder.get("replicas"))
    replicas = 1 if replicas is None else replicas
    if replicas < 1:
        return
    was = integer(holder.get("minAvailable"))
    op = "add" if "minAvailable" not in holder else "replace"
    clamped = max(1, min(replicas if was is None else was, replicas))
    minimums = [value for value in dict.fromkeys((clamped, replicas)) if value != was]
    for value in minimums:
        yield (Change(op, at, was, value),)
    if "autoScalingConfig" in holder:
        fixed = Change("remove", holder_path / "autoScalingConfig", holder["autoScalingConfig"], None)
        yield (fixed,)
        for value in minimums[-1:]:
            yield (Change(op, at, was, value), fixed)


def _topology_changes(at: FieldPath, workload: PodCliqueSet) -> Iterator[Changes]:
    """Yields changes of a topology constraint: one half of a pack removed. For a finding about one clique, the same
    topology for all cliques, or none on the others.
    """
    pack, last = at.parts[:-1], at.parts[-1:]
    there, holder = value_at(workload.raw, FieldPath(pack))
    # An empty pack would not be a constraint, so the whole constraint is removed.
    if last in {("required",), ("preferred",)} and there and isinstance(holder, dict) and len(holder) > 1:
        yield (Change("remove", at, holder.get(str(last[0])), None),)
    members = (member for member in workload.cliques if at.parts[: len(member.path.parts)] == member.path.parts)
    clique = next(members, None)
    if clique is None or (at != clique.path and _constraint_above(at) is None):
        return
    if workload.topology is None and (constraint := _required_by(clique, workload)) is not None:
        op = "replace" if "topologyConstraint" in workload.template else "add"
        yield (Change(op, _TEMPLATE_TOPOLOGY, None, constraint),)
    if at == clique.path:
        others = [member for member in workload.cliques if member.raw.get("topologyConstraint") is not None]
        for member in others[:_LOOKED_AT]:
            place = member.path / "topologyConstraint"
            yield (Change("remove", place, member.raw["topologyConstraint"], None),)


def _required_by(clique: Clique, workload: PodCliqueSet) -> Mapping[str, Any] | None:
    """Returns a constraint for the whole set with what this clique, else the first clique with one, requires."""
    for member in (clique, *workload.cliques):
        if (topology := member.topology) is not None and topology.required is not None:
            name_field = {} if topology.name is None else {"topologyName": topology.name}
            return {**name_field, "pack": {"required": topology.required}}
    return None


def changes_for(raw: Manifest, namespace: str, facts: ClusterFacts, settings: Settings) -> Changes:
    """Returns the fewest changes after which nothing refuses the PodCliqueSet; empty for another kind, or if none are
    found. `raw` is the object as its author wrote it, before mutation.
    """
    if kind_of(raw)[::2] != (grove.GROUP, "PodCliqueSet"):
        return ()
    try:
        workload = PodCliqueSet(raw, namespace)
        choice = POD_CLIQUE_SETS.choice_of(workload, None, facts, settings)
        profile = None if choice is None else settings.profiles.get(choice.scheduler)
        if choice is None or profile is None:
            return ()
        changes = edit_under(profile, workload, choice, facts, settings)
    except Malformed:
        return ()
    if not changes:
        return ()
    # Judging changes the manifest, and the changes share parts with the original.
    judgements = judge(deepcopy(applied(raw, changes)), facts, settings)
    return changes if all(judgement.verdict.allowed for judgement in judgements) else ()


def edit_under(
    profile: Profile, workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Changes:
    """Returns the fewest changes after which the rules of one scheduler refuse nothing; none if none are found."""

    def denials(edited: PodCliqueSet) -> list[Finding]:
        outcome = POD_CLIQUE_SETS.enforced_by(profile, edited, None, choice, facts, settings)
        return [finding for finding in outcome.findings if finding.action is Action.DENY]

    return smallest_edit(workload, denials)
