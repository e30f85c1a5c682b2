"""Large objects and manifests, most against a real server: other calls are answered, and memory stays bounded."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.unit.server.conftest import HeldThread, review
from tests.unit.server.server_process import ServingProcess, eventually, serving_process
from tests.unit.server.test_server_endpoints import FINE
from tests.waiting import LIMIT_SECONDS, until
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE
from webhook.offline.positions import SERVER
from webhook.server.admission_endpoint import SMALL_BYTES
from webhook.server.check_endpoint import MAX_MANIFEST_BYTES
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.server.tls import PairFiles
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
    with httpx.Client(base_url=serving.url, verify=context, trust_env=False, timeout=LIMIT_SECONDS) as client:
        yield client


def peak_mebibytes(serving: ServingProcess) -> int:
    """The most memory that the process ever had."""
    status = Path(f"/proc/{serving.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def large_review() -> bytes:
    """A review of a list of empty objects, a quarter of a mebibyte: eight have time, also on a busy machine."""
    manifest = pod_clique_set(clique("worker", pod={"tolerations": [{}] * (MIB // 12)}))
    return json.dumps(review(manifest), separators=(",", ":")).encode()


@pytest.mark.exhaustive
def test_other_calls_are_answered_while_large_reviews_are_judged(serving: ServingProcess, asking: httpx.Client) -> None:
    body, small = large_review(), json.dumps(review()).encode()
    ended = threading.Event()
    statuses: list[int] = []

    def attack() -> None:
        with httpx.Client(base_url=serving.url, verify=False, trust_env=False, timeout=LIMIT_SECONDS) as client:  # noqa: S501
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
        assert asking.post("/validate?timeout=30s", content=small).status_code == 200
        assert asking.get("/healthz").status_code == 200
        answered += 1
    assert statuses == [200] * 8
    # In one thread each would wait for all that came before it: there would be about as many as large ones.
    assert answered > 5 * len(statuses)


async def test_small_calls_are_answered_while_large_reviews_wait(state: ServerState) -> None:
    large = json.dumps(review()).encode() + b" " * SMALL_BYTES
    transport = httpx.ASGITransport(create_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://rollcall") as asking:
        async with HeldThread(state.reviews):
            held = [asyncio.create_task(asking.post("/validate?timeout=30s", content=large)) for _ in range(8)]
            waiting = ("rollcall_lane_waiting", {"lane": "reviews"})
            await until(lambda: state.metrics.registry.get_sample_value(*waiting) == len(held))
            for path in ("/validate", "/mutate"):
                answer = await asking.post(f"{path}?timeout=30s", json=review())
                assert (answer.status_code, answer.json()["response"]["allowed"]) == (200, True)
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await asking.get(path)).status_code == 200
            assert (await asking.post("/check", content=FINE)).status_code == 200
            assert [call.done() for call in held] == [False] * len(held)
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200] * len(held)


@pytest.mark.exhaustive
def test_a_review_of_too_many_values_is_413_and_takes_little_memory(
    serving: ServingProcess, asking: httpx.Client
) -> None:
    before = peak_mebibytes(serving)
    body = b'{"a":[' + b"[[]]," * (7 * MIB // 5 - 10) + b"[]]}"
    answer = asking.post("/validate?timeout=30s", content=body)
    assert answer.status_code == 413
    assert " 2500000 " in answer.text
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


LISTS = "a:\n" + "- []\n" * (MAX_MANIFEST_BYTES // 5 - 2)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("/check", aliases(), id="check-aliases"),
        pytest.param("/check", LISTS, id="check-lists", marks=pytest.mark.exhaustive),
        pytest.param("/capabilities", aliases(), id="capabilities-aliases", marks=pytest.mark.exhaustive),
        pytest.param("/capabilities", LISTS, id="capabilities-lists", marks=pytest.mark.exhaustive),
    ],
)
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
    # As long as a text may be: it takes several times as long as the client waits, also on a fast machine.
    content = json.dumps(pod_clique_set(*(clique(f"c{number}") for number in range(7000))))
    with pytest.raises(httpx.ReadTimeout):
        asking.post("/capabilities", content=content, timeout=httpx.Timeout(LIMIT_SECONDS, read=0.2))
    # The thread is free again soon, and what was asked is not judged to its end.
    assert asking.post("/check", content=FINE).status_code == 200
    eventually(
        lambda: serving.metric("rollcall_lane_dropped_total", lane="manifests", reason="gone") == 1,
        "the call of the client that went is dropped",
    )
