"""Exceptions: what they cover, where, until when, and what they never cover."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from tests.configurations import configuration_of
from tests.texts import is_like
from tests.unit.admission.decisions import GPU, KOORD, NVLINK
from tests.unit.worlds import gang_pod, request
from webhook import admission
from webhook.admission.admission_check import CheckOutcome, answer
from webhook.admission.workload_admission import apply_exceptions, exception_subject
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.keys import Record
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.server.admission_review import MAX_EXCEPTIONS_BYTES, MAX_WARNING_BYTES, write_review
from webhook.validators.examples import job_set, pod_clique_set, replicated, train_job
from webhook.workloads.kueue_integration import CheckMode

MNNVL = "koordinator/mnnvl"
UNTIL = datetime(2027, 2, 1, 18, 0, tzinfo=UTC)
BEFORE, LATER = UNTIL - timedelta(seconds=1), UNTIL + timedelta(seconds=1)
STARVED = {**GPU, "spec": {**GPU["spec"], "minAvailable": 9}}
FAULTY = pod_clique_set(GPU, annotations=NVLINK)
REASON = "one NVLink domain"
EXCEPTION: dict[str, Any] = {
    "name": "mnnvl-pool-b",
    "rules": [MNNVL],
    "namespaces": ["default"],
    "reason": REASON,
    "grantedBy": "anna@example.com",
    "until": "2027-02-01T19:00:00+01:00",
}


def settings(*exceptions: dict[str, Any], standalone: bool = True, **sections: Any) -> Settings:
    document = configuration_of(
        {"name": "koord-scheduler", "gate": False}, exceptions=[{**EXCEPTION, **one} for one in exceptions], **sections
    )
    return replace(settings_from(document, "test"), standalone=standalone)


def judged(
    manifest: Manifest,
    used: Settings,
    now: datetime | None = BEFORE,
    old: Manifest | None = None,
    namespace: str = "default",
    facts: ClusterFacts = NO_FACTS,
) -> Verdict:
    asked = replace(request(manifest, old), at=now, namespace=namespace)
    admission.mutate(asked, facts, used)
    return admission.validate(asked, facts, used)


def named(manifest: Manifest, name: str = "demo", **labels: str) -> Manifest:
    found = deepcopy(manifest)
    found["metadata"] = {**found.get("metadata", {}), "name": name, "labels": labels}
    return found


def test_a_covered_finding_keeps_its_text_and_warns_with_the_terms() -> None:
    verdict = judged(FAULTY, settings({}))
    (found,) = verdict.findings
    assert verdict.allowed
    assert (found.rule, found.action) == (MNNVL, Action.WARN)
    assert found.excepted is not None and found.excepted.name == "mnnvl-pool-b"
    terms = f"excepted by anna@example.com until 2027-02-01T18:00:00Z: {REASON}"
    assert is_like(
        str(found), f'koordinator/mnnvl at metadata.annotations[grove.io/mnnvl-group]: {terms}; "train": ...'
    )
    assert found.explanation == judged(FAULTY, settings()).findings[0].explanation


@pytest.mark.parametrize(
    ("now", "allowed"),
    [
        pytest.param(BEFORE, True, id="a second before its end"),
        pytest.param(UNTIL, False, id="at its end"),
        pytest.param(LATER, False, id="afterwards"),
        pytest.param(None, False, id="at an unknown time"),
    ],
)
def test_an_exception_ends_at_its_moment(now: datetime | None, allowed: bool) -> None:
    verdict = judged(FAULTY, settings({}), now)
    assert verdict.allowed is allowed
    assert [found.excepted is not None for found in verdict.findings] == [allowed]


def test_a_date_is_the_last_day_in_utc() -> None:
    used = settings({"until": "2027-01-31"})
    assert judged(FAULTY, used, datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)).allowed
    assert not judged(FAULTY, used, datetime(2027, 2, 1, tzinfo=UTC)).allowed


COVERED: dict[str, tuple[dict[str, Any], Manifest, str, bool]] = {
    "its namespace": ({}, FAULTY, "default", True),
    "another namespace": ({}, FAULTY, "team-b", False),
    "a namespace that begins with its name": ({}, FAULTY, "default-2", False),
    "its name": ({"workloads": {"names": ["demo"]}}, named(FAULTY), "default", True),
    "another name": ({"workloads": {"names": ["demo"]}}, named(FAULTY, "other"), "default", False),
    "its name in another namespace": ({"workloads": {"names": ["demo"]}}, named(FAULTY), "team-b", False),
    "its kind": ({"workloads": {"kinds": ["PodCliqueSet"]}}, FAULTY, "default", True),
    "another kind": ({"workloads": {"kinds": ["JobSet"]}}, FAULTY, "default", False),
    "its label": ({"workloads": {"matchLabels": {"ticket": "4711"}}}, named(FAULTY, ticket="4711"), "default", True),
    "no label": ({"workloads": {"matchLabels": {"ticket": "4711"}}}, FAULTY, "default", False),
    "another value": ({"workloads": {"matchLabels": {"ticket": "4711"}}}, named(FAULTY, ticket="1"), "default", False),
    "its label in another namespace": (
        {"workloads": {"matchLabels": {"ticket": "4711"}}},
        named(FAULTY, ticket="4711"),
        "team-b",
        False,
    ),
    "its label and another name": (
        {"workloads": {"matchLabels": {"ticket": "4711"}, "names": ["other"]}},
        named(FAULTY, ticket="4711"),
        "default",
        False,
    ),
    "another rule": ({"rules": ["koordinator/resource-claims"]}, FAULTY, "default", False),
}


@pytest.mark.parametrize(("exception", "manifest", "namespace", "allowed"), COVERED.values(), ids=COVERED)
def test_an_exception_covers_what_it_names(
    exception: dict[str, Any], manifest: Manifest, namespace: str, allowed: bool
) -> None:
    assert judged(manifest, settings(exception), namespace=namespace).allowed is allowed


def test_a_name_that_the_api_server_adds_later_is_no_name() -> None:
    used = settings({"workloads": {"names": ["demo"]}})
    generated = named(FAULTY)
    generated["metadata"]["generateName"] = generated["metadata"].pop("name")
    assert not judged(generated, used).allowed


def test_what_no_exception_covers_still_refuses() -> None:
    faults = pod_clique_set(STARVED, annotations=NVLINK)
    verdict = judged(faults, settings({}))
    assert [(found.rule, found.excepted is None) for found in verdict.findings] == [
        ("grove/min-available", True),
        (MNNVL, False),
    ]
    assert not verdict.allowed


def test_a_rule_that_fails_closed_is_not_covered_even_if_an_exception_names_it() -> None:
    used = settings({})
    (granted,) = used.exceptions.every
    closed = replace(granted, rules=frozenset({"grove/shape", "rollcall/scheduler-unknown"}))
    forced = replace(used, exceptions=type(used.exceptions)([closed]))
    unknown = named(pod_clique_set(GPU), **{"rollcall.dev/scheduler": "nothing"})
    assert not judged(unknown, forced).allowed
    assert not judged({"metadata": {"name": "demo"}, "spec": []}, forced).allowed


def test_an_update_after_the_end_is_not_refused_for_the_fault_that_was_excepted() -> None:
    stored = named(FAULTY, **KOORD)
    verdict = judged(stored, settings({}), LATER, old=stored)
    assert verdict.allowed
    assert [(found.action, found.excepted) for found in verdict.findings] == [(Action.WARN, None)]


def test_a_warning_that_is_covered_names_the_exception() -> None:
    used = settings({}, enforcement={"rules": {MNNVL: "audit"}})
    (found,) = judged(FAULTY, used).findings
    assert found.action is Action.AUDIT
    assert found.excepted is not None


def test_the_first_exception_of_the_configuration_that_covers_a_finding_is_named() -> None:
    used = settings({"name": "other", "workloads": {"names": ["other"]}}, {"name": "first"}, {"name": "second"})
    (found,) = judged(FAULTY, used).findings
    assert found.excepted is not None and found.excepted.name == "first"


def test_an_excepted_workload_is_not_compared_with_other_schedulers() -> None:
    verdict = judged(FAULTY, settings({}))
    assert (verdict.could_run, verdict.notes) == ((), ())


# Pods

QOS = "koordinator/qos-class"
BAD_QOS = {"koordinator.sh/qosClass": "none-such"}


def grove_facts(*, known: bool = True) -> ClusterFacts:
    sets = {("default", "demo"): Record("koord-scheduler")} if known else {}
    return ClusterFacts(pod_clique_sets=sets)


@pytest.mark.parametrize(
    ("workloads", "known", "allowed"),
    [
        pytest.param(None, True, True, id="by its namespace"),
        pytest.param({"names": ["demo"]}, True, True, id="by the name of its workload"),
        pytest.param({"names": ["demo"], "kinds": ["PodCliqueSet"]}, True, True, id="by kind and name of its workload"),
        pytest.param({"names": ["other"]}, True, False, id="by another name"),
        pytest.param({"names": ["demo"], "kinds": ["JobSet"]}, True, False, id="by another kind"),
    ],
)
def test_a_pod_is_covered_with_its_workload(workloads: Any, known: bool, allowed: bool) -> None:
    used = settings({"rules": [QOS], "workloads": workloads}, standalone=False)
    verdict = judged(gang_pod(labels=BAD_QOS), used, facts=grove_facts(known=known))
    assert QOS in {found.rule for found in verdict.findings}
    assert verdict.allowed is allowed


def test_a_pod_that_only_claims_the_name_of_a_workload_is_not_covered_by_it() -> None:
    used = settings({"rules": [QOS], "workloads": {"names": ["demo"]}})
    loose = gang_pod(labels=BAD_QOS)
    loose["metadata"]["labels"] = {**BAD_QOS, "app.kubernetes.io/part-of": "demo"}
    asked = replace(request(loose), at=BEFORE)
    denied = Verdict(False, findings=(Finding(SPEC, None, "why", "do", rule=QOS),))
    assert not apply_exceptions(denied, asked, NO_FACTS, used).allowed
    everywhere = settings({"rules": [QOS]})
    assert apply_exceptions(denied, asked, NO_FACTS, everywhere).allowed


def test_a_job_set_is_covered_with_the_train_job_that_makes_it() -> None:
    rule = "owner/claim-unsure"
    used = settings({"rules": ["keys/misplaced", rule], "workloads": {"kinds": ["TrainJob"], "names": ["tune"]}})
    made = job_set(replicated("node"))
    made["metadata"] = {
        **made["metadata"],
        "name": "tune",
        "ownerReferences": [
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "name": "tune",
                "uid": "1",
                "controller": True,
            }
        ],
    }
    selector = used.exceptions.every[0].workloads
    assert selector.takes(exception_subject("JobSet", made))
    assert selector.takes(exception_subject("TrainJob", named(train_job(), "tune")))
    assert not selector.takes(exception_subject("JobSet", named(job_set(replicated("node")), "tune")))


# What is said of it


def response(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(write_review("admission.k8s.io/v1", request(FAULTY), verdict))["response"]
    return found


def test_every_use_is_in_the_audit_annotation_and_in_a_warning() -> None:
    answered = response(judged(FAULTY, settings({})))
    assert answered["auditAnnotations"] == {
        "decision": "allowed",
        "backend": "koord-scheduler",
        "rules": MNNVL,
        "exceptions": "mnnvl-pool-b (koordinator/mnnvl) excepted by anna@example.com until 2027-02-01T18:00:00Z: "
        f"{REASON}",
    }
    (warning,) = answered["warnings"]
    assert "excepted by anna@example.com until 2027-02-01T18:00:00Z" in warning
    assert "exceptions" not in response(judged(FAULTY, settings({}), LATER))["auditAnnotations"]


def test_what_is_said_of_the_longest_exceptions_is_bounded() -> None:
    long = [
        {"name": f"e{number}", "rules": [rule], "reason": "r" * 200, "grantedBy": "g" * 100}
        for number, rule in enumerate((MNNVL, "grove/min-available", "grove/role-name", "grove/names", "fit/node") * 3)
    ]
    faults = pod_clique_set(STARVED, annotations=NVLINK)
    answered = response(judged(faults, settings(*long)))
    assert len(answered["auditAnnotations"]["exceptions"].encode()) <= MAX_EXCEPTIONS_BYTES
    assert max(len(one.encode()) for one in answered["warnings"]) <= MAX_WARNING_BYTES


def test_kueue_is_not_told_to_reject_what_is_excepted() -> None:
    used = replace(settings({}, standalone=False), admission_check=CheckMode.ON)
    facts = ClusterFacts(namespaces={"default": Namespace({})})
    found = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", **named(FAULTY, **KOORD)}
    kind = ("grove.io", "PodCliqueSet")
    assert answer(kind, found, "default", facts, used, BEFORE).outcome is CheckOutcome.READY
    assert answer(kind, found, "default", facts, used, LATER).outcome is CheckOutcome.REJECTED
