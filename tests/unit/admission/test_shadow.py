"""What shadows say, compared with a server that is configured so: for the workloads of all examples of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.unit.validators.test_rule_examples import EVERY_RULE
from tests.unit.worlds import PCS, request
from webhook import admission
from webhook.admission import decision as shadows
from webhook.admission.decision import ShadowAnswer, ShadowOutcome, admission_of, is_shadowed, shadow_answer
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.backends.registry import installed_backends
from webhook.config.defaults import force_scheduler
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.offline.judgement import kind_of
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Example

LABEL = "rollcall.dev/scheduler"
REAL = "koord-scheduler"
OTHERS = [name for name in installed_backends() if name != REAL]


def configured(default: str, *shadows: Any, **files: Settings) -> Settings:
    document = configuration_of(*installed_backends(), default=default, shadow=list(shadows))
    return replace(settings_from(document, "test", shadow_files=files), standalone=True)


@cache
def own_server(scheduler: str, *, forced: bool = False) -> Settings:
    """What a server is configured with that has this scheduler as its default, or uses it for every workload."""
    settings = configured(scheduler)
    return force_scheduler(settings, scheduler, overrides=True) if forced else settings


@cache
def with_shadows() -> Settings:
    return configured(REAL, *OTHERS[:4])


@cache
def next_default(default: str = "kai-scheduler") -> Settings:
    """With another configuration as a shadow, in which another scheduler is the default."""
    return configured(REAL, {"config": "next.yaml"}, **{"next.yaml": own_server(default)})


def judged(manifest: Manifest, facts: ClusterFacts, settings: Settings) -> Verdict:
    asked = request(manifest)
    admission.mutate(asked, facts, settings)
    return admission.validate(asked, facts, settings)


def stored(manifest: Manifest, facts: ClusterFacts, settings: Settings) -> tuple[Request, Verdict]:
    """The request as the API server sends it after our mutation, and the verdict."""
    asked = request(manifest)
    admission.mutate(asked, facts, settings)
    return asked, admission.validate(asked, facts, settings)


def examples() -> Iterator[Any]:
    """The examples that are new workloads for which a scheduler is chosen."""
    settings = configured(REAL)
    for rule in EVERY_RULE:
        for word, example in (("passes", rule.passes), ("fails", rule.fails)):
            kind = PCS if example.object.get("kind") in {None, PCS.kind} else kind_of(example.object)
            workload = example.old is None and admission_of(kind[::2], settings) is not None
            if workload and is_shadowed(*stored(example.object, example.facts, settings), settings):
                # What a rule refuses says more.
                marks = [pytest.mark.exhaustive] if word == "passes" else []
                yield pytest.param(example, id=f"{rule.id}-{word}", marks=marks)


EXAMPLES = list(examples())


def read(verdict: Verdict) -> ShadowAnswer:
    denied, unjudged, warned = (
        tuple(sorted({one.rule for one in found})) for found in (verdict.denials, verdict.unjudged, verdict.warnings)
    )
    if denied:
        return ShadowAnswer(ShadowOutcome.DENIED, denied, unjudged)
    if unjudged:
        return ShadowAnswer(ShadowOutcome.UNJUDGED, unjudged, unjudged)
    return ShadowAnswer(ShadowOutcome.WARNED, warned) if warned else ShadowAnswer(ShadowOutcome.ALLOWED)


def noted(manifest: Manifest) -> Manifest:
    """The manifest with what the API server notes of the fields of its author."""
    labels = manifest.get("metadata", {}).get("labels") or {}
    fields: Manifest = (
        {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}} if isinstance(labels, dict) else {}
    )
    found = deepcopy(manifest)
    found.setdefault("metadata", {})["managedFields"] = [{"manager": "kubectl", "fieldsV1": fields}]
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_scheduler_says_what_it_says_with_the_option_whatever_the_pods_name(example: Example) -> None:
    settings = with_shadows()
    asked, _ = stored(example.object, example.facts, settings)
    before = deepcopy(asked)
    for shadow in settings.shadows:
        answer = shadow_answer(shadow, asked, example.facts, settings, ())
        theirs = own_server(shadow.name, forced=True)
        assert answer == read(judged(example.object, example.facts, theirs)), shadow.name
    assert asked == before


@pytest.mark.parametrize("example", EXAMPLES)
def test_another_configuration_says_what_its_server_says(example: Example) -> None:
    manifest = noted(example.object)
    for other in ("kai-scheduler", "volcano"):
        settings = next_default(other)
        asked, _ = stored(manifest, example.facts, settings)
        before = deepcopy(asked)
        answer = shadow_answer(settings.shadows[0], asked, example.facts, settings, ())
        assert answer == read(judged(manifest, example.facts, own_server(other))), other
        assert asked == before


def said_of(manifest: Manifest, settings: Settings, facts: ClusterFacts = NO_FACTS) -> ShadowAnswer:
    asked, _ = stored(manifest, facts, settings)
    return shadow_answer(settings.shadows[0], asked, facts, settings, ())


def test_without_notes_a_label_that_rollcall_would_write_is_its_own() -> None:
    assert said_of(pod_clique_set(), next_default()) == ShadowAnswer(ShadowOutcome.DENIED, ("kai/no-queue",))
    other = pod_clique_set(labels={LABEL: "volcano"})
    assert said_of(other, next_default()).rules == ("volcano/queue",)


def test_a_label_that_the_author_wrote_chooses_in_another_configuration_too() -> None:
    written = noted(pod_clique_set(labels={LABEL: REAL}))
    assert said_of(written, next_default()) == ShadowAnswer(ShadowOutcome.ALLOWED)


def test_an_update_keeps_the_record_that_is_stored() -> None:
    settings = next_default()
    old = pod_clique_set(labels={LABEL: REAL})
    asked = request(deepcopy(old), old)
    assert shadow_answer(settings.shadows[0], asked, NO_FACTS, settings, ()) == ShadowAnswer(ShadowOutcome.ALLOWED)
    only = settings_from(configuration_of("kai-scheduler"), "next")
    without = configured(REAL, {"config": "next.yaml"}, **{"next.yaml": replace(only, standalone=True)})
    said = shadow_answer(without.shadows[0], asked, NO_FACTS, without, ())
    # As with any fault that was stored before.
    assert said == ShadowAnswer(ShadowOutcome.WARNED, ("rollcall/scheduler-unknown",))


def test_a_refusal_that_rests_on_a_cache_that_may_be_old_is_unjudged() -> None:
    settings = configured("volcano", "koord-scheduler")
    manifest = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "gone"})
    facts = ClusterFacts(namespaces={"default": Namespace({})}, elastic_quotas={}, apis=frozenset({POD_GROUP}))
    asked, _ = stored(manifest, facts, settings)
    (shadow,) = settings.shadows
    assert shadow_answer(shadow, asked, facts, settings, ()) == ShadowAnswer(
        ShadowOutcome.DENIED, ("koordinator/quota",)
    )
    late = shadow_answer(shadow, asked, facts, settings, {"elastic_quotas"})
    assert late == ShadowAnswer(ShadowOutcome.UNJUDGED, ("koordinator/quota",), ("koordinator/quota",))


def test_pods_and_workloads_without_a_scheduler_are_not_shadowed() -> None:
    settings = replace(configured(REAL, "kai-scheduler"), standalone=False)
    asked = request(pod_clique_set(), pod_clique_set())
    # It predates Rollcall, so no scheduler is chosen for it.
    assert not is_shadowed(asked, admission.validate(asked, NO_FACTS, settings), settings)
    pod = request({"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"schedulerName": "kai-scheduler"}})
    assert not is_shadowed(pod, Verdict(scheduler="kai-scheduler"), settings)


def test_a_shadow_names_no_schedulers_that_could_run_what_it_refuses() -> None:
    settings = next_default()
    asked, _ = stored(pod_clique_set(clique("worker")), NO_FACTS, settings)
    refused = admission.validate(asked, NO_FACTS, replace(settings.shadows[0].settings, forced="kai-scheduler"))
    assert not refused.allowed
    assert refused.could_run == ()


def test_a_list_on_the_way_to_labels_is_copied_once_however_many_labels_are_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = next_default()
    job = {"template": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}}}}
    manifest = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "demo", "labels": {LABEL: REAL}},
        "spec": {"replicatedJobs": [{"name": f"job-{index}", **deepcopy(job)} for index in range(60)]},
    }
    asked, _ = stored(manifest, NO_FACTS, settings)
    lists: list[int] = []

    def counted(value: Any) -> Any:
        if isinstance(value, list):
            lists.append(len(value))
        return copy(value)

    monkeypatch.setattr(shadows, "copy", counted)
    shadow_answer(settings.shadows[0], asked, NO_FACTS, settings, ())
    # With the labels, and without them.
    assert lists == [60, 60]
