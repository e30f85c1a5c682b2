"""Where the servers are whose certificates are looked at: by the hook's URL, or behind its Service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.scripted import Script, client, listed
from webhook.model.reading import Malformed
from webhook.reconciler.certificate_seeing import Place, places_of
from webhook.reconciler.certificate_state import Hook

HOST = "rollcall.rollcall-system.svc"
BEHIND = Hook("pods.mutate.rollcall.dev", b"", HOST, 443, ("rollcall-system", "rollcall"))
PORTS = [{"name": "health", "port": 8081}, {"name": "next", "port": 8444}, {"name": "https", "port": 8443}]


def places(hook: Hook, *slices: Any) -> list[Place]:
    return asyncio.run(places_of(client(Script(listed("1", *slices))), hook))


def endpoint_slice(ports: list[dict[str, Any]], *addresses: str, ready: bool = True) -> dict[str, Any]:
    return {"ports": ports, "endpoints": [{"addresses": list(addresses), "conditions": {"ready": ready}}]}


def test_a_url_is_one_place() -> None:
    hook = Hook("pods.mutate.rollcall.dev", b"", "gangs.example", 8443, None)
    assert places(hook) == [Place("gangs.example", 8443, "gangs.example")]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (PORTS, 8443),
        # By what it is called, where containers listen elsewhere, and in whichever order the slice names ports.
        ([{"name": "health", "port": 8443}, {"name": "https", "port": 9443}], 9443),
        # A Service that somebody made: by the number, else the one port that it has.
        ([{"name": "metrics", "port": 8081}, {"name": "webhook", "port": 8443}], 8443),
        ([{"name": "webhook", "port": 9443}], 9443),
        ([{"port": 9443}], 9443),
        ([], 8443),
    ],
)
def test_the_port_is_that_for_admission_reviews(ports: list[dict[str, Any]], expected: int) -> None:
    assert places(BEHIND, endpoint_slice(ports, "10.0.0.1")) == [Place("10.0.0.1", expected, HOST)]


def test_every_address_is_a_place_and_also_those_that_are_not_ready() -> None:
    found = places(
        BEHIND, endpoint_slice(PORTS, "10.0.0.1", "10.0.0.2"), endpoint_slice(PORTS, "10.0.0.1", ready=False)
    )
    assert found == [
        Place("10.0.0.1", 8443, HOST),
        Place("10.0.0.2", 8443, HOST),
        Place("10.0.0.1", 8443, HOST, ready=False),
    ]


def test_a_slice_that_cannot_be_read_hides_nobody() -> None:
    with pytest.raises(Malformed):
        places(BEHIND, "10.0.0.1")
