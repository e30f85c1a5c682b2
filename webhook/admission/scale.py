"""Judge a scale of a PodClique or a PodCliqueScalingGroup. Everything that it asks is in memory."""

from __future__ import annotations

from webhook.admission.gang_object import with_findings
from webhook.admission.opinion import gang_context
from webhook.config.settings import Settings
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT, SPEC
from webhook.model.findings import Unjudged
from webhook.model.keys import Needed
from webhook.model.reading import Malformed, mapping, text
from webhook.model.scale import ScaleChange, numbers_in, target_of
from webhook.validators.registry import run_each
from webhook.validators.selection import Choice

_SETS = "pod_clique_sets"


def validate_scale(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Run the rules about scales, unless Grove's operator writes it. The API server reads a Scale before it sends it,
    so one that cannot be read is not judged.
    """
    try:
        new, old = numbers_in(request.object), numbers_in(request.old)
        name = text(mapping(mapping(request.object).get("metadata")).get("name")) or request.name
    except Malformed:
        return ALLOWED
    if request.operation != "UPDATE" or new == old or settings.tenancy.is_grove_operator(request.user):
        return ALLOWED
    if facts.pod_clique_sets is None:
        return Verdict(unjudged=(Unjudged(SPEC / "replicas", f"the {Needed(_SETS)}", part=_SETS),))
    found = target_of(name, request.namespace, request.resource, facts.pod_clique_sets)
    profile = None if found is None else settings.profiles.get(found.record.scheduler or "")
    if found is None or profile is None:
        return ALLOWED
    rules = profile.scale_rules[settings.ceiling(profile, facts, request.namespace)]
    choice = Choice(profile.name, ROOT, settings.available)
    context = gang_context(profile, facts, choice, {}, settings, namespace=request.namespace)
    outcome = run_each(rules, context, ScaleChange(name, old, new, found.target, found.group))
    return with_findings(Verdict(scheduler=profile.name), outcome.findings, outcome.unjudged)
