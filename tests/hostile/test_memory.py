"""Bodies and uploads that would fill a careless server's memory: the process stays below the limit of its container."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import objects
from tests.hostile.conftest import Target, attacked_by

# The limit of the container, `resources.limits.memory`: over it the kernel kills the process.
LIMIT_MEGABYTES = 512
MEGABYTE = 1 << 20

BODIES = {
    "25 YAML documents of aliases": ("/check", objects.alias_documents),
    "5 MB of empty lists in YAML": ("/check", objects.yaml_of_empty_lists),
    "1 MB of empty lists in YAML": ("/check", lambda: objects.yaml_of_empty_lists(MEGABYTE - 100)),
    "1 MB of empty lists in JSON": ("/check", lambda: objects.json_of_empty_lists(MEGABYTE - 1000)),
    "25 YAML documents of aliases to explain": ("/capabilities", objects.alias_documents),
    "7 MB of empty lists in an AdmissionReview": ("/validate", lambda: objects.json_of_empty_lists(7_300_000)),
    "an update of 3 MB": ("/validate", objects.largest_set),
    "a JobSet of 100,000 empty Jobs": ("/mutate", objects.empty_jobs),
}


@pytest.mark.parametrize(("path", "made"), BODIES.values(), ids=BODIES.keys())
def test_bodies_that_expand_keep_the_process_below_its_memory_limit(
    target: Target,
    tmp_path: Path,
    path: str,
    made: Callable[[], bytes],
    request: pytest.FixtureRequest,
    measured: Callable[[str, str, str, str], None],
) -> None:
    body = tmp_path / "body"
    body.write_bytes(made())
    before = target.resident_megabytes()
    with attacked_by("posts", target.serving.port, seconds=3, count=16, body=body, path=path) as counted:
        during = target.call(3)
    assert target.alive
    highest = target.highest_megabytes()
    measured(
        f"{request.node.callspec.id}, 16 clients",
        "highest resident memory",
        f"{LIMIT_MEGABYTES} MiB",
        f"{highest:.0f} MiB (before {before:.0f})",
    )
    assert highest < LIMIT_MEGABYTES
    assert during.kept.failed == during.new.failed == during.health.failed == []
    assert counted["connected"] >= 16


@pytest.mark.parametrize("uploads", [90, 250])
def test_stalled_uploads_are_ended_and_ordinary_calls_continue(
    target: Target, uploads: int, measured: Callable[[str, str, str, str], None]
) -> None:
    before = target.resident_megabytes()
    with attacked_by("stalled_uploads", target.serving.port, seconds=6, count=uploads) as counted:
        during = target.call(6)
    highest = target.highest_megabytes()
    attack = f"{uploads} stalled uploads of 6.9 MB"
    measured(attack, "highest resident memory", f"{LIMIT_MEGABYTES} MiB", f"{highest:.0f} MiB (before {before:.0f})")
    measured(attack, "ordinary calls, new: p99", "answered", f"{during.new.percentiles.p99:.0f} ms")
    assert highest < LIMIT_MEGABYTES
    assert during.kept.failed == during.new.failed == during.health.failed == []
    assert counted["connected"] >= uploads
