"""The changes after which the scheduler of an object no longer refuses it, without I/O.

Shown only after the whole admission has judged the changed object, as `webhook.offline.judgement` does for every file.
"""

from __future__ import annotations

from copy import deepcopy

from webhook.admission.pod_clique_set import POD_CLIQUE_SETS
from webhook.config.settings import Profile, Settings
from webhook.explain.edits import smallest_edit
from webhook.model import grove
from webhook.model.changes import Changes, applied
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.offline.judgement import judge, kind_of
from webhook.validators.selection import Choice


def changes_for(raw: Manifest, namespace: str, facts: ClusterFacts, settings: Settings) -> Changes:
    """Return the fewest changes after which nothing refuses the PodCliqueSet. Return none if there are none, or if it
    is an object of another kind. `raw` is the object as its author wrote it, before mutation.
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
    if not changes or _refused(applied(raw, changes), facts, settings):
        return ()
    return changes


def edit_under(
    profile: Profile, workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Changes:
    """Return the fewest changes after which the rules of one scheduler refuse nothing; none if none are found."""

    def denials(edited: PodCliqueSet) -> list[Finding]:
        outcome = POD_CLIQUE_SETS.enforced_by(profile, edited, None, choice, facts, settings)
        return [found for found in outcome.findings if found.action is Action.DENY]

    return smallest_edit(workload, denials)


def _refused(raw: Manifest, facts: ClusterFacts, settings: Settings) -> bool:
    # Judging changes the manifest, and the changes share parts with the original.
    return any(not judgement.verdict.allowed for judgement in judge(deepcopy(raw), facts, settings))
