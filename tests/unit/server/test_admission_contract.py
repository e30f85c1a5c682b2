"""The admission contract over real TLS: every status, and the content of an answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonpatch
import pytest

from tests.unit.server.conftest import refused, review
from tests.unit.worlds import gang_pod, validate
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.fields import ANNOTATIONS, SPEC
from webhook.model.findings import Finding
from webhook.server.admission_review import write_review
from webhook.validators.examples import clique, pod_clique_set, scaling_group

GROUP = "grove.io/mnnvl-group"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def answer(client: httpx.Client, path: str, asked: Any) -> Any:
    response = client.post(path, json=asked)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
@pytest.mark.parametrize("path", ["/validate", "/mutate"])
def test_the_answer_has_the_request_s_version_and_uid(client: httpx.Client, version: str, path: str) -> None:
    found = answer(client, path, {**review(), "apiVersion": version})
    assert (found["apiVersion"], found["kind"]) == (version, "AdmissionReview")
    assert (found["response"]["uid"], found["response"]["allowed"]) == (UID, True)


def test_a_denial_says_where_what_why_and_what_to_do(client: httpx.Client) -> None:
    asked = refused()
    (finding,) = validate(asked["request"]["object"]).denials
    field = f"metadata.annotations[{GROUP}]"
    assert (finding.rule, str(finding.at), finding.value) == ("koordinator/mnnvl", field, "train")
    why = f"{finding.why}; {finding.remedy}"
    assert answer(client, "/validate", asked)["response"] == {
        "uid": UID,
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": f'koordinator/mnnvl at {field}: "train": {why}',
            "details": {
                "name": "demo",
                "group": "grove.io",
                "kind": "PodCliqueSet",
                "causes": [
                    {"reason": "FieldValueInvalid", "field": field, "message": f'koordinator/mnnvl: "train": {why}'}
                ],
            },
        },
        "auditAnnotations": {"decision": "denied", "backend": "koord-scheduler", "rules": "koordinator/mnnvl"},
    }


def test_a_forbidden_change_is_403(client: httpx.Client) -> None:
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    new = pod_clique_set(labels={"rollcall.dev/scheduler": "default-scheduler"})
    status = answer(client, "/validate", review(new, operation="UPDATE", oldObject=old))["response"]["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["details"]["causes"][0]["reason"] == "FieldValueForbidden"


def test_a_patch_can_be_applied_and_needs_no_second_one(client: httpx.Client) -> None:
    pod = gang_pod()
    response = answer(client, "/mutate", review(pod))["response"]
    assert response["patchType"] == "JSONPatch"
    patched = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    assert patched["spec"]["schedulerName"] == "koord-scheduler"
    again = answer(client, "/mutate", review(patched))["response"]
    assert "patch" not in again
    assert "patchType" not in again


def test_a_dry_run_is_answered_like_any_other(client: httpx.Client) -> None:
    wet, dry = (answer(client, "/validate", refused(dryRun=value)) for value in (False, True))
    assert wet == dry


def test_advice_is_sent_as_warnings(client: httpx.Client) -> None:
    response = answer(client, "/validate", review(pod_clique_set(clique("worker"), clique("pworker"))))["response"]
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert warning.startswith('grove/clique-name-suffix at spec.template.cliques[0].name: "worker": ')


def test_unjudged_rules_are_in_the_audit_annotations(client: httpx.Client) -> None:
    manifest = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "team-a"})
    assert answer(client, "/validate", review(manifest))["response"]["auditAnnotations"] == {
        "decision": "allowed",
        "backend": "koord-scheduler",
        "unjudged": "koordinator/quota",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE", "object": None, "oldObject": {}},
        {"operation": "CONNECT"},
        {"subResource": "status"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
    ],
    ids=["delete", "connect", "status", "another kind"],
)
def test_requests_that_are_not_judged_are_allowed_without_a_message(
    client: httpx.Client, fields: dict[str, Any]
) -> None:
    assert answer(client, "/validate", refused(**fields))["response"] == {"uid": UID, "allowed": True}


def test_an_object_in_deletion_is_always_allowed(client: httpx.Client) -> None:
    manifest = refused()["request"]["object"]
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving = review(manifest, operation="UPDATE", oldObject=manifest)
    for path in ("/validate", "/mutate"):
        assert answer(client, path, leaving)["response"] == {"uid": UID, "allowed": True}


def test_control_characters_are_escaped_in_messages_and_warnings(client: httpx.Client) -> None:
    # The API server drops a warning with a control character in it, in silence.
    suffix = pod_clique_set(clique("w\x7f"), clique("pw\x7f"))
    (warning,) = answer(client, "/validate", review(suffix))["response"]["warnings"]
    assert warning.startswith('grove/clique-name-suffix at spec.template.cliques[0].name: "w\ufffd": it is the suffix')
    finding = Finding(at=ANNOTATIONS / "x/\x1b[2J\n", value="\x9b", why="it is odd", remedy="go", rule="grove/odd")
    asked = Request(UID, "CREATE", Kind("", "v1", "Pod"), "default", "demo", {})
    status = json.loads(write_review("v1", asked, Verdict(False, None, (finding,))))["response"]["status"]
    assert status["message"] == 'grove/odd at metadata.annotations[x/\ufffd[2J\ufffd]: "\ufffd": it is odd; go'
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "metadata.annotations[x/\ufffd[2J\ufffd]"
    assert cause["message"] == 'grove/odd: "\ufffd": it is odd; go'


def test_a_body_over_the_limit_is_413_even_without_a_content_length(client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(8):
            yield b" " * 1024 * 1024

    for content in (parts(), b" " * (7 * 1024 * 1024 + 1)):
        response = client.post("/validate", content=content)
        assert (response.status_code, response.headers["connection"]) == (413, "close")


def test_many_and_long_findings_stay_within_the_size_limits(client: httpx.Client) -> None:
    names = [f"work-{index:03}" for index in range(40)]
    cliques = [clique(name, labels={"koordinator.sh/qosClass": "q" * 63}) for name in names]
    near = {"topologyName": "ж" * 400, "pack": {"required": "r" * 63}}
    groups = [scaling_group("ring", *names, topologyConstraint=near)]
    response = answer(client, "/validate", review(pod_clique_set(*cliques, groups=groups)))["response"]
    message = response["status"]["message"]
    assert len(message.encode()) <= 1024
    assert message.splitlines()[-1].startswith("(+")
    assert message.splitlines()[-1].endswith(" more)")
    assert message.startswith("koordinator/scaling-group-topology at ")
    causes = response["status"]["details"]["causes"]
    assert len(causes) == 41
    told = sum(not line.startswith("(+") for line in message.splitlines())
    assert f"(+{len(causes) - told} more)" in message


def test_causes_are_cut_and_counted(client: httpx.Client) -> None:
    """A thousand cliques that are wrong in the same way: kubectl would print a thousand lines."""
    labels = {"koordinator.sh/qosClass": "worst"}
    cliques = [clique(f"work-{index:04}", labels=labels) for index in range(1000)]
    response = answer(client, "/validate", review(pod_clique_set(*cliques)))["response"]
    *told, last = response["status"]["details"]["causes"]
    assert len(told) == 50
    place = "spec.template.cliques[{}].labels[koordinator.sh/qosClass]"
    assert [cause["field"] for cause in told] == [place.format(index) for index in range(50)]
    assert last == {
        "reason": "FieldValueInvalid",
        "field": place.format(50),
        "message": last["message"],
    }
    assert last["message"].startswith("(+950 more")
    assert "koordinator/qos-class (950)" in last["message"]
    assert response["status"]["message"].splitlines()[-1] == f"(+{1000 - shown(response)} more)"


def shown(response: Any) -> int:
    return sum(not line.startswith("(+") for line in response["status"]["message"].splitlines())


def test_cut_findings_are_listed_by_their_rules() -> None:
    refusing = [Finding(SPEC / f"f{index}", index, "why", "remedy", rule="a/b") for index in range(50)]
    more = [Finding(SPEC / "f50", 1, "why", "remedy", rule=rule, forbidden=True) for rule in ("c/d", "a/b", "c/d")]
    for cut, expected in ((0, None), (1, "c/d (1)"), (3, "c/d (2), a/b (1)")):
        verdict = Verdict(allowed=False, scheduler=None, findings=(*refusing, *more[:cut]))
        asked = Request(UID, "CREATE", Kind("", "v1", "Pod"), "default", "demo", {})
        written = write_review("admission.k8s.io/v1", asked, verdict)
        causes = json.loads(written)["response"]["status"]["details"]["causes"]
        assert [cause["field"] for cause in causes[:50]] == [f"spec.f{index}" for index in range(50)]
        last = [] if expected is None else [(f"(+{cut} more", f": {expected})", "FieldValueForbidden")]
        messages = [(cause["message"].partition(","), cause["reason"]) for cause in causes[50:]]
        assert [(begin, end[-len(f": {expected})") :], reason) for (begin, _, end), reason in messages] == last


def test_warnings_are_cut_and_counted(client: httpx.Client) -> None:
    names = ["w", *(f"n{index:02}w" for index in range(30))]
    cliques = [clique(name) for name in [*names, *(f"x{name}" for name in names[1:])]]
    response = answer(client, "/validate", review(pod_clique_set(*cliques)))["response"]
    assert len(response["warnings"]) == 16
    assert response["warnings"][-1] == "(+16 more warnings)"
    assert all(len(warning.encode()) <= 256 for warning in response["warnings"])


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"{", "not JSON"),
    "not UTF-8": (b'{"kind": "\xff"}', "not JSON"),
    "too deep": (b"[" * 5000 + b"]" * 5000, "not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "another kind": (b'{"kind": "Pod", "apiVersion": "v1"}', 'kind is "Pod", not AdmissionReview'),
    "an unknown version": (
        json.dumps({**review(), "apiVersion": "admission.k8s.io/v2"}).encode(),
        'apiVersion is "admission.k8s.io/v2", not one of admission.k8s.io/v1, admission.k8s.io/v1beta1',
    ),
    "no request": (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request is missing"),
    "no uid": (json.dumps(review(uid="")).encode(), "request.uid is missing"),
    "a uid that is no string": (json.dumps(review(uid=7)).encode(), "request.uid is 7, not a string"),
    "no operation": (json.dumps(review(operation=None)).encode(), "request.operation is missing"),
    "an unknown operation": (
        json.dumps(review(operation="PATCH")).encode(),
        'request.operation is "PATCH", not one of CREATE, UPDATE, DELETE, CONNECT',
    ),
    "no kind": (json.dumps(review(kind="Pod")).encode(), "request.kind is missing"),
    "no object": (json.dumps(review(object=None)).encode(), "request.object is missing"),
    "an object that is none": (
        json.dumps(review(object=[])).encode(),
        "request.object is a list of 0 items, not an object",
    ),
    "a uid of megabytes": (
        json.dumps(review(uid="a" * 3_000_000)).encode(),
        "request.uid has 3000000 characters, more than 1000",
    ),
    "a name that is too long": (
        json.dumps(review(name="a" * 1001)).encode(),
        "request.name has 1001 characters, more than 1000",
    ),
    "a namespace that is too long": (
        json.dumps(review(namespace="a" * 1001)).encode(),
        "request.namespace has 1001 characters, more than 1000",
    ),
    "a kind that is too long": (
        json.dumps(review(kind={"group": "", "version": "v1", "kind": "a" * 1001})).encode(),
        "request.kind.kind has 1001 characters, more than 1000",
    ),
    "no old object": (json.dumps(review(operation="UPDATE")).encode(), "request.oldObject is missing"),
}


@pytest.mark.parametrize(("content", "why"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("path", ["/validate", "/mutate"])
def test_an_invalid_review_is_400_with_one_line(client: httpx.Client, path: str, content: bytes, why: str) -> None:
    if why == "request.object is missing":
        # `object=None` made the stand-in choose its default.
        asked = json.loads(content)
        asked["request"]["object"] = None
        content = json.dumps(asked).encode()
    response = client.post(path, content=content)
    assert response.status_code == 400
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert why in response.text
    assert response.text.count("\n") == 1


def test_only_post_is_answered(client: httpx.Client) -> None:
    response = client.get("/validate")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_an_unknown_path_is_404_with_one_line(client: httpx.Client) -> None:
    response = client.post("/validat", json=review())
    assert (response.status_code, response.text) == (404, "Not Found\n")


@pytest.mark.parametrize("timeout", ["10s", "1m30s", "500ms", "1.5s", "30s", "24h"])
def test_a_timeout_is_parsed_like_go_prints_it(client: httpx.Client, timeout: str) -> None:
    assert client.post(f"/validate?timeout={timeout}", json=review()).status_code == 200


@pytest.mark.parametrize("timeout", ["10", "ten", "-1s", "0s", "1s2", "", "s", "1 s", "\u0661s"])
def test_an_invalid_timeout_is_400(client: httpx.Client, timeout: str) -> None:
    response = client.post("/validate", params={"timeout": timeout}, json=review())
    assert response.status_code == 400
    assert response.text.startswith("timeout is ")


def test_a_cause_with_a_long_name_is_cut(client: httpx.Client) -> None:
    """A stored label is short; an annotation may have a quarter of a megabyte, and a review is only JSON."""
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "ж" * 5000})
    changed = pod_clique_set(labels={"rollcall.dev/scheduler": "ш" * 5000})
    job = {"apiVersion": "batch/v1", "kind": "Job"}
    for new, before in ((changed, old), (changed | job, old | job)):
        group, _, version = new["apiVersion"].rpartition("/")
        kind = {"group": group, "version": version, "kind": new["kind"]}
        asked = review(new, kind=kind, operation="UPDATE", oldObject=before)
        response = answer(client, "/validate", asked)["response"]
        assert response["allowed"] is False
        assert len(response["auditAnnotations"].get("backend", "").encode()) <= 256
        for cause in response["status"]["details"]["causes"]:
            assert len(cause["message"].encode()) <= 2048
            assert len(cause["field"].encode()) <= 2048
            assert cause["message"].count("ж") < 1000


def test_a_long_recorded_scheduler_is_cut_in_the_audit_annotations(client: httpx.Client) -> None:
    manifest = pod_clique_set(labels={"rollcall.dev/scheduler": "x" * 5000})
    response = answer(client, "/validate", review(manifest, operation="UPDATE", oldObject=manifest))["response"]
    assert response["auditAnnotations"]["backend"] == "x" * 253 + "..."


@pytest.mark.parametrize("character", ["\x85", "\x7f", "\x9b"])
def test_an_error_contains_no_control_character(client: httpx.Client, character: str) -> None:
    """U+0085 ends a line to some, and U+009B begins what a terminal obeys; JSON need not escape them."""
    asked = review() | {"apiVersion": f"admission{character}/v1"}
    answered = client.post("/validate", content=json.dumps(asked, ensure_ascii=False).encode())
    assert answered.status_code == 400
    assert answered.text.startswith('apiVersion is "admission\ufffd/v1", not one of ')
    assert client.post("/check", params={"scheduler": f"a{character}b"}, content=b"{}").json()["error"].isprintable()
