"""Objects that cost much to judge: their sender waits, and other callers wait not at all or not for long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import objects
from tests.hostile.conftest import Target, attacked_by

SECONDS = 4.0
# Of an ordinary caller's pace without an attack, at least this part must be left.
LEAST_PACE = 0.1

WORST = {
    "1,300 faults in a small set": objects.absent_cliques,
    "a small set of 22 groups over 22 cliques": lambda: objects.groups_over_cliques(22),
    "6,000 cliques and one suffix pair": objects.suffix_pair,
    "300 scaling groups over 300 cliques": objects.groups_over_cliques,
    "packDomain on 800 cliques": objects.constrained_cliques,
    "packDomain on 8,000 cliques": lambda: objects.constrained_cliques(8_000),
    "an update of 3 MB": objects.largest_set,
    "a refused update of 3 MB": lambda: objects.largest_set(denied=True),
}


@pytest.mark.parametrize("made", WORST.values(), ids=WORST.keys())
def test_ordinary_calls_are_answered_while_four_clients_send_the_worst_objects(
    target: Target,
    tmp_path: Path,
    made: Callable[[], bytes],
    request: pytest.FixtureRequest,
    measured: Callable[[str, str, str, str], None],
) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(made())
    quiet = target.call(1.0)
    with attacked_by("posts", target.serving.port, seconds=SECONDS, count=4, body=body) as counted:
        during = target.call(SECONDS)
    attack = f"{request.node.callspec.id}, four clients ({body.stat().st_size / 1e6:.1f} MB)"
    for name, calls, before in zip(("kept", "new", "health"), during, quiet, strict=True):
        assert calls.failed == [], name
        assert len(calls.milliseconds) > LEAST_PACE * len(before.milliseconds) * SECONDS, name
        p50, p99, worst = calls.percentiles
        measured(attack, f"{name}: p50, p99, worst", "p99 50 ms, worst 500 ms", f"{p50:.1f}, {p99:.1f}, {worst:.1f} ms")
    # Each of them was answered in time, or told that it was not.
    assert set(counted) <= {"connected", "200", "503", "504"}
    measured(attack, "answers to the attacker", "200, 503 or 504", str(dict(sorted(counted.items()))))
