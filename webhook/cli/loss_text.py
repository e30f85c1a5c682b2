"""`rollcall gangs --lost`: the gangs that lost pods since they had started, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from webhook.cli.gang_text import age
from webhook.cli.output import tell
from webhook.model.plain_text import printable

if TYPE_CHECKING:
    from webhook.gangs.health import GangHealth
    from webhook.gangs.losses import LostMembers

_HEAD = ("NAMESPACE", "GANG", "SCHEDULER", "BOUND", "LOST", "CAUSE", "IDLE-GPUS", "GPU-HOURS", "PODS")


def print_losses(found: Sequence[GangHealth], out: Console, where: str) -> None:
    """Print the gangs that lost pods. `where` follows the note that there are none."""
    rows = [_row(one, one.lost) for one in found if one.lost is not None]
    if not rows:
        tell(f"no gang{where} has lost pods")
        return
    # The last column is not padded.
    widths = [max(len(row[index]) for row in (_HEAD, *rows)) for index in range(len(_HEAD) - 1)]
    for row in (_HEAD, *rows):
        cells = [cell.ljust(width + 2) for cell, width in zip(row, widths, strict=False)]
        line = Text("".join((*cells, row[-1])).rstrip(), "dim" if row is _HEAD else "", no_wrap=True)
        out.print(line, overflow="ellipsis", no_wrap=True, crop=out.is_terminal)


def _row(one: GangHealth, lost: LostMembers) -> tuple[str, ...]:
    pods = [f"{pod.name} ({pod.cause.value})" if len(lost.loss.causes) > 1 else pod.name for pod in lost.loss.pods]
    return (
        printable(one.namespace),
        printable(f"{one.kind.lower()}/{one.name}" if one.workload else one.name),
        printable(one.scheduler or "-"),
        f"{lost.bound}/{one.minimum}",
        age(lost.loss.since),
        ",".join(cause.value for cause in lost.loss.causes),
        str(lost.gpus),
        f"{lost.gpu_hours:.1f}",
        printable(", ".join((*pods, *((f"{lost.loss.more} more",) if lost.loss.more else ()))) or "-"),
    )
