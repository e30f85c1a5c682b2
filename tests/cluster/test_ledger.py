"""No admission is lost: 200 a second through a real API server for two minutes, while replicas come, go and are killed
and certificates and their authorities are rotated. The ledger is printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.cluster.admissions import Admissions
from tests.cluster.authorities import Authority
from tests.cluster.background import Background
from tests.cluster.balancer import Balancer
from tests.cluster.conftest import KOORDINATOR, until_asked
from tests.cluster.control_plane import ControlPlane, Manifest
from tests.cluster.grove_operator import Played
from tests.cluster.ledger import Ledger
from tests.cluster.programs import eventually
from tests.cluster.replicas import Replicas
from tests.cluster.workloads import two_cliques

pytestmark = pytest.mark.long

Grove = Callable[[Manifest], Played]

RATE, SECONDS = 200, 120
# Short, so that all of it has room in two minutes: connections are renewed several times, and a drain is longer than
# the balancer takes to see it.
CONFIG: Manifest = {**KOORDINATOR, "serving": {"drainSeconds": 5, "connectionSeconds": 20}}
# A changed bundle is in use when nothing was sent for so long on a connection that is older than it.
SETTLED_SECONDS = 1.0


@pytest.fixture
def background() -> Iterator[Background]:
    found = Background()
    yield found
    found.close()


@pytest.fixture
def balancer(background: Background) -> Iterator[Balancer]:
    found = Balancer(background)
    yield found
    found.close()


class ByHand:
    """Certificates as files that somebody else keeps, and a bundle that is applied by hand."""

    def __init__(self) -> None:
        self.authority = Authority("first")
        self.replicas: Replicas | None = None
        self.leaves = 0
        self._authorities = 1

    def rotate_leaf(self) -> None:
        assert self.replicas is not None
        self.leaves += 1
        self.replicas.bring(self.authority.leaf())
        self.replicas.until_presented()

    def rotate_authority(self) -> None:
        """Both are known first, then the leaf changes, then the old one is withdrawn."""
        assert self.replicas is not None
        old, self._authorities = self.authority, self._authorities + 1
        self.authority = Authority(f"authority {self._authorities}")
        self._register(old.pem + self.authority.pem)
        self.rotate_leaf()
        self._register(self.authority.pem)

    def _register(self, bundle: bytes) -> None:
        assert self.replicas is not None
        self.replicas.register(bundle)
        now, balancer = time.monotonic(), self.replicas.balancer
        eventually(lambda: balancer.oldest_in_use(SETTLED_SECONDS) > now, "the API server uses the new bundle")


@pytest.fixture
def by_hand(plane: ControlPlane, balancer: Balancer) -> Iterator[ByHand]:
    """Three replicas whose certificates are kept by hand, registered."""
    found = ByHand()
    found.replicas = Replicas(plane, CONFIG, balancer, found.authority.leaf())
    try:
        found.replicas.start("abc")
        found.replicas.register(found.authority.pem)
        until_asked(plane)
        yield found
    finally:
        found.replicas.close()


def test_no_admission_is_lost_while_replicas_and_certificates_change(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    background: Background,
    balancer: Balancer,
    by_hand: ByHand,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replicas = by_hand.replicas
    assert replicas is not None
    played = grove(two_cliques("demo", namespace)).create_podgangs()
    load = Admissions(plane, played, RATE, background)
    ledger = Ledger(load, balancer)
    try:
        with ThreadPoolExecutor(1) as meanwhile:
            _story(replicas, by_hand, ledger, meanwhile)
        load.wait()
        ledger.tell("the end")
    finally:
        load.close()
        with capsys.disabled():
            print(f"\n{ledger}")
            for outcome in ledger.failed[:20]:
                print(f"{outcome.asked - load.begun:>6.1f}  {outcome.wrong}")
            for lost in balancer.lost[:20]:
                print(f"{lost.at - load.begun:>6.1f}  {lost}")
    assert ledger.failed == []


def _story(replicas: Replicas, certificates: ByHand, ledger: Ledger, meanwhile: ThreadPoolExecutor) -> None:
    def leaf() -> None:
        certificates.rotate_leaf()
        ledger.tell(f"leaf {certificates.leaves}")

    def authority(number: int) -> None:
        certificates.rotate_authority()
        ledger.tell(f"authority {number}, leaf {certificates.leaves}: known, used, the old one withdrawn")

    def ended(stopping: Future[dict[str, int | None]], what: str) -> None:
        codes = stopping.result()
        ledger.tell(f"{what}: exit codes {sorted(set(codes.values()), key=str)}")
        assert set(codes.values()) == {0}

    ledger.until(3)
    ledger.tell("three replicas")
    leaf()
    stopping = meanwhile.submit(replicas.stop, "ab")
    leaf()
    ended(stopping, "3 -> 1: SIGTERM to a and b")
    leaf()
    replicas.start("ab")
    ledger.tell("1 -> 3")
    for name in "abc":
        stopping = meanwhile.submit(replicas.stop, name)
        leaf()
        ended(stopping, f"SIGTERM to {name}")
        replicas.start(name)
        ledger.tell(f"{name} again")
    authority(1)
    leaf()
    stopping = meanwhile.submit(replicas.stop, "bc")
    authority(2)
    ended(stopping, "3 -> 1 meanwhile: SIGTERM to b and c")
    replicas.start("bc")
    ledger.tell("1 -> 3")
    leaf()
    ledger.until_made(RATE * SECONDS)
