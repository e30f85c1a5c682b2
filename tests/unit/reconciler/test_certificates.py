"""The certificate controller against a simulated API: its reads, writes, waits and events."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.played import START, PlayedClock
from tests.texts import Text
from tests.unit.certificates.certificate_world import NAMESPACE, NOW, SETTINGS
from tests.unit.reconciler.certificate_api import CONFIGURATIONS, SECRETS, CertificateApi
from tests.unit.reconciler.certificate_keeper import IMMEDIATE, keeping
from tests.waiting import until
from webhook.certificates.x509 import read_certificates
from webhook.reconciler.certificates import PATIENCE_SECONDS
from webhook.reconciler.metrics import ReconcilerMetrics

FIRST = [
    "POST secrets",
    "PATCH m-rollcall",
    "PATCH m-rollcall",
    "PATCH v-rollcall",
    "PATCH v-rollcall",
    "POST secrets",
]
ROTATION = [
    "PUT rollcall-ca",
    *FIRST[1:5],
    "PUT rollcall-tls",
    "PUT rollcall-tls",
    "PUT rollcall-ca",
    *FIRST[1:5],
]


async def test_everything_is_created_once_and_then_neither_read_nor_written(api: CertificateApi) -> None:
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        assert api.writes == FIRST
        await until(lambda: kept.resting)
        reads, rounds = len(api.reads), kept.rounds
        kept.controller.wake()
        await until(lambda: kept.rounds > rounds and kept.resting)
        # One round after a change, with one read of each of the four objects.
        assert (kept.rounds, len(api.reads), api.writes) == (rounds + 1, reads + 4, FIRST)
    assert api.objects[f"{SECRETS}/rollcall-tls"]["type"] == "kubernetes.io/tls"
    assert sorted(api.data("rollcall-tls")) == ["ca.crt", "tls.crt", "tls.key"]
    assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]}
    for path in CONFIGURATIONS.values():
        metadata = api.objects[path]["metadata"]
        assert metadata["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Namespace", "name": NAMESPACE, "uid": "of the namespace"}
        ]
        assert metadata["managedFields"] == [{"manager": "kubectl", "operation": "Apply"}]
    assert kept.metric("rollcall_ca_bundle_writes_total") == 2
    assert kept.metric("rollcall_ca_expiry_timestamp_seconds", ca="current") == (NOW + timedelta(days=365)).timestamp()
    assert kept.metric("rollcall_ca_expiry_timestamp_seconds", ca="next") == 0
    assert kept.metric("rollcall_leaf_expiry_timestamp_seconds") == (NOW + timedelta(days=30)).timestamp()
    assert kept.metric("rollcall_rotations_total", what="leaf") == 0


async def test_a_rotation_annotation_is_obeyed_once_and_removed(api: CertificateApi) -> None:
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        api.writes.clear()
        kept.ask_for("rollcall-tls")
        await api.changed()
        await until(lambda: kept.metric("rollcall_rotations_total", what="leaf") == 1)
        await until(lambda: kept.at("none"))
        assert api.writes == ["PUT rollcall-tls"]
        assert api.objects[f"{SECRETS}/rollcall-tls"]["metadata"]["annotations"] == {}


async def test_an_authority_is_rotated_with_twelve_writes(api: CertificateApi) -> None:
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        before = api.data("rollcall-ca")["ca.crt"]
        api.writes.clear()
        kept.ask_for("rollcall-ca")
        await api.changed()
        await until(lambda: kept.metric("rollcall_rotations_total", what="ca") == 1 and kept.at("none"))
        assert api.writes == ROTATION
        assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]} != {before}
    # Each configuration has its own label.
    assert [probe["metadata"]["labels"] for probe in api.probes[:2]] == [
        {"rollcall.dev/next-certificate": "mutate"},
        {"rollcall.dev/next-certificate": "validate"},
    ]


async def test_the_switch_waits_until_the_api_server_has_trusted_for_the_overlap(api: CertificateApi) -> None:
    api.proving = False
    async with keeping(api, replace(SETTINGS, overlap=timedelta(seconds=0.3))) as kept:
        await until(lambda: kept.at("none"))
        kept.ask_for("rollcall-ca")
        await api.changed()
        await until(lambda: len(api.probes) > 5)
        assert kept.at("proof")
        api.proving = True
        begun = asyncio.get_running_loop().time()
        await until(lambda: not kept.at("proof"))
        assert asyncio.get_running_loop().time() - begun >= 0.3


async def test_a_rotation_that_waits_long_reports_the_reason(api: CertificateApi) -> None:
    clock = PlayedClock()
    # Registered by a release that did not have it yet.
    for path in CONFIGURATIONS.values():
        api.objects[path]["webhooks"].pop()
    async with keeping(api, IMMEDIATE, clock) as kept:
        await until(lambda: kept.at("none"))
        kept.ask_for("rollcall-ca")
        await api.changed()
        await until(lambda: kept.at("proof"))
        clock.move(PATIENCE_SECONDS)
        await until(lambda: api.events)
    (event,) = api.events
    assert (event["reason"], event["regarding"]["kind"], event["regarding"]["name"]) == (
        "CertificateRotationWaits",
        "Secret",
        "rollcall-tls",
    )
    assert event["note"] == Text("m-rollcall", "next.mutate.rollcall.dev; ", "manifests webhooks`")


async def test_a_lost_secret_is_counted_and_reported_once(api: CertificateApi) -> None:
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        before = api.data("rollcall-ca")["ca.crt"]
        api.objects[f"{SECRETS}/rollcall-ca"]["data"]["ca.key"] = "bm90aGluZw=="
        await api.changed()
        await until(lambda: kept.metric("rollcall_rotations_total", what="ca") == 1 and kept.at("none"))
    assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]} != {before}
    assert kept.metric("rollcall_certificate_repairs_total", what="ca") == 1
    (event,) = api.events
    assert event["reason"] == "CertificateReplaced"
    assert "ca.crt and ca.key: the key" in event["note"]
    assert "bm90aGluZw" not in event["note"]


async def test_a_missing_configuration_is_not_written_until_it_exists(api: CertificateApi) -> None:
    for path in CONFIGURATIONS.values():
        del api.objects[path]
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        assert api.writes == ["POST secrets", "POST secrets"]
        api.register("v-rollcall")
        await api.changed()
        await until(lambda: api.bundles() == {api.data("rollcall-ca")["ca.crt"]})
    assert CONFIGURATIONS["m-rollcall"] not in api.objects


async def test_a_process_without_the_lease_writes_nothing_and_starts_when_it_leads(api: CertificateApi) -> None:
    async with keeping(api) as kept:
        kept.leading = False
        await until(lambda: bool(kept.rests))
        assert api.writes == []
        kept.leading = True
        kept.controller.wake()
        await until(lambda: kept.at("none"))
        assert api.writes == FIRST


async def test_two_processes_that_both_lead_create_one_authority(api: CertificateApi) -> None:
    async with keeping(api) as first, keeping(api) as second:
        await until(lambda: first.at("none") and second.at("none"))
        await until(lambda: first.resting and second.resting)
        assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]}
        (authority,) = read_certificates(api.data("rollcall-ca")["ca.crt"])
        read_certificates(api.data("rollcall-tls")["tls.crt"])[0].verify_directly_issued_by(authority)


async def test_a_refused_write_is_reported_and_retried(api: CertificateApi) -> None:
    api.refusing["v-rollcall"] = (403, "no right to patch")
    async with keeping(api) as kept:
        await until(lambda: kept.metric("rollcall_certificate_failures_total") > 2)
        assert api.events[0]["reason"] == "CertificateNotWritten"
        assert "no right to patch" in api.events[0]["note"]
        api.refusing.clear()
        await until(lambda: kept.at("none"))
    assert len(api.bundles()) == 1


async def test_the_clock_of_the_api_server_is_used(api: CertificateApi) -> None:
    # A hundred years from the clock of this machine.
    api.now = START + timedelta(days=36_500)
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        (authority,) = read_certificates(api.data("rollcall-ca")["ca.crt"])
        assert authority.not_valid_after_utc == api.now + timedelta(days=365)
        writes, rounds = len(api.writes), kept.rounds
        kept.controller.wake()
        await until(lambda: kept.rounds > rounds and kept.resting)
        assert len(api.writes) == writes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[bytes, bytes], Any]]:
    """Serve a pair on a free port: `await server(certificate, key)` gives the asyncio server."""

    async def serving(certificate: bytes, key: bytes) -> asyncio.Server:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (tmp_path / "pair").write_bytes(certificate + key)
        tls.load_cert_chain(tmp_path / "pair")
        return await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)

    return serving  # type: ignore[return-value]


@pytest.mark.parametrize(("ready", "waits"), [(True, True), (False, True), (None, False)])
async def test_the_old_authority_is_kept_while_an_endpoint_presents_its_certificate(
    api: CertificateApi, server: Callable[[bytes, bytes], Any], ready: bool | None, waits: bool
) -> None:
    """Also one that is not ready, as it may be soon; one that does not answer and is not ready does not count."""

    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        old = api.data("rollcall-tls")
        listening = await server(old["tls.crt"], old["tls.key"])
        port = listening.sockets[0].getsockname()[1]
        if ready is None:
            listening.close()
        conditions = {"ready": bool(ready)}
        endpoints = [{"addresses": ["127.0.0.1"], "conditions": conditions}]
        # A Service has several slices once it has many endpoints, or addresses of two families.
        api.slices = [{"ports": [], "endpoints": []}, {"ports": [{"port": port}], "endpoints": endpoints}]
        kept.ask_for("rollcall-ca")
        await api.changed()
        if waits:
            await until(lambda: kept.at("served"))
            looks = api.looks
            await until(lambda: api.looks > looks + 10)
            assert kept.at("served")
            assert len(read_certificates(next(iter(api.bundles())))) == 2
            listening.close()
            new = api.data("rollcall-tls")
            listening = await server(new["tls.crt"], new["tls.key"])
            api.slices[1]["ports"][0]["port"] = listening.sockets[0].getsockname()[1]
        await until(lambda: kept.metric("rollcall_rotations_total", what="ca") == 1)
        listening.close()


async def test_the_rotation_waits_for_an_endpoint_without_the_service_port(
    api: CertificateApi, server: Callable[[bytes, bytes], Any]
) -> None:
    """The API server does not call it, and its certificate is unknown: it may be called again at any moment."""

    service = f"/api/v1/namespaces/{NAMESPACE}/services/rollcall"
    api.objects[service] = {"spec": {"ports": [{"name": "https", "port": 443}]}}
    health = {"name": "health", "port": 1}
    api.slices = [{"ports": [health], "endpoints": [{"addresses": ["127.0.0.1"]}]}]
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
        kept.ask_for("rollcall-ca")
        await api.changed()
        await until(lambda: kept.at("served"))
        looks = api.looks
        await until(lambda: api.looks > looks + 10)
        assert kept.at("served")
        new = api.data("rollcall-tls")
        listening = await server(new["tls.crt"], new["tls.key"])
        # Slices have their ports in no order.
        api.slices[0]["ports"].append({"name": "https", "port": listening.sockets[0].getsockname()[1]})
        await until(lambda: kept.metric("rollcall_rotations_total", what="ca") == 1)
        listening.close()


def test_every_series_exists_before_its_first_event() -> None:
    shown = ReconcilerMetrics().expose().decode()
    for series in (
        'rollcall_ca_expiry_timestamp_seconds{ca="current"} 0.0',
        'rollcall_ca_expiry_timestamp_seconds{ca="next"} 0.0',
        "rollcall_leaf_expiry_timestamp_seconds 0.0",
        'rollcall_rotation_step{step="none"} 0.0',
        'rollcall_rotation_step{step="proof"} 0.0',
        'rollcall_rotations_total{what="ca"} 0.0',
        'rollcall_rotations_total{what="leaf"} 0.0',
        'rollcall_certificate_repairs_total{what="ca"} 0.0',
        "rollcall_ca_bundle_writes_total 0.0",
        "rollcall_certificate_failures_total 0.0",
        'rollcall_events_total{reason="CertificateRotationWaits"} 0.0',
    ):
        assert series in shown
