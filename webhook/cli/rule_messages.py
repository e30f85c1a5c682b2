"""What each rule says of its failing example: the messages that `rollcall rules ID` and the rules' pages show."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

from webhook import admission
from webhook.backends.koordinator.keys import NAME as KOORDINATOR
from webhook.backends.registry import installed_backends
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.reading import mapping, text
from webhook.offline.judgement import judge, kind_of
from webhook.validators.registry import Example, Rule, Subject


def messages(rule: Rule) -> list[str]:
    """Return the findings of the rule about its failing example: place, value, why, and what to do."""
    verdicts = verdicts_on(rule, rule.fails, rule.fails.facts)
    return [str(finding) for verdict in verdicts for finding in verdict.findings if finding.rule == rule.id]


def verdicts_on(rule: Rule, example: Example, facts: ClusterFacts) -> list[Verdict]:
    """Judge an example of a rule, with these facts."""
    settings = settings_of_example(rule, example)
    if rule.subject is Subject.MANIFEST:
        return [found.verdict for found in judge(deepcopy(example.object), facts, settings)]
    request = _request(example)
    admission.mutate(request, facts, settings)
    return [admission.validate(request, facts, settings)]


def _request(example: Example) -> Request:
    """Return the request for an example: its creation, or its update."""
    metadata = mapping(example.object.get("metadata"))
    return Request(
        "",
        "CREATE" if example.old is None else "UPDATE",
        kind_of(example.object),
        text(metadata.get("namespace")) or "default",
        text(metadata.get("name")) or "",
        # Mutation changes the object.
        deepcopy(example.object),
        deepcopy(example.old),
        user=example.user,
    )


def settings_of_example(rule: Rule, example: Example) -> Settings:
    """Return the settings of the rule's scheduler. A rule for every scheduler is shown with koord-scheduler."""
    shown_with = example.scheduler or KOORDINATOR
    name = next((name for name, backend in installed_backends().items() if rule in backend.rules), shown_with)
    profile: dict[str, Any] = {"name": name, "config": dict(example.config)}
    if example.version is not None:
        profile["schedulerVersion"] = example.version
    return _settings_from(json.dumps(profile), json.dumps(dict(example.kueue)))


@cache
def _settings_from(profile: str, kueue: str) -> Settings:
    """Returns the settings of a profile and a section `kueue`, both as JSON. Few examples have some of their own."""
    name = json.loads(profile)["name"]
    document = {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"defaultProfileName": name, "profiles": [json.loads(profile)]},
        "kueue": json.loads(kueue),
    }
    return replace(settings_from(document, name), standalone=True)
