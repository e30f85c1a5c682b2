"""The end of exceptions: announced to each namespace, and what it means for pods and for gangs that wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.played import START
from tests.texts import Text
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import looked, running, sample, world
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.config.settings import Settings
from webhook.model.findings import Exceptions, RuleException, WorkloadSelector
from webhook.reconciler import events
from webhook.reconciler.events import ExceptionWatch

DAY = timedelta(days=1)
UNTIL = datetime(2027, 2, 1, tzinfo=UTC)


def granted(name: str = "one", *namespaces: str, until: datetime = UNTIL, names: frozenset[str] = frozenset()) -> Any:
    return RuleException(
        name,
        frozenset({"koordinator/mnnvl"}),
        frozenset(namespaces or {"team-a"}),
        "ticket 4711",
        "anna",
        until,
        WorkloadSelector(names=names),
    )


def with_exceptions(*every: RuleException) -> Settings:
    return replace(koordinator(standalone=False), exceptions=Exceptions(every))


class Written:
    """Remembers what is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.ended = 0

    async def say(self, regarded: Any, reason: Any, note: str, *, apart: str = "") -> None:
        self.told.append((regarded.name, reason.value, apart))
        self.notes.append(note)

    def watch(self, *every: RuleException, leads: bool = True, only: str | None = None) -> ExceptionWatch:
        def ended() -> None:
            self.ended += 1

        return ExceptionWatch(Exceptions(every), self, lambda: leads, ended, only=only)  # type: ignore[arg-type]


async def test_an_end_is_announced_from_a_week_before_once_a_day_and_once_afterwards() -> None:
    written = Written()
    watch = written.watch(granted())
    await watch.look(UNTIL - 7 * DAY - timedelta(seconds=1))
    assert written.told == []
    soon = ("team-a", "RollcallExceptionEndsSoon", "one")
    await watch.look(UNTIL - 7 * DAY)
    await watch.look(UNTIL - 7 * DAY + timedelta(hours=1))
    assert written.told == [soon]
    await watch.look(UNTIL - 6 * DAY)
    assert written.told == [soon, soon]
    assert written.ended == 0
    await watch.look(UNTIL)
    await watch.look(UNTIL + DAY)
    assert written.told == [soon, soon, ("team-a", "RollcallExceptionEnded", "one")]
    assert written.ended == 1
    about, granter = Text("Exception one ", "koordinator/mnnvl", "every workload "), "by anna: ticket 4711"
    assert written.notes[0] == Text(about, "ends in 7 days, at 2027-02-01T00:00:00Z; ", "ask anna", granter)
    assert written.notes[-1] == Text(about, "ended 0 min ago, at 2027-02-01T00:00:00Z; ", "configuration", granter)


async def test_an_end_that_came_by_a_wrong_date_is_announced_again_when_it_comes() -> None:
    written = Written()
    watch = written.watch(granted())
    before = UNTIL - 30 * DAY
    await watch.look(before)
    # The date jumps forward by a year, and is set back.
    await watch.look(before + 365 * DAY)
    assert (written.told, written.ended) == ([("team-a", "RollcallExceptionEnded", "one")], 1)
    await watch.look(before)
    assert written.ended == 2, "gangs that it covers are judged with it again"
    written.told.clear()
    await watch.look(UNTIL)
    assert (written.told, written.ended) == ([("team-a", "RollcallExceptionEnded", "one")], 3)
    await watch.look(UNTIL + DAY)
    assert len(written.told) == 1


async def test_each_namespace_is_told_of_each_exception() -> None:
    written = Written()
    await written.watch(granted("one", "a", "b"), granted("two", "a")).look(UNTIL - DAY)
    assert [(namespace, name) for namespace, _, name in written.told] == [("a", "one"), ("b", "one"), ("a", "two")]


async def test_only_the_leader_tells_and_only_in_its_namespace() -> None:
    written = Written()
    await written.watch(granted(), leads=False).look(UNTIL)
    assert written.told == []
    await written.watch(granted("one", "a", "b"), only="b").look(UNTIL)
    assert [namespace for namespace, *_ in written.told] == ["b"]


async def test_events_are_spread_over_several_looks() -> None:
    written = Written()
    watch = written.watch(granted("one", *(f"team-{number}" for number in range(30))))
    await watch.look(UNTIL)
    assert len(written.told) == events.EXCEPTION_EVENTS_A_LOOK
    await watch.look(UNTIL)
    await watch.look(UNTIL)
    assert len(written.told) == len(set(written.told)) == 30


async def test_the_event_is_in_the_namespace_and_about_it() -> None:
    cluster = WritableWorld()
    settings = with_exceptions(granted(until=START + DAY))
    async with running(cluster, settings=settings) as found:
        await until(lambda: cluster.events)
        (event,) = cluster.events
        assert event["metadata"]["namespace"] == "team-a"
        assert (event["type"], event["reason"]) == ("Warning", "RollcallExceptionEndsSoon")
        regarding = {key: event["regarding"][key] for key in ("apiVersion", "kind", "name", "namespace")}
        assert regarding == {"apiVersion": "v1", "kind": "Namespace", "name": "team-a", "namespace": "team-a"}
        assert sample(found, "rollcall_events_total", reason="RollcallExceptionEndsSoon") == 1


def escaped_pod(name: str) -> dict[str, Any]:
    found = grove_pod(name, schedulerName="default-scheduler")
    found["metadata"]["resourceVersion"] = "7"
    found["metadata"]["labels"]["app.kubernetes.io/part-of"] = "demo"
    return found


FOR_EVER = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("exception", "left"),
    [
        pytest.param(granted(until=FOR_EVER), ["free"], id="every workload"),
        pytest.param(granted(until=FOR_EVER, names=frozenset({"demo"})), ["free"], id="its name"),
        pytest.param(granted(until=FOR_EVER, names=frozenset({"other"})), [], id="another name"),
        pytest.param(granted("one", "team-b", until=FOR_EVER), [], id="another namespace"),
        pytest.param(granted(until=datetime(2020, 1, 1, tzinfo=UTC)), [], id="it has ended"),
    ],
)
async def test_an_escaped_pod_is_not_deleted_while_an_exception_may_cover_it(
    exception: RuleException, left: list[str]
) -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, escaped_pod("free"))
    settings = replace(with_exceptions(exception), deleted_escapes=frozenset({"unmutated"}))
    async with running(cluster, settings=settings) as found:
        await until(
            lambda: (
                sample(found, "rollcall_escaped_pods", scheduler="koord-scheduler", escape="unmutated") == 1
                or not cluster.objects[PODS]
            )
        )
        await looked(found.health, 20)
        await until(lambda: [one["metadata"]["name"] for one in cluster.objects[PODS]] == left)
