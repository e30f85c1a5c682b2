"""Large objects and manifests against a real server: other calls are answered, and memory stays bounded."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.programs import eventually
from tests.unit.server.conftest import review
from tests.unit.server.server_process import ServingProcess, serving_process
from tests.unit.server.test_server_endpoints import FINE
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE
from webhook.server.check_endpoint import MAX_MANIFEST_BYTES
from webhook.server.tls import PairFiles
from webhook.sources.limits import SERVER
from webhook.validators.examples import clique, pod_clique_set

MIB = 1 << 20


@pytest.fixture
def serving(certificates: Path, tmp_path: Path) -> Iterator[ServingProcess]:
    files = PairFiles(certificates / CERTIFICATE_FILE, certificates / KEY_FILE)
    with serving_process(tmp_path, files, traced=False) as process:
        yield process


@pytest.fixture
def asking(serving: ServingProcess, certificates: Path) -> Iterator[httpx.Client]:
    context = ssl.create_default_context(cafile=str(certificates / CA_FILE))
    with httpx.Client(base_url=serving.url, verify=context, trust_env=False, timeout=60) as client:
        yield client


def peak_mebibytes(serving: ServingProcess) -> int:
    """The most memory that the process ever had."""
    status = Path(f"/proc/{serving.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def large_review() -> bytes:
    """A review of an object that the API server may send, of one mebibyte: a list of empty objects."""
    manifest = pod_clique_set(clique("worker", pod={"tolerations": [{}] * (MIB // 3)}))
    return json.dumps(review(manifest), separators=(",", ":")).encode()


def test_other_calls_are_answered_while_large_reviews_are_judged(serving: ServingProcess, asking: httpx.Client) -> None:
    body, small = large_review(), json.dumps(review()).encode()
    ended = threading.Event()
    statuses: list[int] = []

    def attack() -> None:
        with httpx.Client(base_url=serving.url, verify=False, trust_env=False, timeout=60) as client:  # noqa: S501
            for _ in range(2):
                statuses.append(client.post("/validate?timeout=30s", content=body).status_code)

    attackers = [threading.Thread(target=attack) for _ in range(4)]

    def wait() -> None:
        for one in attackers:
            one.join()
        ended.set()

    watch = threading.Thread(target=wait)
    for thread in (*attackers, watch):
        thread.start()
    answered = 0
    while not ended.is_set():
        assert asking.post("/validate", content=small).status_code == 200
        assert asking.get("/healthz").status_code == 200
        answered += 1
    assert statuses == [200] * 8
    # In one thread each would wait for all that came before it: there would be about as many as large ones.
    assert answered > 5 * len(statuses)


def test_a_review_of_too_many_values_is_413_and_takes_little_memory(
    serving: ServingProcess, asking: httpx.Client
) -> None:
    before = peak_mebibytes(serving)
    body = b'{"a":[' + b"[[]]," * (7 * MIB // 5 - 10) + b"[]]}"
    answer = asking.post("/validate", content=body)
    assert (answer.status_code, answer.text.partition(";")[0]) == (
        413,
        "the body has more than 2500000 brackets and strings",
    )
    assert peak_mebibytes(serving) - before < 200


def aliases() -> str:
    """25 documents whose aliases come to less than what one document could have, in 19 KB."""
    levels = "".join(
        f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n"
        if level
        else "l0: &l0 [x, x, x, x, x, x, x, x]\n"
        for level in range(6)
    )
    return "---\n".join([levels + "#" * 400 + "\n"] * 25)


@pytest.mark.parametrize(
    "content", [aliases(), "a:\n" + "- []\n" * (MAX_MANIFEST_BYTES // 5 - 2)], ids=["aliases", "lists"]
)
@pytest.mark.parametrize("path", ["/check", "/capabilities"])
def test_a_text_that_expands_is_refused_and_takes_little_memory(
    serving: ServingProcess, asking: httpx.Client, content: str, path: str
) -> None:
    before = peak_mebibytes(serving)
    answer = asking.post(path, content=content)
    assert answer.status_code == 400
    assert "too large" in answer.text or f"more than {SERVER.values} values" in answer.text
    assert peak_mebibytes(serving) - before < 150


def test_a_check_over_a_mebibyte_is_413(asking: httpx.Client) -> None:
    assert asking.post("/check", content=b"#" * (MAX_MANIFEST_BYTES + 1)).status_code == 413
    assert asking.post("/check", content=FINE + "#" * (MAX_MANIFEST_BYTES - len(FINE))).status_code == 200


def test_a_check_ends_when_its_client_disconnects(serving: ServingProcess, asking: httpx.Client) -> None:
    documents: list[Any] = [
        pod_clique_set(*(clique(f"c{number}") for number in range(400)), name=f"s{index}") for index in range(20)
    ]
    content = "\n---\n".join(map(json.dumps, documents))
    with pytest.raises(httpx.ReadTimeout):
        asking.post("/capabilities", content=content, timeout=httpx.Timeout(30, read=0.2))
    # The thread is free again soon, and what was asked is not judged to its end.
    assert asking.post("/check", content=FINE, timeout=30).status_code == 200
    eventually(
        lambda: serving.metric("rollcall_lane_dropped_total", lane="manifests", reason="gone") == 1,
        "the call of the client that went is dropped",
    )
