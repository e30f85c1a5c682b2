"""Which held gangs get an event of their own, and which share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.reconciler.held_gangs import OWN_EVENTS, SERIES_SECONDS, EventPace, HeldCause, HeldGangs, OwnEvents, Series

PACE = EventPace(settle=10.0, repeat=1800.0)
LEAST, LONGEST = SERIES_SECONDS
MOST = 20


class Told:
    """A reconciler that looks once a second and tells of what is due."""

    def __init__(self) -> None:
        self.held = HeldGangs(OwnEvents())
        self.now = 0.0
        self.own: list[GangKey] = []
        self.series: list[Series] = []

    def put(self, keys: Iterable[GangKey], reason: GangReason = GangReason.NO_ROOM, *, told: bool = False) -> None:
        for key in keys:
            self.held.put(key, reason, self.now, told_elsewhere=told)

    def drop(self, keys: Iterable[GangKey]) -> None:
        for key in keys:
            self.held.drop(key, self.now)

    def look(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 1
            for one in self.held.due(self.now, PACE, MOST):
                if isinstance(one, Series):
                    self.series.append(one)
                    self.held.written(one, one.event or f"event-{len(self.series)}", self.now)
                else:
                    self.own.append(one)

    @property
    def numbers(self) -> list[tuple[int, str | None]]:
        return [(one.number, one.event) for one in self.series]


def gangs(count: int, namespace: str = "team-a", first: int = 0) -> list[GangKey]:
    return [GangKey(namespace, f"g{number:04}") for number in range(first, first + count)]


def test_a_gang_is_told_of_once_its_reason_has_lasted() -> None:
    told = Told()
    told.put(gangs(1))
    told.look(9)
    assert told.own == []
    told.look(60)
    assert (told.own, told.series) == (gangs(1), [])


def test_a_gang_that_starts_meanwhile_is_not_told_of() -> None:
    told = Told()
    told.put(gangs(1))
    told.look(5)
    told.drop(gangs(1))
    told.look(60)
    assert (told.own, told.series) == ([], [])


def test_another_reason_begins_its_own_time() -> None:
    told = Told()
    told.put(gangs(1), GangReason.TOO_FEW_PODS)
    told.look(9)
    told.put(gangs(1), GangReason.NO_ROOM)
    told.look(9)
    assert told.own == []
    told.look(2)
    assert told.own == gangs(1)


def test_as_many_gangs_as_get_their_own_events_share_none() -> None:
    told = Told()
    told.put(gangs(OWN_EVENTS))
    told.look(600)
    assert (told.own, told.series) == (gangs(OWN_EVENTS), [])


def test_the_gangs_of_one_cause_beyond_the_number_share_one_event_that_counts_all() -> None:
    told = Told()
    told.put(gangs(1000))
    told.look(600)
    assert told.own == gangs(OWN_EVENTS)
    assert told.series == [Series(HeldCause("team-a", GangReason.NO_ROOM), 1000, tuple(gangs(3)), None)]


def test_each_cause_of_a_namespace_has_its_own_event() -> None:
    told = Told()
    told.put(gangs(20))
    told.put(gangs(20, first=100), GangReason.TOO_FEW_PODS)
    told.look(60)
    assert len(told.own) == 2 * OWN_EVENTS
    assert Counter(one.cause.reason for one in told.series) == {GangReason.NO_ROOM: 1, GangReason.TOO_FEW_PODS: 1}


def test_the_number_is_written_when_it_has_settled_and_into_the_same_event() -> None:
    told = Told()
    told.put(gangs(100))
    told.look(60)
    told.put(gangs(400, first=100))
    told.look(60)
    told.drop(gangs(490))
    told.look(60)
    assert told.numbers == [(100, None), (500, "event-1"), (10, "event-1")]
    told.look(600)
    assert len(told.series) == 3


def test_a_number_that_always_changes_is_written_at_bounded_intervals() -> None:
    told = Told()
    for second in range(1500):
        told.put(gangs(1, first=second))
        told.look(1)
    assert 2 <= len(told.series) <= 1500 / LONGEST + 1
    assert len(told.own) == OWN_EVENTS


def test_gangs_that_come_and_go_cost_a_write_in_so_many_seconds_at_most() -> None:
    told = Told()
    for more in range(40):
        told.put(gangs(50 + more))
        told.look(12)
        told.drop(gangs(50 + more))
        told.look(12)
    assert len(told.own) == OWN_EVENTS
    assert len(told.series) <= 40 * 24 / LEAST + 1
    assert {one.event for one in told.series} == {None, "event-1"}


def test_events_are_repeated_after_their_time() -> None:
    told = Told()
    told.put(gangs(30))
    told.look(PACE.repeat + 60)
    assert told.own == gangs(OWN_EVENTS) * 2
    assert told.numbers == [(30, None), (30, None)]


def test_a_gang_beyond_the_number_is_never_without_any_event() -> None:
    told = Told()
    told.put(gangs(OWN_EVENTS))
    told.look(60)
    told.drop(gangs(OWN_EVENTS))
    told.put(gangs(1, first=500))
    told.look(60)
    assert told.own == gangs(OWN_EVENTS)
    assert told.series == [Series(HeldCause("team-a", GangReason.NO_ROOM), 1, tuple(gangs(1, first=500)), None)]


def test_gangs_that_the_writer_tells_of_get_no_second_event_but_share_one() -> None:
    told = Told()
    told.put(gangs(OWN_EVENTS), GangReason.FROZEN, told=True)
    told.look(60)
    assert (told.own, told.series) == ([], [])
    told.put(gangs(1, first=100), GangReason.FROZEN, told=True)
    told.look(60)
    assert (told.own, told.numbers) == ([], [(OWN_EVENTS + 1, None)])


def test_a_namespace_with_many_gangs_does_not_delay_the_event_of_another() -> None:
    told = Told()
    reasons = list(GangReason)
    for number, reason in enumerate(reasons):
        told.put(gangs(1000, "a", first=1000 * number), reason)
    for number in range(9):
        told.put(gangs(1, f"z{number}"))
    told.look(12)
    assert {key.namespace for key in told.own} == {"a", *(f"z{number}" for number in range(9))}
    told.look(60)
    assert Counter(key.namespace for key in told.own)["a"] == OWN_EVENTS * len(reasons)


def test_more_namespaces_than_fit_into_one_look_all_get_their_turn() -> None:
    told = Told()
    for number in range(200):
        told.put(gangs(30, f"n{number:03}"))
    told.look(9 + 200 / MOST)
    assert len({key.namespace for key in told.own}) == 200
    assert len(told.own) + len(told.series) <= MOST * told.now


def test_nothing_is_kept_of_a_cause_without_gangs() -> None:
    told = Told()
    told.put(gangs(50))
    told.look(60)
    told.drop(gangs(50))
    told.look(PACE.repeat + 60)
    assert (told.held._causes, told.held._of) == ({}, {})


def test_a_gang_of_which_more_is_known_is_told_of_again() -> None:
    told, (first, second) = Told(), gangs(2)
    told.put([first])
    told.put([second], told=True)
    told.look(60)
    for key in (first, second, GangKey("team-b", "unknown")):
        told.held.tell_again(key)
    told.look(60)
    assert told.own == [first, first], "another part of the process writes the events of the second"
    for _ in range(OWN_EVENTS):
        told.held.tell_again(first)
        told.look(60)
    assert told.own == [first] * OWN_EVENTS
