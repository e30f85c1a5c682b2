"""Judge the names in an object of any kind: the keys of labels and annotations; in files also kind and fields."""

from __future__ import annotations

from webhook.admission.gang_object import with_findings
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.any_object import AnyObject, marks_of
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.validators.key_names import are_unremarkable
from webhook.validators.registry import Context, Subject, run_each
from webhook.validators.selection import Choice


def with_keys(verdict: Verdict, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return the verdict on a request with what is wrong with its labels and annotations. An object that a controller
    made has the keys of a template that was judged before.
    """
    manifest = request.object or {}
    if are_unremarkable(marks_of(request.kind[::2], manifest)):
        return verdict
    found = AnyObject(request.kind, manifest)
    if found.is_controlled:
        return verdict
    return with_names(verdict, found, request.namespace, facts, settings, Subject.KEYS)


def with_names(
    verdict: Verdict,
    found: AnyObject,
    namespace: str,
    facts: ClusterFacts,
    settings: Settings,
    *subjects: Subject,
) -> Verdict:
    """Return the verdict with the findings of the rules about names in any object. The profile of the object's
    scheduler, else the default one, says what these rules do.
    """
    profile = settings.profiles.get(verdict.scheduler or "", settings.profiles[settings.default])
    ceiling = settings.ceiling(profile, facts, namespace)
    rules = [bound for subject in subjects for bound in profile.name_rules[subject][ceiling]]
    # These rules ask nothing about the scheduler, so its context need not be made.
    choice = Choice(profile.name, ROOT, settings.available)
    context: Context[None] = Context(
        facts, choice, {}, None, configured_keys=settings.configured_keys, kueue=settings.kueue
    )
    outcome = run_each(rules, context, found)
    if not (outcome.findings or outcome.unjudged):
        return verdict
    return with_findings(verdict, outcome.findings, outcome.unjudged)
