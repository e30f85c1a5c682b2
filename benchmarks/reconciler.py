"""`python -m benchmarks.reconciler`: how long `rollcall reconcile` takes for many PodGangs from nothing on a real API
server, and what they cost when they are in step.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.control_planes import find_programs
from tests.e2e.conftest import KOORDINATOR, apply_crds
from tests.e2e.control_plane import ControlPlane
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.test_zero_cost import podgang, requests_of

_NAMESPACE = "default"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reconciler", description=__doc__)
    parser.add_argument("--gangs", type=int, default=1000, help="PodGangs, of 4 PodGroups each (default 1000)")
    parser.add_argument("--steady", type=float, default=60, help="seconds to watch it do nothing (default 60)")
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    chosen = parser.parse_args()
    find_programs(f"kube-{chosen.kube}")
    plane = ControlPlane(chosen.kube)
    try:
        apply_crds(plane)
        _measure(plane, chosen.gangs, chosen.steady)
    finally:
        plane.close()


def _measure(plane: ControlPlane, gangs: int, steady: float) -> None:
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{_NAMESPACE}/podgangs"
    with ThreadPoolExecutor(8) as clients:
        for answer in clients.map(lambda number: plane.http.post(path, json=podgang(number, _NAMESPACE)), range(gangs)):
            answer.raise_for_status()
    served = plane.api_server.processor_seconds
    begun = time.perf_counter()
    process = ReconcilerProcess(plane, KOORDINATOR)
    made = time.perf_counter() - begun
    try:
        process.until_leading()
        leading = time.perf_counter() - begun - made
        while process.metric("rollcall_writes_total") < 4 * gangs:
            process.program.check()
            time.sleep(0.25)
        taken = time.perf_counter() - begun - made
        process.until_settled()
        print(f"{gangs} PodGangs of 4 PodGroups from nothing, on {os.cpu_count()} processors")
        print(f"leads after                {leading:>8.1f} s")
        print(f"all written after          {taken:>8.1f} s   ({4 * gangs / taken:.0f} writes/s)")
        print(f"processor time, rollcall   {process.program.processor_seconds:>8.1f} s")
        print(f"processor time, API server {plane.api_server.processor_seconds - served:>8.1f} s")
        print(f"resident                   {process.program.resident_megabytes:>8.0f} MB")
        before, busy = requests_of(plane), process.program.processor_seconds
        time.sleep(steady)
        asked = {verb: count for verb, count in (requests_of(plane) - before).items() if verb != "WATCH"}
        print(f"then for {steady:.0f} s, requests about gangs: {asked or 'none'}")
        print(f"processor time             {process.program.processor_seconds - busy:>8.2f} s")
        print(f"resident                   {process.program.resident_megabytes:>8.0f} MB")
    finally:
        process.close()


if __name__ == "__main__":
    main()
