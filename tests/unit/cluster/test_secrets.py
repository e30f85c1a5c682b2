"""A marker in specs, environment values and annotations never appears in a log, metric, trace or /readyz. The answer to
the sender may contain it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog

from tests.played import PlayedClock
from tests.unit.cluster.receiver import Receiver
from tests.unit.cluster.scripted import client, failure
from tests.unit.cluster.world import World
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import GANGS, SETS, podgang, put_gang, running, workload
from tests.unit.server.conftest import Call, body, review
from tests.unit.worlds import gang_pod, koordinator
from tests.waiting import until
from webhook.cluster import logs
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.spans import started
from webhook.config.settings import Tracing
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Record
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

MARKER = "hunter2"
QUOTA = "scheduling.grove.io/koordinator-quota"


@pytest.fixture
def lines(capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Any]:
    """The log, as a process writes it: a function that gives what was written."""
    before = structlog.get_config()
    logs.configure()
    structlog.configure(cache_logger_on_first_use=False)
    yield lambda: capfdbinary.readouterr().err
    structlog.configure(**before)


def secretive(**fields: Any) -> dict[str, Any]:
    """A workload that has the marker wherever a secret may be."""
    part = clique("worker", requests={"nvidia.com/gpu": "8"})
    container = part["spec"]["podSpec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": MARKER}]
    container["args"] = [f"--password={MARKER}"]
    return pod_clique_set(part, **fields)


def pod() -> dict[str, Any]:
    found = gang_pod(annotations={"example.com/token": MARKER})
    found["spec"]["containers"] = [{"name": "main", "image": "x", "env": [{"name": "TOKEN", "value": MARKER}]}]
    return found


def ask(state: ServerState, asked: Any, path: str = "/validate") -> Call:
    return Call(body(asked), path=path, query="timeout=5s").answered_by(state)


def broken(*_: Any) -> Any:
    raise RuntimeError(f"cannot make anything of {MARKER}")


def test_logs_and_metrics_of_admission_reveal_nothing_of_an_object(receiver: Receiver, lines: Any) -> None:
    allowing = ServerState(koordinator(), NO_FACTS, None)
    failing = ServerState(koordinator(), NO_FACTS, None)
    profile = failing.settings.profiles["koord-scheduler"]
    world = World(POD_CLIQUE_SETS.resource)
    facts = ClusterFacts(pod_clique_sets={("default", "demo"): Record("koord-scheduler")}, elastic_quotas={})
    following = ServerState(koordinator(standalone=False), facts, None)
    following.cluster = LiveFacts(client(world), (), lambda _: None)
    following.metrics.watch(following.cluster)
    with started(Tracing(receiver.endpoint, 1.0), "rollcall"):
        denied = ask(allowing, review(secretive(annotations={"grove.io/mnnvl-group": MARKER})))
        assert MARKER in denied.text, "the answer goes to the sender"
        odd = ask(allowing, review({**secretive(), "spec": {"template": MARKER}}))
        patched = [ask(allowing, review(one), "/mutate") for one in (secretive(), pod())]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(profile.backend, "prepare_pod", broken)
            profile.prepared.clear()
            failed = ask(failing, review(pod()), "/mutate")
        world.failing = httpx.Response(500, content=json.dumps(failure(500, f"no {MARKER}")).encode())
        unread = ask(following, review(secretive(annotations={QUOTA: MARKER})))
        invalid = ask(allowing, f"{{{MARKER}".encode())
    assert [made.status for made in (denied, odd, *patched, failed, unread, invalid)] == [
        200, 200, 200, 200, 500, 500, 400,
    ]  # fmt: skip
    assert {"admission validate", "admission mutate", "look up"} <= {span.name for span in receiver.spans}
    ready = [reason for state in (allowing, failing, following) for reason in state.unready()]
    written = lines()
    assert [json.loads(line)["event"] for line in written.splitlines()] == [
        "denied", "denied", "patched", "patched", "failed", "not decided",
    ]  # fmt: skip
    told = (*(state.metrics.expose() for state in (allowing, failing, following)), *receiver.raw, written)
    for one in (*told, "\n".join(ready).encode()):
        assert MARKER.encode() not in one


def gang_that_is_refused() -> tuple[WritableWorld, bytes]:
    """A workload and its gang with the marker, and an API server that quotes it where it refuses what is written."""
    cluster = WritableWorld()
    made = workload()
    made["metadata"]["annotations"] = {QUOTA: MARKER}
    made["spec"]["template"]["cliques"] = [*secretive()["spec"]["template"]["cliques"], clique("b")]
    cluster.put(SETS, made)
    put_gang(cluster, "demo-0-worker", "demo-0-b")
    cause = {"reason": "FieldValueInvalid", "message": f'Invalid value: "{MARKER}"', "field": "spec.quota"}
    refusal = {
        **failure(422, f'PodGroup "demo-0-b" is invalid: spec.quota: Invalid value: "{MARKER}"'),
        "reason": "Invalid",
        "details": {"kind": "PodGroup", "group": "scheduling.sigs.k8s.io", "causes": [cause]},
    }
    return cluster, json.dumps(refusal).encode()


async def test_logs_and_metrics_of_the_reconciler_reveal_nothing_of_an_object(receiver: Receiver, lines: Any) -> None:
    cluster, refusal = gang_that_is_refused()
    cluster.answering = lambda _: httpx.Response(422, content=refusal)
    exposed: list[bytes] = []

    with started(Tracing(receiver.endpoint, 1.0), "rollcall-reconciler"):
        async with running(cluster) as found:
            await until(lambda: len(cluster.writes) > 3 and cluster.events)
            # Of a clique that has a topology that koord-scheduler cannot honour.
            constraint = {"packConstraint": {"required": MARKER}}
            gang = podgang("demo-0-worker", "demo-0-b")
            group = {"name": "g", "podGroupNames": ["demo-0-b"], "topologyConstraint": constraint}
            gang["spec"]["topologyConstraintGroupConfigs"] = [group]
            cluster.apply(GANGS, gang)
            await until(lambda: any(one["reason"] == "GangInexpressible" for one in cluster.events))
            exposed.extend([found.metrics.expose(), "\n".join(found.unready()).encode()])
    assert any(MARKER in event["note"] for event in cluster.events), "the event is where the object is"
    written = lines()
    events = {json.loads(line)["event"]: json.loads(line) for line in written.splitlines()}
    assert events["not reconciled"]["why"] == "HTTP 422: Invalid scheduling.sigs.k8s.io PodGroup spec.quota"
    assert events["told"].keys() >= {"reason", "kind", "name", "namespace"}
    for one in (*exposed, *receiver.raw, written):
        assert MARKER.encode() not in one


def test_an_internal_error_is_logged_by_its_place_in_the_code(lines: Any) -> None:
    try:
        try:
            broken()
        except RuntimeError as error:
            raise ValueError(MARKER) from error
    except ValueError:
        logs.log.exception("failed")
    line = json.loads(lines())
    assert line["exception"].splitlines()[-1] == "ValueError"
    assert "RuntimeError\nand then:\n" in line["exception"]
    assert "in broken" in line["exception"]
    assert MARKER not in line["exception"].replace('raise RuntimeError(f"cannot make anything of {MARKER}")', "")


def test_a_log_record_of_a_library_becomes_one_line_without_its_traceback(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    # Whatever it said in another test.
    monkeypatch.setattr(logs, "LIBRARY_SECONDS", 0.0)
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task exception=%r>", MARKER)
    try:
        broken()
    except RuntimeError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    first, second = map(json.loads, lines().splitlines())
    assert (first["library"], first["why"]) == ("asyncio", "Task exception was never retrieved")
    assert (second["event"], second["library"]) == ("error in a library", "uvicorn.error")
    assert second["exception"].endswith("RuntimeError")


def test_a_library_writes_at_most_a_line_a_second_for_each_level(lines: Any) -> None:
    import logging

    clock = PlayedClock()
    handler = logs._Libraries(clock=clock)

    def write(level: int, times: int) -> None:
        for _ in range(times):
            handler.emit(logging.LogRecord("uvicorn.error", level, __file__, 1, "Invalid HTTP request", (), None))

    write(logging.WARNING, 5)
    write(logging.ERROR, 1)
    clock.move(logs.LIBRARY_SECONDS)
    write(logging.WARNING, 2)
    written = [json.loads(line) for line in lines().splitlines()]
    assert [(line["library"], line.get("leftOut")) for line in written] == [
        ("uvicorn.error", None), ("uvicorn.error", None), ("uvicorn.error", 4),
    ]  # fmt: skip
