"""No admission is lost: 200 a second through a real API server for two minutes, while replicas, certificates and
authorities change. The ledger is printed. Admissions on a replica that is killed or hangs are counted separately: no
other replica can answer them, and the API server sends each once.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import pytest

from tests.e2e.background import Background
from tests.e2e.balancer import Balancer, How
from tests.e2e.certificate_story import SECRETS
from tests.e2e.conftest import KOORDINATOR, until_asked
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove
from tests.e2e.kept_certificates import KeptCertificates, ReconcilersCertificates
from tests.e2e.ledger import Ledger, kept
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.replicas import Files, Replicas
from tests.e2e.workloads import two_cliques
from webhook.installation.names import CA_SECRET, TLS_SECRET

pytestmark = [pytest.mark.soak, pytest.mark.alone]


RATE, ADMISSIONS = 200, 200 * 120
# Short, so that all of it has room in two minutes: connections are renewed several times, and a drain is somewhat
# longer than the balancer takes to remove a replica.
CONFIG: Manifest = {**KOORDINATOR, "serving": {"drainSeconds": 6, "connectionSeconds": 20}}
SELF_MANAGED: Manifest = {**CONFIG, "certificates": {"mode": "selfManaged", "overlapSeconds": 2}}
# What the webhook configurations say of how long the API server waits, and a second.
PATIENCE_SECONDS = 6.0
# What an API server on a busy machine may take to read that a connection has ended.
READING_SECONDS = 1.0


class Certificates(Files, Protocol):
    """Certificates that can be rotated, and how often they have been: the first authority is the first of its kind."""

    leaves: int
    authorities: int

    def rotate_leaf(self, replicas: Replicas, tell: Callable[[str], None]) -> None: ...

    def rotate_authority(self, replicas: Replicas, tell: Callable[[str], None]) -> None: ...


class Served(NamedTuple):
    """Three replicas, registered."""

    replicas: Replicas
    certificates: Certificates


@contextmanager
def by_hand(plane: ControlPlane, balancer: Balancer) -> Iterator[Served]:
    """Certificates in files, and a bundle that is applied."""
    certificates = KeptCertificates(balancer)
    replicas = Replicas(plane, CONFIG, balancer, certificates)
    try:
        replicas.start("abc")
        replicas.register(certificates.authority.pem)
        until_asked(plane)
        yield Served(replicas, certificates)
    finally:
        replicas.close()


@contextmanager
def by_the_reconciler(plane: ControlPlane, balancer: Balancer, background: Background) -> Iterator[Served]:
    """Certificates that the reconciler keeps."""
    certificates, shown = ReconcilersCertificates(plane), Balancer(background)
    replicas = Replicas(plane, SELF_MANAGED, balancer, certificates, shown)
    reconciler = ReconcilerProcess(plane, SELF_MANAGED)
    try:
        replicas.register()
        replicas.start("abc")
        until_asked(plane)
        yield Served(replicas, certificates)
    finally:
        replicas.close()
        reconciler.close()
        shown.close()
        for name in (CA_SECRET, TLS_SECRET):
            plane.http.delete(f"{SECRETS}/{name}")


@pytest.fixture
def served(
    request: pytest.FixtureRequest, plane: ControlPlane, balancer: Balancer, background: Background
) -> Iterator[Served]:
    """Three replicas with certificates that are kept by hand, or as the test's parameter says."""
    if getattr(request, "param", "") == "selfManaged":
        with by_the_reconciler(plane, balancer, background) as found:
            yield found
    else:
        with by_hand(plane, balancer) as found:
            yield found


@pytest.fixture
def replicas(served: Served) -> Replicas:
    return served.replicas


@pytest.fixture
def ledger(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    background: Background,
    replicas: Replicas,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Ledger]:
    played = grove(two_cliques("demo", namespace)).create_podgangs()
    with kept(plane, played, RATE, background, replicas.balancer, capsys) as found:
        found.until(3)
        found.tell("three replicas")
        yield found


@pytest.mark.parametrize("served", ["files", "selfManaged"], indirect=True)
def test_no_admission_is_lost_while_replicas_and_certificates_change(served: Served, ledger: Ledger) -> None:
    replicas, certificates = served

    def leaf() -> None:
        certificates.rotate_leaf(replicas, ledger.tell)

    def ended(stopping: Future[dict[str, int | None]], what: str) -> None:
        codes = stopping.result()
        ledger.tell(f"{what}, exit codes {sorted(codes.values(), key=str)}")
        assert set(codes.values()) == {0}

    with ThreadPoolExecutor(1) as meanwhile:
        leaf()
        ended(meanwhile.submit(replicas.stop, "ab"), "3 -> 1: SIGTERM to a and b")
        leaf()
        replicas.start("ab")
        ledger.tell("1 -> 3")
        for name in "abc":
            stopping = meanwhile.submit(replicas.stop, name)
            leaf()
            ended(stopping, f"SIGTERM to {name}")
            replicas.start(name)
            ledger.tell(f"{name} again")
        certificates.rotate_authority(replicas, ledger.tell)
        leaf()
        stopping = meanwhile.submit(replicas.stop, "bc")
        certificates.rotate_authority(replicas, ledger.tell)
        ended(stopping, "meanwhile 3 -> 1: SIGTERM to b and c")
        replicas.start("bc")
        ledger.tell("1 -> 3")
        leaf()
        leaf()
    ledger.until_made(ADMISSIONS)
    # An API server keeps a connection for 90 s that it has no use for.
    spread = "connections are spread over all replicas again"
    eventually(lambda: even(replicas.balancer.connections()), spread, timeout=120)
    assert (certificates.leaves, certificates.authorities) == (10, 3)
    assert ledger.failed == []


def even(connections: dict[str, int]) -> bool:
    """Whether a replica that came late has its share of the connections, or nearly."""
    assert min(connections.values()) * 3 >= max(connections.values()), connections
    return True


def test_a_killed_replica_fails_at_most_one_admission_per_connection(replicas: Replicas, ledger: Ledger) -> None:
    """What was in flight on it, and what was sent to it before the balancer knew: as a Service does, which learns of it
    from the kubelet. Each is an admission that its user, or the operator, tries again.
    """
    balancer = replicas.balancer
    for name in "abc":
        before = len(ledger.failed)
        replicas.kill(name)
        known = time.monotonic() + READING_SECONDS
        ledger.until(ledger.load.seconds + PATIENCE_SECONDS)
        ends = Counter(one.how for one in balancer.ended if one.replica == name)
        owing, refused = ends[How.OWING], ends[How.REFUSED]
        failed = ledger.failed[before:]
        ledger.tell(f"SIGKILL to {name}: in flight {owing}, refused until it was known {refused}")
        assert len(failed) <= ends.total(), ends
        assert [outcome for outcome in failed if outcome.asked > known] == []
        replicas.start(name)
        ledger.tell(f"{name} again")
    for outcome in ledger.failed:
        assert "failed to call webhook" in outcome.wrong, outcome


def test_a_hanging_replica_fails_one_admission_per_connection_and_then_none(replicas: Replicas, ledger: Ledger) -> None:
    balancer = replicas.balancer
    replicas.programs["b"].signal(signal.SIGSTOP)
    try:
        eventually(lambda: "b" not in balancer.ready(), "b gets no connections any more")
        held = balancer.opened("b")
        ledger.tell(f"SIGSTOP to b: it has had {held} connections")
        # Each of them may be used once more.
        eventually(lambda: balancer.connections()["b"] == 0, "all of them are given up", timeout=120)
        ledger.until(ledger.load.seconds + PATIENCE_SECONDS)
        failed = len(ledger.failed)
        ledger.tell("all of them were given up")
        assert failed <= held
        assert all("context deadline exceeded" in outcome.wrong for outcome in ledger.failed)
    finally:
        replicas.programs["b"].signal(signal.SIGCONT)
    eventually(lambda: "b" in balancer.ready(), "b gets connections again")
    ledger.tell("SIGCONT to b")
    ledger.until(ledger.load.seconds + PATIENCE_SECONDS)
    assert len(ledger.failed) == failed
