"""The lost pods of one gang on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from webhook.cli.explain_text import say

if TYPE_CHECKING:
    from webhook.gangs.losses import LostMembers


def print_lost_pods(lost: LostMembers, out: Console) -> None:
    """Print a line for each lost pod of a gang."""
    out.print()
    say(out, 1, f"lost since {lost.loss.since}:")
    for pod in lost.loss.pods:
        node = f", from node {pod.node}" if pod.node else ""
        say(out, 2, f"{pod.name}: {pod.cause.words}{node}, at {pod.at}")
    if lost.loss.more:
        say(out, 2, f"{lost.loss.more} whose names are not known")
