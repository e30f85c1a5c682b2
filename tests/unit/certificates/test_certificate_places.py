"""The addresses of the servers whose certificates are checked: the hook's URL, or the endpoints of its Service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.cluster.scripted import Script, client, failure, listed
from webhook.certificates.observation import ServerAddress, places_of
from webhook.certificates.renewal import Hook
from webhook.errors import RequestFailed
from webhook.model.reading import Malformed

HOST = "rollcall.rollcall-system.svc"
BEHIND = Hook("pods.mutate.rollcall.dev", b"", HOST, 443, ("rollcall-system", "rollcall"))
PORTS = [{"name": "health", "port": 8081}, {"name": "next", "port": 8444}, {"name": "https", "port": 8443}]


# Of a Service that the role does not name, and of one that is not there.
UNREADABLE = [(403, failure(403, "no")), (404, failure(404, "none"))]


def places(hook: Hook, *slices: Any, service: tuple[int, Any] = UNREADABLE[0]) -> list[ServerAddress]:
    steps = [listed("1", *slices)] if hook.service is None else [service, listed("1", *slices)]
    return asyncio.run(places_of(client(Script(*steps)), hook))


def endpoint_slice(ports: list[dict[str, Any]], *addresses: str, ready: bool = True) -> dict[str, Any]:
    return {"ports": ports, "endpoints": [{"addresses": list(addresses), "conditions": {"ready": ready}}]}


def test_a_url_is_one_address() -> None:
    hook = Hook("pods.mutate.rollcall.dev", b"", "gangs.example", 8443, None)
    assert places(hook) == [ServerAddress("gangs.example", 8443, "gangs.example")]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (PORTS, 8443),
        # By what it is called, where containers listen elsewhere, and in whichever order the slice names ports.
        ([{"name": "health", "port": 8443}, {"name": "https", "port": 9443}], 9443),
        # A Service made by hand: its port by number, else its only port.
        ([{"name": "metrics", "port": 8081}, {"name": "webhook", "port": 8443}], 8443),
        ([{"name": "webhook", "port": 9443}], 9443),
        ([{"port": 9443}], 9443),
        ([], 8443),
    ],
)
@pytest.mark.parametrize("service", UNREADABLE, ids=["forbidden", "not there"])
def test_without_the_service_the_default_admission_port_is_used(
    ports: list[dict[str, Any]], expected: int, service: tuple[int, Any]
) -> None:
    assert places(BEHIND, endpoint_slice(ports, "10.0.0.1"), service=service) == [
        ServerAddress("10.0.0.1", expected, HOST)
    ]


def leading_to(*ports: dict[str, Any]) -> tuple[int, Any]:
    """A Service with these ports, among others."""
    return 200, {"spec": {"ports": [{"name": "health", "port": 8081}, *ports]}}


WEBHOOK = {"name": "webhook", "port": 443}
OF_SERVICE: dict[str, tuple[tuple[int, Any], list[dict[str, Any]], int, str]] = {
    "by its name": (leading_to(WEBHOOK), [*PORTS, {"name": "webhook", "port": 9443}], 9443, ""),
    "none of that name": (leading_to(WEBHOOK), PORTS, 0, "it has no port webhook of the Service"),
    "none at all": (leading_to(WEBHOOK), [], 0, "it has no port webhook of the Service"),
    "the only one, without a name": (
        (200, {"spec": {"ports": [{"port": 443}]}}),
        [{"name": "", "port": 9443}],
        9443,
        "",
    ),
    "a Service without that port": (leading_to(), PORTS, 0, "the Service has no port 443"),
}


@pytest.mark.parametrize(("service", "ports", "port", "trouble"), OF_SERVICE.values(), ids=OF_SERVICE)
def test_the_target_port_of_the_service_is_used(
    service: tuple[int, Any], ports: list[dict[str, Any]], port: int, trouble: str
) -> None:
    found = places(BEHIND, endpoint_slice(ports, "10.0.0.1"), service=service)
    assert found == [ServerAddress("10.0.0.1", port, HOST, trouble=trouble)]


def test_a_service_with_a_failed_read_hides_no_server() -> None:
    with pytest.raises(RequestFailed):
        places(BEHIND, endpoint_slice(PORTS, "10.0.0.1"), service=(500, failure(500, "no space left")))


def test_every_address_is_checked_even_if_not_ready() -> None:
    found = places(
        BEHIND, endpoint_slice(PORTS, "10.0.0.1", "10.0.0.2"), endpoint_slice(PORTS, "10.0.0.1", ready=False)
    )
    assert found == [
        ServerAddress("10.0.0.1", 8443, HOST),
        ServerAddress("10.0.0.2", 8443, HOST),
        ServerAddress("10.0.0.1", 8443, HOST, ready=False),
    ]


def test_an_unreadable_slice_hides_no_server() -> None:
    with pytest.raises(Malformed):
        places(BEHIND, "10.0.0.1")
