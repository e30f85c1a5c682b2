"""Floods: many unread answers, many pipelined requests, and many connections one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.conftest import Target, attacked_by
from tests.hostile.objects import ordinary

# The limit of the container, `resources.limits.memory`: over it the kernel kills the process.
LIMIT_MEGABYTES = 512
FILES = 256
Measure = Callable[[str, str, str, str], None]


def test_unread_answers_keep_the_process_below_its_memory_limit(
    target: Target, tmp_path: Path, measured: Measure
) -> None:
    body = tmp_path / "body"
    body.write_bytes(ordinary().replace(b'"uid":"', b'"uid":"' + b"a" * 6_900_000))
    before = target.resident_megabytes()
    with attacked_by("unread_posts", target.serving.port, seconds=5, count=30, body=body) as counted:
        during = target.call(5)
    highest = target.highest_megabytes()
    attack = "30 clients with a uid of 6.9 MB that read nothing"
    measured(attack, "highest resident memory", f"{LIMIT_MEGABYTES} MiB", f"{highest:.0f} MiB (before {before:.0f})")
    assert highest < LIMIT_MEGABYTES
    assert during.kept.failed == during.new.failed == during.health.failed == []
    assert counted["connected"] == 30


def test_pipelined_requests_are_not_buffered_without_limit(target: Target, measured: Measure) -> None:
    before = target.resident_megabytes()
    with attacked_by("sent_ahead", target.serving.port, seconds=5, count=60) as counted:
        during = target.call(5)
    highest = target.highest_megabytes()
    attack = "60 clients that send 3,000 requests in one breath"
    measured(attack, "highest resident memory", f"{LIMIT_MEGABYTES} MiB", f"{highest:.0f} MiB (before {before:.0f})")
    assert highest < LIMIT_MEGABYTES
    assert during.kept.failed == during.new.failed == during.health.failed == []
    assert counted["connected"] > 60
    assert target.serving.metric("rollcall_connections_closed_total", reason="pipelined") >= 60


@pytest.mark.parametrize("known", [0, 300])
def test_new_callers_are_answered_while_a_flood_replaces_connections(
    start: Callable[..., Target], tmp_path: Path, known: int, measured: Measure
) -> None:
    target = start(FILES)
    body = tmp_path / "body"
    body.write_bytes(ordinary())
    with attacked_by("known_and_flood", target.serving.port, seconds=5, count=known, body=body) as counted:
        during = target.call(5)
    for name, calls in zip(("kept", "new", "health"), during, strict=True):
        measured(
            f"{known} known connections and {counted['connected'] / 5:.0f} new ones a second, {FILES} file descriptors",
            f"{name}: answered, failed",
            "19 of 20",
            f"{len(calls.milliseconds)}, {len(calls.failed)}",
        )
        # A new connection may be replaced in the moment in which its first review comes.
        assert len(calls.failed) * 20 <= len(calls.milliseconds), (name, calls.failed)
    assert counted["connected"] > FILES
    # Those of a flood alone may hang up before their places are needed; known ones stay, and are more than there are.
    assert not known or target.serving.metric("rollcall_connections_closed_total", reason="replaced") > 0
