"""Gangs of a cluster on a terminal: a table of many, the gangs that lost pods, or everything that is known of one
object's gangs (`rollcall explain podgang/NAME`, `pcs/NAME`, `pod/NAME` and the like).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from webhook.cli.explanation_text import column_widths, print_row, say
from webhook.cli.options import connected, console, settings_there
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, as_json_text, tell
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.gangs.hold_reasons import GangReason
from webhook.model.findings import printable
from webhook.model.place import label_value

if TYPE_CHECKING:
    from webhook.gangs.gang_view import GangView
    from webhook.gangs.health import GangHealth
    from webhook.gangs.kueue_hold import QueuedAs
    from webhook.gangs.losses import LostMembers
    from webhook.gangs.members import GangPod


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
        self._widths = column_widths([_HEAD, *(_row(gang, clock) for gang in first)])
        self._out = out

    def print(self, gangs: Sequence[GangHealth]) -> None:
        if gangs:
            print_row(_HEAD, self._widths, dict.fromkeys(range(len(_HEAD)), "dim"), self._out)
        for gang in gangs:
            self.add(gang)

    def add(self, gang: GangHealth) -> None:
        print_row(_row(gang, self._clock), self._widths, {_HEAD.index("HEALTH"): _STYLES[gang.state.value]}, self._out)


def _row(gang: GangHealth, clock: Clock) -> tuple[str, ...]:
    return (
        printable(gang.namespace),
        printable(f"{gang.kind.lower()}/{gang.name}" if gang.workload else gang.name),
        printable(gang.scheduler or "-"),
        f"{gang.bound}/{gang.minimum}",
        str(gang.present),
        age(gang.created, clock),
        gang.word,
        gang.disruption_mode or "-",
        gang.writer.value,
        printable(" ".join(_why(gang).split())),
    )


def _why(gang: GangHealth) -> str:
    """Returns the first reason, and pods of other owners, which no other column shows."""
    others = (f"{also.reason}: {also.why}" for also in gang.obstacles[1:] if also.reason is GangReason.UNOWNED)
    return "; ".join((gang.why, *others))


def tell_strangers_unknown(look: GangView) -> None:
    if look.strangers_unknown:
        tell(f"other pods that name the groups of gangs may be missing here: {look.strangers_unknown}")


def age(created: str, clock: Clock = MACHINE_CLOCK) -> str:
    """Returns the time since a moment of Kubernetes, as kubectl shows it."""
    try:
        seconds = int((clock.now() - datetime.fromisoformat(created)).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for size, letter in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size}{letter}"
    return f"{max(seconds, 0)}s"


def print_gang(gang: GangHealth, pods: Sequence[GangPod], out: Console) -> None:
    several = f", gang {gang.name}" if gang.workload not in {"", gang.name} else ""
    title = f"{gang.kind} {gang.namespace}/{gang.workload or gang.name}{several}: {gang.state.value}"
    out.print(Text(printable(title), "bold"))
    scheduler = "no recorded scheduler" if gang.scheduler is None else f"scheduler {gang.scheduler}"
    say(out, 1, f"{scheduler}; {gang.bound} of the {gang.minimum} pods that it needs to start are on nodes")
    say(out, 1, gang.writer.meaning)
    if gang.disruption_mode is not None:
        say(out, 1, f"disruption mode {gang.disruption_mode}: {gang.disruption_mode.meaning}")
    if (queued := gang.queued) is not None:
        say(out, 1, f"Kueue's Workload {queued.workload} waits in {_queues(queued)}")
    if gang.deadline:
        say(out, 1, gang.deadline)
    out.print()
    escapes = {escaped_pod.pod.key: escaped_pod for escaped_pod in gang.escaped}
    for member in gang.members:
        counts = f"{member.present} present, {member.bound} on nodes, needs {member.minimum} to start"
        say(out, 1, f"{member.name}: {counts}")
        for pod in pods:
            if pod.podclique == label_value(member.name):
                escape = escapes.get(pod.key)
                say(out, 2, f"{pod.name}: {', '.join((*_standing(pod), *((escape.escape.value,) if escape else ())))}")
    members = {label_value(member.name) for member in gang.members}
    for pod in (pod for pod in pods if pod.podclique not in members):
        if pod.podclique or pod.key not in escapes:
            say(out, 1, f"{pod.name}: of {pod.podclique or 'no PodClique'}, which is not a member of the {gang.kind}")
        else:
            say(out, 1, f"{pod.name}: {', '.join((*_standing(pod), escapes[pod.key].escape.value))}")
    if gang.further:
        say(out, 1, f"{gang.further} more that name a group of the {gang.kind} and are not its members")
    if gang.lost is not None:
        _print_lost_pods(gang.lost, out)
    for obstacle in gang.obstacles:
        out.print()
        out.print(Text.assemble("    ", (obstacle.reason.value, "bold red")))
        say(out, 2, f"why  {obstacle.why}")
        say(out, 2, f"do   {obstacle.remedy}")
    out.print()


def _print_lost_pods(lost: LostMembers, out: Console) -> None:
    out.print()
    say(out, 1, f"lost since {lost.loss.since}:")
    for pod in lost.loss.pods:
        node = f", from node {pod.node}" if pod.node else ""
        say(out, 2, f"{pod.name}: {pod.cause.words}{node}, at {pod.at}")
    if lost.loss.more:
        say(out, 2, f"{lost.loss.more} whose names are not known")


def _queues(queued: QueuedAs) -> str:
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


_LOSS_HEAD = ("NAMESPACE", "GANG", "SCHEDULER", "BOUND", "LOST", "CAUSE", "IDLE-GPUS", "GPU-HOURS", "PODS")


def print_losses(gangs: Sequence[GangHealth], out: Console, where: str) -> None:
    """Prints the gangs that lost pods. `where` follows the note that there are none."""
    rows = [_loss_row(gang, gang.lost) for gang in gangs if gang.lost is not None]
    if not rows:
        tell(f"no gang{where} has lost pods")
        return
    widths = column_widths((_LOSS_HEAD, *rows))
    print_row(_LOSS_HEAD, widths, dict.fromkeys(range(len(_LOSS_HEAD)), "dim"), out)
    for row in rows:
        print_row(row, widths, {}, out)


def _loss_row(gang: GangHealth, lost: LostMembers) -> tuple[str, ...]:
    pods = [f"{pod.name} ({pod.cause.value})" if len(lost.loss.causes) > 1 else pod.name for pod in lost.loss.pods]
    return (
        printable(gang.namespace),
        printable(f"{gang.kind.lower()}/{gang.name}" if gang.workload else gang.name),
        printable(gang.scheduler or "-"),
        f"{lost.bound}/{gang.minimum}",
        age(lost.loss.since),
        ",".join(cause.value for cause in lost.loss.causes),
        str(lost.gpus),
        f"{lost.gpu_hours:.1f}",
        printable(", ".join((*pods, *((f"{lost.loss.more} more",) if lost.loss.more else ()))) or "-"),
    )


POD_CLIQUE_SET = "PodCliqueSet"
POD = "Pod"
# The kinds that lead to gangs, by their kubectl names.
_KINDS = {
    "podgang": "PodGang",
    "podcliqueset": POD_CLIQUE_SET,
    "pcs": POD_CLIQUE_SET,
    "pod": POD,
    "po": POD,
    "job": "Job",
    "jobset": "JobSet",
    "leaderworkerset": "LeaderWorkerSet",
    "lws": "LeaderWorkerSet",
}
# An object as kubectl names it, with or without its namespace.
_NAMED = re.compile(
    r"(?P<kind>podgang|podcliqueset|pod|jobset|job|leaderworkerset|(?:pcs|po|lws)(?=/))s?/(?:(?P<namespace>[^/]+)/)?(?P<name>[^/]+)"
)
# What is written like one, with a kind that leads to no gang.
_LIKE_NAMED = re.compile(r"[A-Za-z.]+/[a-z0-9.-]*(?<!\.yaml)(?<!\.yml)(?<!\.json)")
# Why an object may have no gang.
_WITHOUT_ANY = ", or Rollcall makes no gang of it"
_WITHOUT = {"PodGang": "", POD_CLIQUE_SET: ", or Grove has made no PodGang of it", POD: ", or it belongs to no gang"}


def gangs_named(arguments: Sequence[str]) -> list[re.Match[str]] | None:
    """Returns the arguments as objects that have gangs; None if they are files. Raises `typer.BadParameter`."""
    matches = [_NAMED.fullmatch(argument) for argument in arguments]
    for argument, matched in zip(arguments, matches, strict=True):
        if matched is None and _LIKE_NAMED.fullmatch(argument) and not Path(argument.rpartition("/")[0]).exists():
            raise typer.BadParameter(
                f"{argument}: there is no such file, and the KIND of KIND/NAME must be one of {', '.join(_KINDS)}"
            )
    if not any(matches) or any(Path(argument).exists() for argument in arguments):
        return None
    if not all(matches):
        raise typer.BadParameter("KIND/NAME is in a cluster, and a file is not: explain them one after another")
    return [match for match in matches if match is not None]


def explain_gangs(
    matches: Sequence[re.Match[str]],
    namespace: str | None,
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    as_json: bool,
) -> int:
    """Prints what is known of each object and returns the exit code. Raises `AccessError`, `FactsUnavailable`."""
    from webhook.cluster.logs import configure
    from webhook.gangs.gang_view import looking

    configure()
    access, out = connected(kubeconfig, context), console()
    settings = settings_there(config, access)

    async def print_each() -> int:
        code, healths = CLEAN, []
        async with looking(settings, access) as look:
            for match in matches:
                kind, space = _KINDS[match["kind"]], match["namespace"] or namespace or access.namespace or "default"
                gangs = list(look.gangs_of_object(kind, space, match["name"]))
                room = await look.read_room()
                waiting = [health.key for health, _ in gangs if health.may_have_strangers]
                if await look.read_strangers(waiting) or room:
                    gangs = list(look.gangs_of_object(kind, space, match["name"]))
                tell_strangers_unknown(look)
                if not gangs:
                    tell(f"there is no {kind} {space}/{match['name']}{_WITHOUT.get(kind, _WITHOUT_ANY)}")
                    code = UNREADABLE
                for health, pods in gangs:
                    if health.is_troubled and code == CLEAN:
                        code = REFUSED
                    healths.append(health)
                    if not as_json:
                        print_gang(health, pods, out)
        if as_json:
            typer.echo(as_json_text({"gangs": [health.as_json() for health in healths]}))
        return code

    return asyncio.run(print_each())
