"""Idle connections: they are closed for connections that carry requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.hostile.conftest import Target, attacked_by

FILES = 256
Measure = Callable[[str, str, str, str], None]


def silence(target: Target, attack: str, port: int, whose: str, measured: Measure) -> None:
    """Open 300 silent connections to a port, and expect that every ordinary call is answered meanwhile."""
    with attacked_by(attack, port, seconds=5, count=300) as counted:
        during = target.call(5)
    for name, calls in zip(("kept", "new", "health"), during, strict=True):
        measured(
            f"300 connections{whose}, {attack}, {FILES} file descriptors",
            f"{name}: answered, p99",
            "all answered",
            f"{len(calls.milliseconds)}, {calls.percentiles.p99:.0f} ms",
        )
        assert calls.failed == [], name
    assert counted["connected"] >= 300


@pytest.mark.parametrize("attack", ["idle_tls", "idle_tcp", "half_heads"])
def test_idle_connections_leave_file_descriptors_for_other_callers(
    start: Callable[..., Target], attack: str, measured: Measure
) -> None:
    target = start(FILES)
    silence(target, attack, target.serving.port, "", measured)


@pytest.mark.parametrize("attack", ["idle_tcp", "plain_half_heads"])
def test_idle_connections_to_the_health_port_do_not_block_other_callers(
    start: Callable[..., Target], attack: str, measured: Measure
) -> None:
    target = start(FILES)
    silence(target, attack, target.serving.health_port, " to the health port", measured)
