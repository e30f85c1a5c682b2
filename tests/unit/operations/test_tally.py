"""Findings are counted completely and kept up to a limit."""

from __future__ import annotations

from typing import Any

from webhook.model.admission_request import Verdict
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.offline.report import Selection
from webhook.operations.audit import NOT_JUDGED, FindingGroup, StoredKey, Tally, results_in


def key(name: str, namespace: str = "team-a") -> StoredKey:
    return StoredKey("grove.io/v1alpha1", "PodCliqueSet", namespace, name, f"uid-{name}")


def finding(rule: str = "a/b", action: Action = Action.DENY, found: Any = 1, **fields: Any) -> Finding:
    return Finding(SPEC / "x", found, "it is so", "change it", rule=rule, action=action, **fields)


def verdict(*findings: Finding, unjudged: tuple[Unjudged, ...] = ()) -> Verdict:
    allowed = not any(one.action is Action.DENY for one in findings)
    return Verdict(allowed, "koord-scheduler", findings, unjudged)


def add(tally: Tally, name: str, *findings: Finding, namespace: str = "team-a") -> None:
    told = verdict(*findings)
    tally.add(key(name, namespace), told, results_in(told))


def test_findings_are_counted_by_action_rule_and_namespace() -> None:
    tally = Tally()
    add(tally, "one", finding(), finding(found=2), finding("a/c", Action.WARN))
    add(tally, "two", finding())
    add(tally, "three", namespace="team-b")
    assert {tuple(group): (count.findings, count.objects) for group, count in tally.ordered()} == {
        ("deny", "a/b", "team-a"): (3, 2),
        ("warn", "a/c", "team-a"): (1, 1),
    }
    count = tally.groups[FindingGroup("deny", "a/b", "team-a")]
    assert (count.example, count.at) == ("PodCliqueSet/one", "spec.x")
    assert (tally.judged, tally.refused) == ({"PodCliqueSet": 3}, 2)
    assert tally.passed == {"team-b": 1}
    assert tally.namespaces == ["team-a"]


def test_the_strictest_action_comes_first_and_what_is_not_judged_last() -> None:
    tally = Tally()
    told = verdict(
        finding("d/d", Action.AUDIT),
        finding("c/c", Action.WARN),
        finding("b/b"),
        unjudged=(Unjudged(SPEC, "the quota", "a/a"),),
    )
    tally.add(key("one"), told, results_in(told))
    assert [group.action for group, _ in tally.ordered()] == ["deny", "warn", "audit", NOT_JUDGED]


def test_one_namespace_does_not_use_up_what_is_kept_for_others() -> None:
    tally = Tally(most=10, most_of_namespace=3)
    for number in range(50):
        add(tally, f"noise-{number}", finding(), namespace="loud")
    add(tally, "one", finding(), namespace="quiet")
    assert [one.object.namespace for one in tally.kept] == ["loud"] * 3 + ["quiet"]
    assert (tally.total("deny"), tally.left_out) == (51, 47)


def test_warnings_do_not_use_up_what_is_kept_for_refusals() -> None:
    tally = Tally(most=2, most_of_namespace=2)
    for number in range(5):
        add(tally, f"warned-{number}", finding(action=Action.WARN))
    for number in range(5):
        add(tally, f"refused-{number}", finding(), namespace=f"team-{number}")
    names = [one.object.name for one in tally.kept]
    assert names == ["warned-0", "warned-1", "refused-0", "refused-1"]
    assert tally.left_out == 6


def test_a_kept_finding_holds_nothing_of_its_object() -> None:
    tally = Tally()
    raw = {"large": "object"}
    add(tally, "one", finding(found=raw, instead=(raw,)))
    kept = tally.kept[0].finding
    assert isinstance(kept, Finding)
    assert (kept.value, kept.instead, kept.absent) == ("an object of 1 fields", (), None)


def test_only_selected_rules_count_and_rules_that_fail_closed() -> None:
    told = verdict(finding("a/b"), finding("c/d", fails_closed=True), finding("e/f"))
    assert [one.rule for one in results_in(told, Selection(select=("a/*",)))] == ["a/b", "c/d"]
    told = verdict(unjudged=(Unjudged(SPEC, "x", "a/b"), Unjudged(SPEC, "x", "c/d")))
    assert [one.rule for one in results_in(told, Selection(ignore=("a/*",)))] == ["c/d"]
