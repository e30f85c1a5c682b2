"""Two reconcilers and one lease: when the leader dies or freezes, the other takes over, and the two never write at the
same time.

Both are in this process, so the moments of all their requests are by one clock.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane
from tests.e2e.gang_story import KOORD, Story
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.network import Network, Send
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from webhook.reconciler import lease
from webhook.reconciler import writer as writing

GANGS, OBJECTS = 20, 50
# What a machine that is busy takes besides.
SLACK_SECONDS = 10.0
Started = Callable[[], HostedReconciler]

# A killed process closes no connection.
pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol with three seconds in the place of fifteen."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 2.0)
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.4)
    monkeypatch.setattr(writing, "WRITE_SECONDS", 1.0)


@pytest.fixture
def story(plane: ControlPlane, namespace: str) -> Story:
    """Twenty gangs that need no scheduler."""
    return Story(plane, namespace, GANGS, KOORD, pods=False)


@pytest.fixture
def started(story: Story) -> Iterator[Started]:
    """Start reconcilers that share a lease in the story's namespace; they go with the test."""
    running: list[HostedReconciler] = []

    def start() -> HostedReconciler:
        network, namespace = Network(story.plane), story.namespace
        found = HostedReconciler(network, KOORDINATOR, namespace=namespace, lease_namespace=namespace)
        running.append(found)
        return found

    yield start
    for found in running:
        found.kill()
    story.close()


def pair(started: Started) -> tuple[HostedReconciler, HostedReconciler]:
    """A leader, and one that waits for its end."""
    leader = started()
    leader.until_leading()
    follower = started()

    def waits() -> bool:
        reasons = list(follower.reconciler.unready())
        assert not reasons, "; ".join(reasons)
        # It has seen whose the lease is.
        return any("/leases/" in found.path and found.answered for found in follower.network.exchanges)

    eventually(waits, "the other waits")
    assert not follower.reconciler.leads()
    return leader, follower


def sent(reconciler: HostedReconciler) -> list[float]:
    """When it sent what changes something."""
    return [found.sent for found in reconciler.network.changes if found.sent is not None]


def took_over(story: Story, leader: HostedReconciler, follower: HostedReconciler) -> None:
    """The follower leads as soon as the lease allows, and finishes; nothing is written by both at once."""
    patience = lease.LEASE_SECONDS + 2 * lease.RETRY_SECONDS + SLACK_SECONDS
    eventually(follower.reconciler.leads, "the other takes over", timeout=patience, pause=0.01)

    def written() -> bool:
        assert len(story.objects()) == OBJECTS, f"{len(story.objects())} objects"
        return True

    eventually(written, "every gang has its objects")
    follower.until_idle()
    assert sent(leader), "the first wrote some"
    assert sent(follower), "and the other the rest"
    assert max(sent(leader)) < min(sent(follower)), "one after the other"


def killed(story: Story, started: Started, change: int, *, done: bool) -> None:
    leader, follower = pair(started)
    leader.network.die_at(change, sent=done)
    story.tell("create")
    eventually(lambda: leader.network.dead, "the leader dies")
    leader.kill()
    took_over(story, leader, follower)


@pytest.mark.parametrize(("change", "done"), [(1, True), (20, False)])
def test_when_the_leader_dies_the_other_takes_over_within_the_lease(
    quick: None, story: Story, started: Started, change: int, done: bool
) -> None:
    killed(story, started, change, done=done)


def test_when_the_leader_dies_the_other_takes_over_within_the_default_lease(story: Story, started: Started) -> None:
    killed(story, started, 20, done=False)


def frozen(story: Story, started: Started, change: int) -> None:
    """The leader freezes when it is about to send that write, for longer than its lease is valid."""
    leader, follower = pair(started)
    patches = 0
    woken: list[float] = []

    async def freezing(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal patches
        if request.method == "PATCH":
            patches += 1
            if patches == change:
                # The whole event loop, as SIGSTOP would do: no other task runs.
                time.sleep(lease.LEASE_SECONDS + 4 * lease.RETRY_SECONDS)
                woken.append(time.monotonic())
        return await send(request)

    leader.network.meddle = freezing
    story.tell("create")
    took_over(story, leader, follower)
    eventually(lambda: woken[0] if woken else None, "the first wakes up")
    eventually(lambda: leader.metric("rollcall_leads") == 0, "and sees that it does not lead")
    # Also what came while it slept is not its own.
    story.tell("scale")
    eventually(lambda: len(story.objects()) == OBJECTS - 1, "the other goes on")
    follower.until_idle()
    leader.until_idle()
    assert max(sent(leader)) < min(sent(follower)), "what was about to leave did not"


@pytest.mark.parametrize("change", [12, 25])
def test_a_leader_that_resumes_after_its_lease_writes_nothing(
    quick: None, story: Story, started: Started, change: int
) -> None:
    frozen(story, started, change)


@pytest.mark.parametrize("seed", range(4))
def test_a_leader_that_was_frozen_at_any_point_writes_nothing_when_it_resumes(
    quick: None, story: Story, started: Started, seed: int
) -> None:
    leader, follower = pair(started)
    chance = random.Random(seed)  # noqa: S311 - the same each time
    before = chance.randint(1, OBJECTS // 2)

    async def freezing(request: httpx.Request, send: Send) -> httpx.Response:
        if len(sent(leader)) >= before:
            leader.loop.call_later(chance.uniform(0, 0.02), time.sleep, lease.LEASE_SECONDS + 4 * lease.RETRY_SECONDS)
            leader.network.meddle = lambda request, send: send(request)
        return await send(request)

    leader.network.meddle = freezing
    story.tell("create")
    took_over(story, leader, follower)
    eventually(lambda: leader.metric("rollcall_leads") == 0, "the first sees that it does not lead")
    assert max(sent(leader)) < min(sent(follower))


def test_a_process_that_is_stopped_and_continued_writes_nothing(plane: ControlPlane, story: Story) -> None:
    first, second = ReconcilerProcess(plane, KOORDINATOR), ReconcilerProcess(plane, KOORDINATOR)
    try:
        leader, follower = led_by_one_of(first, second)
        before = leader.metric("rollcall_writes_total")
        with ThreadPoolExecutor() as clients:
            creating = clients.submit(story.tell, "create")
            eventually(lambda: len(story.objects()) > 0, "it has begun", pause=0)
            leader.program.signal(signal.SIGSTOP)
            creating.result()
        # What it had sent is done by then; the other waits for longer.
        done = eventually(unchanged(story), "nothing more is written")
        assert 0 < done < OBJECTS, "it was stopped in the middle"
        eventually(lambda: len(story.objects()) == OBJECTS, "the other writes", timeout=40)
        leader.program.signal(signal.SIGCONT)
        eventually(lambda: leader.metric("rollcall_leads") == 0, "the first sees that it does not lead")
        story.tell("scale")
        eventually(lambda: len(story.objects()) == OBJECTS - 1, "the other goes on")
        leader.until_settled()
        follower.until_settled()
        assert leader.metric("rollcall_writes_total") - before <= done
    finally:
        first.close()
        second.close()
        story.close()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/leases/rollcall-reconciler"
        plane.http.delete(path)


def led_by_one_of(first: ReconcilerProcess, second: ReconcilerProcess) -> tuple[ReconcilerProcess, ReconcilerProcess]:
    """Whichever was faster, and the other."""
    first.until_ready()
    second.until_ready()

    def led() -> tuple[ReconcilerProcess, ReconcilerProcess] | None:
        for leader, follower in ((first, second), (second, first)):
            if leader.metric("rollcall_leads") == 1:
                return leader, follower
        return None

    return eventually(led, "one of them leads", timeout=40)


def unchanged(story: Story) -> Callable[[], int | None]:
    """How many objects there are, once that has been the same for a second."""
    seen, since = 0, time.monotonic()

    def same() -> int | None:
        nonlocal seen, since
        if (now := len(story.objects())) != seen:
            seen, since = now, time.monotonic()
        return seen if time.monotonic() - since > 1 else None

    return same
