"""`python -m benchmarks.soak`: a server and a reconciler under a steady load with churn on a real API server, and
whether their memory and their open files stay flat. Exit code 1 where one of them grows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.churn import Churn
from benchmarks.control_planes import find_programs
from tests.e2e.background import Background
from tests.e2e.conftest import apply_crds, gated, until_asked
from tests.e2e.control_plane import ControlPlane
from tests.e2e.programs import Program
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer

# What a process may have grown by from the first third of what counts to the last, for it to be called flat: an
# allocator gives pages back when it likes, and a connection more or less is one of the hour.
_MEGABYTES, _SHARE, _FILES = 4.0, 0.05, 8
# Of a run, while caches fill and interned strings, compiled code and arenas find their size.
_WARM_UP = 1 / 3


class Sample(NamedTuple):
    """One process at one moment: seconds since the start, megabytes resident and of its own, open files.

    The kernel takes pages of files, such as libraries, from a process when memory runs short: they tell of no leak.
    """

    at: float
    resident: float
    own: float
    files: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--rate", type=float, default=100, help="requests a second (default 100)")
    parser.add_argument("--every", type=float, default=10, help="seconds between two samples (default 10)")
    parser.add_argument("--gangs", type=int, default=100, help="how many gangs live at a time (default 100)")
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    chosen = parser.parse_args()
    find_programs(f"kube-{chosen.kube}")
    plane = ControlPlane(chosen.kube)
    background = Background()
    try:
        apply_crds(plane)
        plane.start_controller_manager()
        sys.exit(_soak(plane, background, chosen))
    finally:
        background.close()
        plane.close()


def _soak(plane: ControlPlane, background: Background, chosen: argparse.Namespace) -> int:
    server, reconciler = RollcallServer(plane, gated()), ReconcilerProcess(plane, gated())
    server.until_ready()
    reconciler.until_leading()
    server.register()
    until_asked(plane)
    programs = {"server": server.program, "reconciler": reconciler.program}
    churn = Churn(plane, "default", chosen.rate, chosen.gangs, background)
    try:
        samples = _watched(plane, programs, churn, chosen.minutes * 60, chosen.every)
    finally:
        churn.close()
    grown = [name for name, found in samples.items() if _grows(name, found)]
    _print_counts(churn, server, reconciler)
    print("grown: " + ", ".join(grown) if grown else "nothing has grown", flush=True)
    return 1 if grown or churn.failed else 0


def _watched(
    plane: ControlPlane, programs: dict[str, Program], churn: Churn, seconds: float, every: float
) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    heads = "".join(f"{f'{name} MB':>15}{'own MB':>8}{'files':>7}" for name in programs)
    print(f"{'s':>7}{'requests':>10}{'failed':>8}{'gangs':>7}{'stored':>8}{heads}", flush=True)
    begun, due = time.monotonic(), 0.0
    while due <= seconds:
        time.sleep(max(0.0, begun + due - time.monotonic()))
        at, line = time.monotonic() - begun, ""
        for name, program in programs.items():
            program.check()
            found = Sample(at, program.resident_megabytes, program.own_megabytes, program.open_files)
            samples[name].append(found)
            line += f"{found.resident:>15.1f}{found.own:>8.1f}{found.files:>7}"
        print(
            f"{at:>7.0f}{churn.requests:>10}{len(churn.failed):>8}{churn.alive:>7}{_stored(plane):>8}{line}", flush=True
        )
        due += every
    return samples


def _stored(plane: ControlPlane) -> int:
    """How many PodGroups there are: what the cluster has not collected is kept in memory, and for no fault of ours."""
    path = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
    found = plane.http.get(path, params={"limit": "1"}).json()
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


def _grows(name: str, samples: Sequence[Sample]) -> bool:
    """Whether a process has grown since it was warm; the figures are printed."""
    warm = samples[int(len(samples) * _WARM_UP) :]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    hours = [sample.at / 3600 for sample in warm]
    found = False
    for what, unit, values, allowed in (
        ("own memory", "MB", [sample.own for sample in warm], _MEGABYTES),
        ("open files", "", [float(sample.files) for sample in warm], float(_FILES)),
    ):
        before, after = statistics.median(values[: len(first)]), statistics.median(values[-len(last) :])
        slope = statistics.linear_regression(hours, values).slope if len(warm) > 1 else 0.0
        limit = max(allowed, before * _SHARE)
        print(
            f"{name:<11}{what:<11}from {before:.1f} to {after:.1f} {unit} (at most {max(values):.1f}), "
            f"slope {slope:+.2f} an hour, allowed +{limit:.1f}"
        )
        found = found or after - before > limit
    return found


def _print_counts(churn: Churn, server: RollcallServer, reconciler: ReconcilerProcess) -> None:
    print(f"{churn.requests} requests in {churn.seconds:.0f} s ({churn.requests / churn.seconds:.0f}/s), by kind:")
    for kind, count in sorted(churn.kinds.items()):
        print(f"    {kind:<28}{count:>9}")
    lines = server.http.get("/metrics").text.splitlines()
    calls = sum(float(line.split()[-1]) for line in lines if line.startswith("rollcall_admission_requests_total{"))
    print(f"admission calls {calls:.0f}")
    print(f"writes of the reconciler {reconciler.metric('rollcall_writes_total'):.0f}")
    for failure in churn.failed[:10]:
        print(f"failed: {failure}")


if __name__ == "__main__":
    main()
