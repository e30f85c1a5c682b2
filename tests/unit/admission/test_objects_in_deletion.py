"""Updates of gang objects that are being deleted while a finalizer keeps them: schedulers still read them, so changes
are judged. Finalizers can always be removed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validators.test_rule_examples import EVERY_RULE, SCHEDULERS
from tests.unit.worlds import settings_of, validate
from webhook.model.admission_request import Verdict
from webhook.model.findings import Action
from webhook.model.gang_objects import JUDGED_PODS
from webhook.model.reading import Manifest
from webhook.validators.registry import Rule

WHEN = "2026-11-21T00:00:00Z"
HELD = "example.com/hold"
ABOUT_OBJECTS = [rule for rule in EVERY_RULE if rule.kinds and rule.fails.object["kind"] != JUDGED_PODS.kind]
# Of these an object with nothing but its name, and the one that passes, have the same fault in the example's cluster.
OF_BOTH = {
    "kube/template-policy",
    "koordinator/gang-groups-differ",
    "koordinator/gang-topology-differs",
    "kube/tree-name",
}
DENYING = [
    rule for rule in ABOUT_OBJECTS if rule.default is Action.DENY and rule.fails.old is None and rule.id not in OF_BOTH
]


def leaving(manifest: Manifest, *finalizers: str) -> Manifest:
    metadata = {**manifest["metadata"], "deletionTimestamp": WHEN, "finalizers": list(finalizers)}
    return {**manifest, "metadata": metadata}


def judged(rule: Rule, new: Manifest, old: Manifest) -> Verdict:
    example = rule.fails
    stated: dict[str, Any] = {} if example.version is None else {"schedulerVersion": example.version}
    settings = settings_of(SCHEDULERS[rule.id], example.config, **stated)
    return validate(new, old, settings=settings, facts=example.facts, user="alice")


def without_the_fault(rule: Rule) -> Manifest:
    """A possible old object: with only its name, or as the rule passes it."""
    wrong, passing = rule.fails.object, rule.passes.object
    named = {key: value for key, value in wrong["metadata"].items() if key in {"name", "namespace"}}
    as_passed = {**passing, "metadata": {**passing["metadata"], "name": wrong["metadata"]["name"]}}
    for before in ({**wrong, "metadata": named, "spec": {}}, as_passed):
        if rule.id in [found.rule for found in judged(rule, wrong, before).denials]:
            return before
    raise AssertionError(f"no update brings what {rule.id} refuses")


@pytest.mark.parametrize("rule", DENYING, ids=lambda rule: rule.id)
def test_a_faulty_update_is_refused_while_a_finalizer_keeps_the_object(rule: Rule) -> None:
    wrong, before = rule.fails.object, without_the_fault(rule)
    verdict = judged(rule, leaving(wrong, HELD), leaving(before, HELD))
    assert rule.id in [found.rule for found in verdict.denials]
    assert not verdict.allowed


@pytest.mark.parametrize("rule", ABOUT_OBJECTS, ids=lambda rule: rule.id)
def test_finalizers_can_always_be_removed(rule: Rule) -> None:
    stale = rule.fails.object
    verdict = judged(rule, leaving(stale), leaving(stale, HELD))
    assert (verdict.allowed, verdict.findings) == (True, ())
    annotated = leaving(stale)
    annotated["metadata"]["annotations"] = {**annotated["metadata"].get("annotations", {}), "example.com/note": "bye"}
    assert judged(rule, annotated, leaving(stale, HELD)).allowed


def test_finalizers_can_be_removed_from_a_malformed_object() -> None:
    (rule,) = (one for one in ABOUT_OBJECTS if one.id == "koordinator/gang-groups-unread")
    broken = {**rule.fails.object, "spec": {"minMember": "four"}}
    assert judged(rule, leaving(broken), leaving(broken, HELD)).allowed
    noted = leaving(broken)
    noted["metadata"]["annotations"] = {"example.com/note": "bye"}
    assert judged(rule, noted, leaving(broken, HELD)).allowed
    assert not judged(rule, leaving(broken), leaving(rule.fails.object, HELD)).allowed


def test_a_malformed_old_object_does_not_excuse_a_faulty_update() -> None:
    (rule,) = (one for one in ABOUT_OBJECTS if one.id == "koordinator/gang-groups-unread")
    broken = {**rule.fails.object, "spec": {"minMember": "four"}}
    unreadable: tuple[Any, ...] = (0.0, False, "net", [{}])
    for metadata in unreadable:
        assert not judged(rule, broken, {**broken, "metadata": metadata}).allowed
