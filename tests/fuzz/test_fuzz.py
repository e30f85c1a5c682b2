"""The corpus and a few newly mutated bodies are answered by the contract."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tests.fuzz.fuzzer import Fuzzer, fuzz, running
from tests.fuzz.guidance import guide
from tests.fuzz.inputs import CORPUS, Input, read_corpus
from tests.fuzz.minimize import minimized
from tests.fuzz.oracle import Answer, Complaint, judge
from tests.fuzz.seeds import review, seeds
from webhook.validators.examples import pod_clique_set

exhaustive = pytest.mark.exhaustive


@pytest.fixture
def fuzzer() -> Iterator[Fuzzer]:
    with running(None):
        yield Fuzzer(Random(0), None)


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=exhaustive)])
def test_every_body_of_the_corpus_is_answered_by_the_contract(fuzzer: Fuzzer, step: int) -> None:
    corpus = read_corpus()[::step]
    assert len(corpus) > 50 / step
    asyncio.run(fuzzer.start_with(corpus))
    assert fuzzer.found.complaints == {}


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=exhaustive)])
def test_every_seed_is_answered_by_the_contract(fuzzer: Fuzzer, step: int) -> None:
    given = seeds(given=False)
    assert any(b'"Scale"' in seed.body for seed in given[::step])
    asyncio.run(fuzzer.start_with(given[::step]))
    assert fuzzer.found.complaints == {}


def test_the_corpus_is_small() -> None:
    assert CORPUS.stat().st_size < 300_000
    assert len(read_corpus()) <= 200


@pytest.mark.parametrize("bodies", [100, pytest.param(400, marks=exhaustive)])
def test_mutated_bodies_are_answered_by_the_contract(bodies: int) -> None:
    # New ones only where many are tried, and not in CI: see tests/conftest.py.
    new = settings.get_current_profile_name() == "exhaustive" and "CI" not in os.environ
    seed = Random().randrange(2**32) if new else 0
    drawn = Random(seed)
    start = drawn.sample(seeds(given=False), 30) + drawn.sample(read_corpus(), 10)
    found = fuzz(drawn, None, start, bodies).found
    assert found.complaints == {}, f"seed {seed}"
    assert found.answers["/validate 200"] + found.answers["/mutate 200"] > bodies / 4


@pytest.mark.exhaustive
def test_the_code_that_a_body_reaches_is_recorded() -> None:
    watching = guide()
    good = Input("default", "/validate", review(pod_clique_set()))
    bad = good._replace(body=b"[]")
    fuzzed = fuzz(Random(0), watching, [bad, bad, good, good], 0)
    assert fuzzed.kept == [bad, good]
    assert "server/admission_review.py" in {place[0] for place in watching.seen}


@pytest.mark.exhaustive
def test_minimizing_the_corpus_keeps_its_coverage() -> None:
    manifest = pod_clique_set(labels={"rollcall.dev/scheduler": "nobody"}, annotations={"a": "b" * 100})
    seed = Input("default", "/validate", review(pod_clique_set(annotations={"a": "c"})))
    unknown = Input("default", "/validate", review(manifest))
    kept = asyncio.run(minimized(guide(), [seed], [seed, unknown, unknown._replace(query="timeout=5s")]))
    assert kept
    assert all(b"nobody" in one.body and b"bbb" not in one.body for one in kept[:1])


@pytest.mark.parametrize("one", [Input("every", "/check", b"\xff\x00", "a=b", 3), Input("default", "/mutate", b"")])
def test_an_input_survives_a_round_trip_through_the_corpus(one: Input) -> None:
    assert Input.of_line(one.line()) == one


# The oracle itself: what is wrong is seen.

ASKED = Input("default", "/mutate", review(pod_clique_set()))
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def answered(version: str = "admission.k8s.io/v1", **response: Any) -> Answer:
    told = {"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": UID, "allowed": True, **response}}
    return Answer(200, "application/json", json.dumps(told).encode())


def patch(operations: str) -> dict[str, str]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(operations.encode()).decode()}


REFUSAL: dict[str, Any] = {
    "status": "Failure", "code": 422, "reason": "Invalid", "message": "a: b",
    "details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec", "message": "a: b"}]},
}  # fmt: skip


def test_the_oracle_accepts_a_correct_answer() -> None:
    judge(ASKED, answered())
    judge(ASKED._replace(path="/validate"), answered(allowed=False, status=REFUSAL))
    changed = judge(ASKED, answered(**patch('[{"op": "add", "path": "/metadata/labels", "value": {}}]')))
    assert changed["request"]["object"]["metadata"]["labels"] == {}


@pytest.mark.parametrize("user", [7, [], {"username": 2**63 - 1}])
def test_the_oracle_accepts_that_a_review_without_a_readable_user_is_refused_as_none(user: Any) -> None:
    broken = json.loads(ASKED.body)
    broken["request"]["userInfo"] = user
    judge(ASKED._replace(body=json.dumps(broken).encode()), Answer(400, "text/plain; charset=utf-8", b"no\n"))


@pytest.mark.parametrize(
    ("answer", "kind"),
    {
        "500": (Answer(500, "text/plain", b"oh\n"), "status 500"),
        "no review, it is said": (Answer(400, "text/plain", b"no\n"), "a review is refused as none"),
        "two lines": (Answer(400, "text/plain", b"no\nno\n"), "an error that is not one line"),
        "another uid": (answered(uid="1"), "the uid"),
        "another version": (answered(version="admission.k8s.io/v1beta1"), "the version"),
        "allowed is a word": (answered(allowed="yes"), "allowed"),
        "a refusal by mutation": (answered(allowed=False, status=REFUSAL), "mutation refuses"),
        "a long warning": (answered(warnings=["a" * 257]), "a warning that is too long"),
        "a terminal is told to blink": (answered(warnings=["\x1b[5m"]), "a warning with control characters"),
        "a number as annotation": (answered(auditAnnotations={"a": 1}), "an audit annotation"),
        "an empty patch": (answered(**patch("[]")), "an empty patch"),
        "a patch of nothing": (
            answered(**patch('[{"op": "replace", "path": "/metadata/name", "value": "demo"}]')),
            "an operation that changes nothing",
        ),
        "a patch without parent": (
            answered(**patch('[{"op": "add", "path": "/metadata/labels/a", "value": "b"}]')),
            "a patch that does not apply",
        ),
        "a removal": (answered(**patch('[{"op": "remove", "path": "/metadata/name"}]')), "an operation"),
    }.values(),
)
def test_the_oracle_reports_a_wrong_answer(answer: Answer, kind: str) -> None:
    with pytest.raises(Complaint) as complaint:
        judge(ASKED, answer)
    assert complaint.value.kind == kind


@pytest.mark.parametrize(
    ("change", "kind"),
    {
        "no such code": ({"code": 400}, "a code and its reason"),
        "another reason": ({"code": 403}, "a code and its reason"),
        "a long message": ({"message": "a" * 1025}, "a message that is too long"),
        "no cause": ({"details": {"causes": []}}, "a refusal without a cause"),
        "52 causes": ({"details": {"causes": REFUSAL["details"]["causes"] * 52}}, "too many causes"),
    }.values(),
)
def test_the_oracle_reports_a_wrong_refusal(change: dict[str, Any], kind: str) -> None:
    with pytest.raises(Complaint) as complaint:
        judge(ASKED._replace(path="/validate"), answered(allowed=False, status={**REFUSAL, **change}))
    assert complaint.value.kind == kind
