"""The reported cause when an API server gets no answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.texts import Text
from webhook.model.reading import Manifest
from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import examine, installed
from webhook.operations.snapshot import ENDPOINT_SLICES, DryRunAnswer, Snapshot, Unread
from webhook.operations.webhook_checks import cause_of

CALL = 'Post "https://rollcall.rollcall-system.svc:443/mutate?timeout=5s"'
FAILED = 'failed calling webhook "x.rollcall.dev"'
UNKNOWN = Text("cannot reach Rollcall")


def on(port: int) -> Snapshot:
    """An installation whose two servers listen there, and are ready."""

    def listening(raw: Manifest) -> None:
        if raw["kind"] == "EndpointSlice":
            raw["ports"][0]["port"] = port

    return installed(changed=listening)


def told(message: str, snapshot: Snapshot) -> tuple[str, str]:
    """Why, and what to do."""
    found = cause_of(f"{FAILED}: {message}", snapshot)
    return found.why, found.remedy


@pytest.mark.parametrize(
    "said",
    [
        f"{CALL}: context deadline exceeded",
        f"{CALL}: net/http: request canceled while waiting for connection (Client.Timeout exceeded)",
        f"{CALL}: dial tcp 10.0.0.1:10443: i/o timeout",
        f"{CALL}: dial tcp 10.0.0.1:10443: connect: no route to host",
        f"{CALL}: dial tcp [fd00::1]:10443: connect: network is unreachable",
        f"{CALL}: Address is not allowed",
    ],
)
def test_a_timeout_with_ready_servers_means_that_pods_are_unreachable(said: str) -> None:
    why, remedy = told(said, on(10443))
    assert why == Text("2 servers are ready", "no answer")
    assert remedy == Text("port 10443", "--host-network", "docs/how-to/managed-clusters.md")


def test_a_refused_connection_means_that_ports_may_differ() -> None:
    why, remedy = told(f"{CALL}: dial tcp 10.0.0.1:8443: connect: connection refused", on(8443))
    assert why == Text("2 servers are ready", "no server listens")
    assert remedy == Text("targetPort", "port 8443", "--host-network")


# What the API server says, and a part of the cause or of what to do.
OTHERS = {
    'no endpoints available for service "rollcall"': "no server behind",
    f"{CALL}: tls: x509: unknown authority": "rollcall certs verify",
    f"{CALL}: No agent available": "konnectivity-agent",
    f"{CALL}: EOF": "--client-ca",
    f"{CALL}: remote error: tls: certificate required": "--client-ca",
    "the server is currently unable to handle the request": UNKNOWN,
}


@pytest.mark.parametrize(("said", "part"), OTHERS.items(), ids=OTHERS)
def test_other_errors_of_the_api_server_have_their_own_causes(said: str, part: str) -> None:
    assert " ".join(told(said, installed())) == Text(part)


def test_the_network_is_not_blamed_without_a_ready_server() -> None:
    def unready(raw: Manifest) -> None:
        for endpoint in raw.get("endpoints", ()):
            endpoint["conditions"]["ready"] = False

    seen = installed()
    blind = replace(seen, parts={**seen.parts, ENDPOINT_SLICES: Unread("the EndpointSlice objects", "HTTP 403")})
    for snapshot in (installed(changed=unready), blind):
        for said in ("context deadline exceeded", "connect: connection refused"):
            assert told(f"{CALL}: {said}", snapshot)[0] == UNKNOWN


def test_an_external_server_is_named_by_its_url() -> None:
    def by_url(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"] = {"url": "https://rollcall.example.com:8443/mutate"}

    _, remedy = told("context deadline exceeded", installed(changed=by_url))
    assert remedy == Text("https://rollcall.example.com:8443")


def test_the_check_quotes_the_api_server_and_names_the_cause() -> None:
    message = f"HTTP 500: Internal error occurred: {FAILED}: {CALL}: context deadline exceeded"
    checks = [check for check in EVERY_CHECK if check.id == "webhooks/answered"]
    (found,) = examine(replace(on(8443), refusal=DryRunAnswer(None, message)), checks).problems
    assert found.symptom.observation == message
    assert "docs/how-to/managed-clusters.md" in found.symptom.remedy
