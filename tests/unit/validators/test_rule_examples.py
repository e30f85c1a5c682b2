"""The first test of each rule: its two examples, through the complete admission."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.registry import installed_backends
from webhook.model.admission_request import Verdict
from webhook.model.findings import Action
from webhook.offline.judgement import judge
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Example, Rule, Subject

SCHEDULERS = {rule.id: name for name, backend in installed_backends().items() for rule in backend.rules}
EVERY_RULE = [
    *SHAPE_RULES,
    *CHOICE_RULES,
    *GENERAL_RULES,
    *(rule for backend in installed_backends().values() for rule in backend.rules),
]


def verdict_on(rule: Rule, example: Example) -> Verdict:
    """What the scheduler whose rule it is says of the example; general rules are shown with koord-scheduler."""
    stated: dict[str, Any] = {} if example.version is None else {"schedulerVersion": example.version}
    name = SCHEDULERS.get(rule.id, example.scheduler or "koord-scheduler")
    settings = settings_of(name, example.config, kueue=example.kueue, **stated)
    if rule.subject is Subject.MANIFEST:
        # The webhook has no such rules.
        found = [judgement.verdict for judgement in judge(deepcopy(example.object), example.facts, settings)]
        return found[0] if found else Verdict()
    return validate(example.object, example.old, settings=settings, facts=example.facts, user=example.user)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_the_passing_example_passes(rule: Rule) -> None:
    verdict = verdict_on(rule, rule.passes)
    assert rule.id not in rules(verdict)
    assert rule.id not in [unjudged.rule for unjudged in verdict.unjudged]


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_the_failing_example_is_reported_with_the_rule_s_action(rule: Rule) -> None:
    verdict = verdict_on(rule, rule.fails)
    found = [finding for finding in verdict.findings if finding.rule == rule.id]
    assert found
    assert {finding.action for finding in found} == {rule.default}
    assert verdict.allowed is (rule.default is not Action.DENY)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_a_message_has_place_value_reason_and_remedy(rule: Rule) -> None:
    for finding in verdict_on(rule, rule.fails).findings:
        message = str(finding)
        assert message.startswith(f"{finding.rule} at {finding.at}: ")
        assert len(finding.why) > 20
        assert len(finding.remedy) > 5
        assert len(message.encode()) <= 512
        assert not re.search(r"!|\bplease\b|webhook\.", message, re.IGNORECASE)


@pytest.mark.parametrize("name", installed_backends())
def test_no_remedy_names_another_scheduler_because_it_may_not_be_enabled(name: str) -> None:
    others = set(installed_backends()) - {name}
    backend = installed_backends()[name]
    tables = [support.remedy for support in backend(backend.settings_model()).capabilities.values()]
    found = [finding.remedy for rule in backend.rules for finding in verdict_on(rule, rule.fails).findings]
    assert [remedy for remedy in (*tables, *found) if any(other in remedy for other in others)] == []


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_a_rule_is_documented_with_its_source(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+/[a-z][a-z-]*", rule.id)
    assert "Source:" in rule.documentation or "Grove refuses" in rule.documentation


def test_no_two_rules_share_an_id() -> None:
    ids = [rule.id for rule in EVERY_RULE]
    assert len(ids) == len(set(ids))
