"""Self-managed certificates in any order of events: the server is trusted, whenever a process receives an update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.certificates.certificate_world import ROTATION, CertificateWorld, current, lose_authority
from webhook.certificates.x509 import issued_by, read_pair

PARTIES = ("m-rollcall", "v-rollcall", "server")
# What may come in between, most often nothing.
NOTHING, CRASH, ASK, RENEW = "", "crash", "ask", "renew"
DISASTERS = ("lose authority", "lose certificate", "garble next", "garble key")


def happens(world: CertificateWorld, event: str) -> None:
    """One thing of many that may happen next."""
    things: dict[str, Callable[[], object]] = {
        NOTHING: lambda: None,
        CRASH: world.crashes,
        ASK: lambda: world.asked.add("ca"),
        RENEW: lambda: world.asked.add("leaf"),
        "lose authority": lambda: lose_authority(world),
        "lose certificate": lambda: lose_certificate(world),
        "garble next": lambda: spoil(world, "next.key"),
        "garble key": lambda: spoil(world, "ca.key"),
    }
    things[event]()


def lose_certificate(world: CertificateWorld) -> None:
    world.serving = None


def spoil(world: CertificateWorld, key: str) -> None:
    if world.authority is not None and key in world.authority:
        world.authority[key] = b"?"


def rounds(*besides: str) -> st.SearchStrategy[list[tuple[frozenset[str], str]]]:
    """Who hears of what there is, and what else happens, before each step."""
    events = st.sampled_from((*[NOTHING] * 6, CRASH, ASK, RENEW, *besides))
    return st.lists(st.tuples(st.frozensets(st.sampled_from(PARTIES)), events), min_size=10, max_size=50)


EXAMPLES = (5, pytest.param(25, marks=pytest.mark.exhaustive))


@pytest.mark.parametrize("examples", EXAMPLES)
def test_the_server_is_trusted_at_every_moment_whatever_the_order_of_updates(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(rounds())(unbroken))()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_the_server_is_trusted_even_if_secrets_are_lost_or_damaged(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(rounds(*DISASTERS))(unbroken))()


@pytest.mark.parametrize(
    "deaf", [pytest.param(party, marks=pytest.mark.exhaustive) for party in PARTIES[:-1]] + ["server"]
)
def test_the_rotation_waits_for_a_process_that_misses_updates(deaf: str) -> None:
    for write in range(len(ROTATION)):
        world = CertificateWorld()
        world.settle()
        world.asked = {"ca"}
        world.writes.clear()
        for _ in range(25):
            for party in PARTIES:
                if party != deaf or len(world.writes) < write:
                    hears(world, party)
            world.look()
            assert world.serves, f"{deaf} has heard of nothing since write {write}; then {world.writes}"
            world.step()
        world.settle()
        assert world.serves


def hears(world: CertificateWorld, party: str) -> None:
    if party == "server":
        world.server_hears()
    else:
        world.api_server_hears(party)


def unbroken(told: list[tuple[frozenset[str], str]]) -> None:
    world = CertificateWorld()
    world.settle()
    world.asked = {"ca"}
    for parties, event in told:
        # Separately: processes may receive updates in another order than the writes.
        for party in sorted(parties):
            hears(world, party)
            assert world.serves, f"after {party} heard, and {world.writes}"
        world.look()
        happens(world, event)
        world.step()
        assert world.serves, f"after {event}, and {world.writes}"
    world.settle()
    assert world.serves
    assert set(world.bundles.values()) == {current(world)}
    assert world.authority is not None
    assert world.serving is not None
    pair = read_pair(world.serving["tls.crt"], world.serving["tls.key"])
    assert issued_by(pair.certificate, read_pair(current(world), world.authority["ca.key"]).certificate)
    assert world.settle() == []
