"""The soak of the benchmarks for one minute: it runs and prints its figures. A run of half an hour shows whether memory
grows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.soak, pytest.mark.alone]


def test_a_minute_of_churn_produces_samples_and_slopes(version: str) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes=1", "--every=5", "--rate=50", f"--kube={version}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    # So soon memory still grows: what the code says is of no matter here.
    assert ran.returncode in {0, 1}, ran.stderr
    lines = ran.stdout.splitlines()
    samples = [line.split() for line in lines[1:] if line.replace(".", "").replace(" ", "").isdigit()]
    assert len(samples) == 13, ran.stdout
    requests, failed = int(samples[-1][1]), int(samples[-1][2])
    assert requests > 0
    assert failed == 0, ran.stdout
    assert sum("slope" in line for line in lines) == 4
    assert lines[-1].startswith(("nothing has grown", "grown: ")), ran.stdout
