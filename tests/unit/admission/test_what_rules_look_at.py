"""A rule that says what it looks at finds nothing anywhere else: each object is judged with the index and without."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given

from tests.fuzz.inputs import read_corpus
from tests.strategies import pod_clique_sets, reviews
from tests.unit.mistakes.test_mistakes import MISTAKES
from tests.unit.validators.test_rule_examples import EVERY_RULE, SCHEDULERS
from tests.unit.worlds import settings_of, validate
from webhook.admission.decision import request_from
from webhook.backends.registry import installed_backends
from webhook.config.settings import Settings
from webhook.errors import InputError, RollcallError
from webhook.model.admission_request import Kind
from webhook.model.any_object import AnyObject, Marks, marks_of
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.reading import Manifest
from webhook.offline.manifests import read_text
from webhook.testing.strategies import damaged, gang_pods, workloads
from webhook.validators import api_names, registry
from webhook.validators.registry import Rule

EVERYTHING = frozenset(name for rule in EVERY_RULE for name in rule.looks_at)
LOOKING = [rule for rule in EVERY_RULE if rule.looks_at]


class Unindexed:
    """Admission as it would be if every rule saw every object."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __enter__(self) -> None:
        self._patch.setattr(registry, "_mentioned", lambda *_: EVERYTHING)
        self._patch.setattr(registry, "_words_of_workload", lambda *_: EVERYTHING)
        self._patch.setattr("webhook.admission.decision.are_unremarkable", lambda _: False)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def same(manifest: Manifest, settings: Settings, facts: ClusterFacts = NO_FACTS, **asked: Any) -> None:
    """Fails unless an object gets the same verdict with the index and without."""
    indexed = validate(manifest, settings=settings, facts=facts, **asked)
    with Unindexed(pytest.MonkeyPatch()):
        assert validate(manifest, settings=settings, facts=facts, **asked) == indexed


def test_rules_look_at_something() -> None:
    assert len(LOOKING) > len(EVERY_RULE) / 8
    assert {"topologyConstraint", "kueue.x-k8s.io/queue-name", registry.GANG_FITS} <= EVERYTHING


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_each_example_gets_the_same_verdict(rule: Rule) -> None:
    for example in (rule.passes, rule.fails):
        name = SCHEDULERS.get(rule.id, example.scheduler or "koord-scheduler")
        stated: dict[str, Any] = {} if example.version is None else {"schedulerVersion": example.version}
        settings = settings_of(name, example.config, kueue=example.kueue, **stated)
        same(example.object, settings, example.facts, old=example.old, user=example.user)


def _documents() -> Iterator[tuple[str, Manifest]]:
    for title, mistake in MISTAKES.items():
        try:
            documents = [one for one in yaml.safe_load_all(mistake.manifests) if isinstance(one, dict)]
        except yaml.YAMLError:
            continue
        for number, document in enumerate(documents):
            if document.get("kind") and document.get("apiVersion"):
                yield f"{title} {number}", document


DOCUMENTS = dict(_documents())


@pytest.mark.parametrize("name", installed_backends())
def test_each_mistake_gets_the_same_verdict(name: str) -> None:
    settings = settings_of(name)
    for document in DOCUMENTS.values():
        same(document, settings)


@pytest.mark.parametrize("name", installed_backends())
@given(workload=workloads(), pod=gang_pods(), written=pod_clique_sets())
def test_any_workload_gets_the_same_verdict(name: str, workload: Manifest, pod: Manifest, written: Manifest) -> None:
    settings = settings_of(name, kueue={"manageJobsWithoutQueueName": True} if len(pod) % 2 else None)
    for manifest in (workload, pod, written):
        same(manifest, settings)


@given(workload=workloads().flatmap(damaged), review=reviews())
def test_a_malformed_object_gets_the_same_verdict(workload: Manifest, review: dict[str, Any]) -> None:
    settings = settings_of("koord-scheduler")
    same(workload, settings)
    try:
        request = request_from(deepcopy(review))
    except RollcallError:
        return
    if request.object is not None:
        same(
            {**request.object, "kind": request.kind.kind, "apiVersion": "/".join(filter(None, request.kind[:2]))},
            settings,
        )


def _corpus() -> Iterator[tuple[Manifest, Manifest | None, str]]:
    """The objects of the fuzz corpus that can be read: each new one, the old one and the user."""
    for entry in read_corpus():
        try:
            documents = read_text(entry.body, "corpus")
        except InputError:
            continue
        for document in documents:
            try:
                request = request_from(document.manifest)
            except RollcallError:
                if document.manifest.get("kind") and document.manifest.get("apiVersion"):
                    yield document.manifest, None, ""
                continue
            if request.object is not None:
                group, version, kind = request.kind
                names = {"kind": kind, "apiVersion": "/".join(filter(None, (group, version)))}
                yield {**request.object, **names}, request.old, request.user


@pytest.mark.parametrize("name", installed_backends())
def test_each_object_of_the_fuzz_corpus_gets_the_same_verdict(name: str) -> None:
    settings = settings_of(name)
    objects = list(_corpus())
    assert len(objects) > 100
    for manifest, old, user in objects:
        same(manifest, settings, old=old, user=user)


def test_a_list_of_rules_keeps_few_answers_and_each_is_right() -> None:
    rules = settings_of("koord-scheduler").profiles["koord-scheduler"].set_rules[Action.DENY]
    words = [word for word in sorted(EVERYTHING) if any(word in bound.rule.looks_at for bound in rules)]
    for number in range(3 * registry._MOST_KEPT):
        mentioned = {word for place, word in enumerate(words) if number >> place & 1}
        about = rules.select({}, mentioned)
        assert about == [bound for bound in rules if bound.rule.may_be_about(frozenset(), mentioned)]
    assert len(rules._about) <= registry._MOST_KEPT


def test_the_rules_about_a_pod_group_of_grove_are_kept() -> None:
    rules = settings_of("kai-scheduler").profiles["kai-scheduler"].object_rules[Action.DENY]
    lenient = rules.soften_for_grove(Action.OFF)
    assert lenient is rules.soften_for_grove(Action.OFF)
    assert len(lenient) < len(rules) == len(rules.soften_for_grove(Action.DENY))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_quick_look_at_keys_sees_what_the_rules_see(name: str) -> None:
    manifest = DOCUMENTS[name]
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    kind = Kind(group, version, str(manifest["kind"]))
    seen = [keys for _, keys in AnyObject(kind, manifest).holders if keys]
    assert [marks.keys for marks in marks_of(kind[::2], manifest)] == seen


def test_a_key_that_no_rule_would_report_is_not_looked_at_twice() -> None:
    marks = [("labels", True, {"rollcall.dev/scheduler": "x"}), ("annotations", False, {"example.com/owner": "x"})]
    assert api_names.are_unremarkable([Marks(*one) for one in marks])
    for wrong in (
        ("annotations", True, {"rollcall.dev/scheduler": "x"}),
        ("labels", False, {"rollcall.dev/scheduler": "x"}),
        ("labels", True, {"rollcall.dev/schedulr": "x"}),
        ("labels", True, {"runai/queue": "x"}),
        ("labels", True, {"a" * 400: "x"}),
        ("labels", True, {f"{number}.example.com/a": "x" for number in range(40)}),
    ):
        assert not api_names.are_unremarkable([Marks(*wrong)])
