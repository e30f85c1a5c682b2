"""All metrics: the page lists them, each has a test, and those of both processes change."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from tests.played import PlayedLoop
from tests.unit.cluster.scripted import client
from tests.unit.cluster.world import World
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import GANGS, running
from tests.unit.reconciler.running_reconciler import world as gangs
from tests.unit.server.conftest import Call, body, refused, review
from tests.unit.worlds import gang_pod
from tests.waiting import turns, until
from webhook.cli.metric_reference import metrics_of, reference, reference_settings
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.process_metrics import LOOK_SECONDS, CacheCollector, Exposition
from webhook.model.projections import NAMESPACES, POD_CLIQUE_SETS
from webhook.server.state import ServerState
from webhook.validators.examples import job, pod_clique_set, pod_template

CHECKOUT = Path(__file__).parents[3]
SETS = "/apis/grove.io/v1alpha1/podcliquesets"


def test_the_metrics_page_in_the_documentation_is_up_to_date() -> None:
    made = reference(metrics_of(reference_settings()))
    page = CHECKOUT / "docs" / "reference" / "metrics.md"
    assert page.read_text() == made, "run: scripts/reference"


def test_every_metric_has_a_test() -> None:
    tests = "\n".join(file.read_text() for file in (CHECKOUT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"\b(?:rollcall|process)_[a-z_]+[a-z]\b", tests))
    for process, families in metrics_of(reference_settings()).items():
        untested = [one.name for one in families if not {one.name, f"{one.name}_count", f"{one.name}_sum"} & named]
        assert untested == [], f"of {process}"


def test_every_label_is_bounded_and_has_its_values_from_the_start() -> None:
    for families in metrics_of(reference_settings()).values():
        for family in families:
            assert all(family.labels.values()), family.name
            assert family.help.endswith("."), family.name
    server, reconciler = (
        {one.name: one.labels for one in families} for families in metrics_of(reference_settings()).values()
    )
    schedulers = {"default-scheduler", "koord-scheduler", "volcano", "kai-scheduler", "lpx-scheduler"}
    assert set(server["rollcall_admission_decisions_total"]["backend"]) >= {*schedulers, "other", "none"}
    assert set(reconciler["rollcall_gangs"]["scheduler"]) >= {*schedulers, "other"}
    assert reconciler["rollcall_topology_problems"]["scheduler"] == ("kai-scheduler", "koord-scheduler", "volcano")
    assert reconciler["rollcall_writes_total"] == {
        "kind": (
            "AdmissionCheck",
            "ClusterNetworkTopology",
            "CompositePodGroup",
            "ConfigMap",
            "HyperNode",
            "MutatingWebhookConfiguration",
            "Pod",
            "PodCliqueSet",
            "PodGang",
            "PodGroup",
            "Report",
            "Secret",
            "Topology",
            "ValidatingWebhookConfiguration",
            "Workload",
        ),
        "action": (
            "activate",
            "annotate",
            "answer",
            "apply",
            "condition",
            "create",
            "delete",
            "disown",
            "release",
            "replace",
            "trigger",
            "ungate",
            "wake",
        ),
    }


def ask(state: ServerState, asked: dict[str, Any], path: str = "/validate") -> dict[str, Any]:
    made = Call(body(asked), path=path).answered_by(state)
    assert made.status == 200
    return dict(json.loads(made.text)["response"])


def test_a_verdict_is_counted_by_its_scheduler(state: ServerState) -> None:
    def counted(**labels: str) -> float | None:
        return state.metrics.registry.get_sample_value("rollcall_admission_decisions_total", labels)

    ask(state, review())
    ask(state, refused())
    ask(state, review(), "/mutate")
    # A name that a user wrote must not become a label.
    labels = {"rollcall.dev/scheduler": "no-such-scheduler"}
    ask(state, review(pod_clique_set(labels=labels)))
    # Deletions are for no scheduler to judge.
    ask(state, review(operation="DELETE"))
    assert counted(endpoint="validate", decision="allowed", backend="koord-scheduler") == 1
    assert counted(endpoint="validate", decision="denied", backend="koord-scheduler") == 1
    assert counted(endpoint="mutate", decision="patched", backend="koord-scheduler") == 1
    assert counted(endpoint="validate", decision="denied", backend="other") == 1
    assert counted(endpoint="validate", decision="allowed", backend="none") == 1
    assert "no-such-scheduler" not in state.metrics.expose().decode()


def test_a_new_workload_that_opts_out_is_counted_once(state: ServerState) -> None:
    state.settings = replace(state.settings, opt_out=True)

    def counted() -> float | None:
        return state.metrics.registry.get_sample_value("rollcall_opted_out_workloads_total", {"kind": "Job"})

    assert counted() == 0
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    out, gang = (
        job(scheduler="none"),
        job(scheduler="none", template=pod_template({"schedulerName": "koord-scheduler"})),
    )
    ask(state, review(out, kind=kind), "/mutate")
    assert ask(state, review(out, kind=kind))["allowed"]
    ask(state, review(out, kind=kind, oldObject=out, operation="UPDATE"))
    assert not ask(state, review(gang, kind=kind))["allowed"]
    assert counted() == 1


def test_a_forged_request_of_a_set_that_opts_out_is_answered(state: ServerState) -> None:
    """No API server sends an old object at CREATE."""
    out = pod_clique_set(labels={"rollcall.dev/scheduler": "none"})
    assert "allowed" in ask(state, review(pod_clique_set(), oldObject=out))


def test_the_size_of_a_patch_is_measured_as_json(state: ServerState) -> None:
    sample = state.metrics.registry.get_sample_value
    written = [b64decode(ask(state, asked, "/mutate")["patch"]) for asked in (review(), review(gang_pod()))]
    ask(state, review(operation="DELETE"), "/mutate")
    assert sample("rollcall_patch_bytes_sum") == sum(map(len, written))
    assert sample("rollcall_patch_bytes_count") == 2


async def test_the_process_and_its_event_loop_are_measured() -> None:
    exposed = Exposition()
    sample = exposed.registry.get_sample_value

    loop = asyncio.get_running_loop()
    assert isinstance(loop, PlayedLoop)
    looking = asyncio.create_task(exposed.run())
    await turns()
    # Whatever keeps the loop from coming round.
    loop.advance(LOOK_SECONDS + 0.35)
    await until(lambda: sample("rollcall_event_loop_lag_seconds_count"))
    looking.cancel()
    assert sample("rollcall_event_loop_lag_seconds_sum") == pytest.approx(0.35)
    assert (sample("process_resident_memory_bytes") or 0) > 10_000_000
    assert (sample("process_virtual_memory_bytes") or 0) > 10_000_000
    assert 0 < (sample("process_open_fds") or 0) < (sample("process_max_fds") or 0)
    assert (sample("process_cpu_seconds_total") or 0) > 0
    assert (sample("process_start_time_seconds") or 0) > 1_500_000_000
    assert b"_created" not in exposed.expose()


async def test_the_age_of_a_cache_grows_until_the_api_server_sends_anything() -> None:
    world = World(POD_CLIQUE_SETS.resource)
    live = LiveFacts(client(world), (), lambda _: None, general=(NAMESPACES, POD_CLIQUE_SETS))
    registry = CollectorRegistry()
    registry.register(CacheCollector(live))

    def sample(name: str) -> float:
        found = registry.get_sample_value(name, {"group": "grove.io", "kind": "PodCliqueSet"})
        assert found is not None
        return found

    def later(seconds: float) -> None:
        live.watches[POD_CLIQUE_SETS].heard -= seconds
        assert sample("rollcall_cache_age_seconds") >= seconds

    assert sample("rollcall_cache_age_seconds") == 0, "it is not served, as far as is known"
    task = asyncio.create_task(live.run())
    await until(lambda: POD_CLIQUE_SETS in live.watches and live.watches[POD_CLIQUE_SETS].filled)
    assert sample("rollcall_cache_lists_total") == 1
    assert sample("rollcall_cache_objects") == 0
    later(900)
    world.put(SETS, {"metadata": {"name": "demo", "namespace": "default", "labels": {}}})
    await until(lambda: sample("rollcall_cache_objects") == 1)
    assert sample("rollcall_cache_age_seconds") < 100
    assert sample("rollcall_cache_left_out") == 0
    world.put(SETS, {"metadata": {"name": "other", "namespace": "default", "labels": "none"}})
    await until(lambda: sample("rollcall_cache_left_out") == 1)
    assert sample("rollcall_cache_objects") == 1
    later(900)
    world.tell(SETS, "BOOKMARK", {"metadata": {"resourceVersion": "1"}})
    await until(lambda: sample("rollcall_cache_age_seconds") < 100)
    assert sample("rollcall_cache_failing") == 0
    assert registry.get_sample_value("rollcall_cache_failing", {"group": "", "kind": "discovery"}) == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_reconciler_s_caches_are_counted_including_the_written_kinds() -> None:
    cluster: WritableWorld = gangs("demo-0-a")
    async with running(cluster) as found:

        def objects(group: str, kind: str) -> float | None:
            labels = {"group": group, "kind": kind}
            return found.metrics.registry.get_sample_value("rollcall_cache_objects", labels)

        assert objects("scheduling.sigs.k8s.io", "PodGroup") == 0
        assert objects("", "Pod") == 0
        await until(lambda: objects("scheduling.sigs.k8s.io", "PodGroup") == 1)
        assert objects("scheduler.grove.io", "PodGang") == 1
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: objects("scheduler.grove.io", "PodGang") == 0)


async def test_gangs_that_wait_for_a_retry_are_counted_in_the_queue() -> None:
    cluster: WritableWorld = gangs("demo-0-a")
    cluster.answering = lambda _: httpx.Response(500, json={"message": "etcd is away"})
    async with running(cluster) as found:
        depth = partial(found.metrics.registry.get_sample_value, "rollcall_queue_depth")
        assert depth() == 0
        await until(lambda: depth() == 1)
        cluster.answering = lambda _: None
        await until(lambda: found.idle)
        await until(lambda: depth() == 0)


async def test_live_reads_are_counted_by_result() -> None:
    world = World(POD_CLIQUE_SETS.resource)
    world.put(f"{SETS.rpartition('/')[0]}/namespaces/default/podcliquesets", {"metadata": {"name": "demo"}})
    live = LiveFacts(client(world), (), lambda _: None)
    registry = CollectorRegistry()
    registry.register(CacheCollector(live))
    from webhook.errors import FactsUnavailable
    from webhook.model.keys import Needed

    async def read(name: str) -> None:
        await live.lookup.find([Needed("pod_clique_sets", ("default", name))], 5)

    await read("demo")
    await read("other")
    world.failing = OSError("no route")
    with pytest.raises(FactsUnavailable):
        await read("demo")
    for outcome in ("found", "absent", "failed"):
        assert registry.get_sample_value("rollcall_lookups_total", {"outcome": outcome}) == 1
