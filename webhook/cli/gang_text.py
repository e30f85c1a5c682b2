"""Gangs on a terminal: a table of many, or everything that is known of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from webhook.cli.explain_text import say
from webhook.cli.loss_lines import print_lost_pods
from webhook.cli.output import tell
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.gangs.hold_reasons import Reason
from webhook.model.plain_text import printable
from webhook.model.workloads.place import label_value

if TYPE_CHECKING:
    from webhook.gangs.gang_view import GangView
    from webhook.gangs.health import GangHealth
    from webhook.gangs.kueue.hold import QueuedAs
    from webhook.gangs.pod import GangPod

_HEAD = ("NAMESPACE", "GANG", "SCHEDULER", "BOUND", "PODS", "AGE", "HEALTH", "DISRUPTION", "WRITER", "WHY")
_STYLES = {
    "started": "green",
    "held": "yellow",
    "inPart": "bold red",
    "leaving": "dim",
    "empty": "dim",
    "queued": "cyan",
    "elsewhere": "dim",
    "suspended": "dim",
    "ended": "dim",
    "later": "dim",
}
# Seconds in a day, an hour, a minute, with their letters. kubectl shows the largest unit that fits twice.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


class GangTable:
    """A table with columns as wide as the first gangs need; later gangs are added line by line."""

    def __init__(self, first: Iterable[GangHealth], out: Console, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        rows = [_HEAD, *(_row(one, clock) for one in first)]
        # The last column is not padded.
        self._widths = [max(len(row[index]) for row in rows) for index in range(len(_HEAD) - 1)]
        self._out = out

    def print(self, found: Sequence[GangHealth]) -> None:
        """Print the head and one line for each gang."""
        if found:
            self._line(_HEAD, "dim", "dim")
        for one in found:
            self.add(one)

    def add(self, one: GangHealth) -> None:
        """Print one more line."""
        self._line(_row(one, self._clock), "", _STYLES[one.state.value])

    def _line(self, row: tuple[str, ...], style: str, health: str) -> None:
        line = Text(no_wrap=True, overflow="ellipsis")
        for index, (cell, width) in enumerate(zip(row, self._widths, strict=False)):
            line.append(cell.ljust(width + 2), health if _HEAD[index] == "HEALTH" else style)
        line.append(row[-1], style)
        line.rstrip()
        self._out.print(line, overflow="ellipsis", no_wrap=True, crop=self._out.is_terminal)


def _row(one: GangHealth, clock: Clock) -> tuple[str, ...]:
    return (
        printable(one.namespace),
        printable(f"{one.kind.lower()}/{one.name}" if one.workload else one.name),
        printable(one.scheduler or "-"),
        f"{one.bound}/{one.minimum}",
        str(one.present),
        age(one.created, clock),
        one.word,
        one.disruption_mode or "-",
        one.writer.value,
        printable(" ".join(_why(one).split())),
    )


def _why(one: GangHealth) -> str:
    """The first reason, and pods of other owners, which no other column shows."""
    others = (f"{also.reason}: {also.why}" for also in one.obstacles[1:] if also.reason is Reason.UNOWNED)
    return "; ".join((one.why, *others))


def tell_strangers_unknown(look: GangView) -> None:
    """Say if it is not known which other pods name the groups of some gangs."""
    if look.strangers_unknown:
        tell(f"other pods that name the groups of gangs may be missing here: {look.strangers_unknown}")


def age(created: str, clock: Clock = MACHINE_CLOCK) -> str:
    """The time since a moment of Kubernetes, as kubectl shows it."""
    try:
        seconds = int((clock.now() - datetime.fromisoformat(created)).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for size, letter in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size}{letter}"
    return f"{max(seconds, 0)}s"


def print_gang(one: GangHealth, pods: Sequence[GangPod], out: Console) -> None:
    """Print everything that is known of one gang."""
    several = f", gang {one.name}" if one.workload not in {"", one.name} else ""
    title = f"{one.kind} {one.namespace}/{one.workload or one.name}{several}: {one.state.value}"
    out.print(Text(printable(title), "bold"))
    scheduler = "no recorded scheduler" if one.scheduler is None else f"scheduler {one.scheduler}"
    say(out, 1, f"{scheduler}; {one.bound} of the {one.minimum} pods that it needs to start are on nodes")
    say(out, 1, one.writer.meaning)
    if one.disruption_mode is not None:
        say(out, 1, f"disruption mode {one.disruption_mode}: {one.disruption_mode.meaning}")
    if (queued := one.queued) is not None:
        say(out, 1, f"Kueue's Workload {queued.workload} waits in {_queues(queued)}")
    if one.deadline:
        say(out, 1, one.deadline)
    out.print()
    escapes = {found.pod.key: found for found in one.escaped}
    for member in one.members:
        say(
            out, 1, f"{member.name}: {member.present} present, {member.bound} on nodes, needs {member.minimum} to start"
        )
        for pod in pods:
            if pod.podclique == label_value(member.name):
                escape = escapes.get(pod.key)
                say(out, 2, f"{pod.name}: {', '.join((*_standing(pod), *((escape.escape.value,) if escape else ())))}")
    strangers = [pod for pod in pods if pod.podclique not in {label_value(member.name) for member in one.members}]
    for pod in strangers:
        if pod.podclique or pod.key not in escapes:
            say(out, 1, f"{pod.name}: of {pod.podclique or 'no PodClique'}, which is not a member of the {one.kind}")
        else:
            say(out, 1, f"{pod.name}: {', '.join((*_standing(pod), escapes[pod.key].escape.value))}")
    if one.further:
        say(out, 1, f"{one.further} more that name a group of the {one.kind} and are not its members")
    if one.lost is not None:
        print_lost_pods(one.lost, out)
    for obstacle in one.obstacles:
        out.print()
        out.print(Text.assemble("    ", (obstacle.reason.value, "bold red")))
        say(out, 2, f"why  {obstacle.why}")
        say(out, 2, f"do   {obstacle.remedy}")
    out.print()


def _queues(queued: QueuedAs) -> str:
    """The queues of a Workload, and who is ahead in them."""
    above = "" if queued.cluster_queue is None else f" of ClusterQueue {queued.cluster_queue}"
    where = f"LocalQueue {queued.local_queue}{above}"
    if queued.ahead is None or not queued.ahead.number:
        return where
    return f"{where}; about {queued.ahead.number} ahead, first {', '.join('/'.join(key) for key in queued.ahead.first)}"


def _standing(pod: GangPod) -> tuple[str, ...]:
    if pod.leaving:
        return ("leaving",)
    if pod.failed:
        return ("failed",)
    if pod.node is not None:
        return (f"on node {pod.node}",)
    return ("waiting", *(f"gate {gate}" for gate in pod.gates))
