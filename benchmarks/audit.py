"""`python -m benchmarks.audit`: how long `rollcall audit` takes for many stored workloads and their pods on a real API
server, and how much memory it has at most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from benchmarks.control_planes import find_programs
from tests.configurations import configuration_of
from tests.e2e.conftest import apply_crds, further_crd_files
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.nodes import add_nodes
from tests.e2e.opted_in_workloads import job
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.workloads import clique, nvlink, pod_clique_set
from webhook.model.workload_record import SCHEDULER_LABEL

_CONFIGURATION = configuration_of("koord-scheduler", "volcano", "kai-scheduler")
_NAMESPACES = 50
_NODES = 100
_SETS = "/apis/grove.io/v1alpha1/namespaces/{}/podcliquesets"
_JOBS = "/apis/batch/v1/namespaces/{}/jobs"
_PODS = "/api/v1/namespaces/{}/pods"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--workloads", type=int, default=10_000, help="workloads (default 10000)")
    parser.add_argument("--pods", type=int, default=0, help="pods of gangs (default 0)")
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    chosen = parser.parse_args()
    find_programs(f"kube-{chosen.kube}")
    plane = ControlPlane(chosen.kube)
    try:
        apply_crds(plane)
        apply_crds(plane, further_crd_files("openreports"))
        _store(plane, chosen.workloads, chosen.pods)
        config = plane.folder / "today.yaml"
        config.write_text(yaml.safe_dump(_CONFIGURATION))
        print(f"{chosen.workloads} workloads and {chosen.pods} pods, on {os.cpu_count()} processors")
        asked = ("--today", config, "--kubeconfig", plane.write_kubeconfig(ADMIN), "-A")
        _measure("audit -A", plane.folder, *asked)
        _measure("audit -A -o json", plane.folder, *asked, "-o", "json")
        _measure("audit -A --as kai-scheduler", plane.folder, *asked, "--as", "kai-scheduler")
        _measure_reports(plane)
    finally:
        plane.close()


def _store(plane: ControlPlane, workloads: int, pods: int) -> None:
    spaces = [f"team-{number}" for number in range(_NAMESPACES)]
    for space in spaces:
        plane.http.post("/api/v1/namespaces", json={"metadata": {"name": space}}).raise_for_status()
        account = f"/api/v1/namespaces/{space}/serviceaccounts"
        plane.http.post(account, json={"metadata": {"name": "default"}})
    add_nodes(plane, _NODES, cpu=64, gpu=8)
    every = (*_workloads(workloads, spaces), *_pods(pods, workloads, spaces))
    with ThreadPoolExecutor(8) as clients:
        for answer in clients.map(lambda one: plane.http.post(one[0], json=one[1]), every):
            answer.raise_for_status()


def _workloads(count: int, spaces: list[str]) -> Iterator[tuple[str, Any]]:
    """Seven in ten are PodCliqueSets, of which some ask for what koord-scheduler cannot do; the others are Jobs."""
    for number in range(count):
        space, name = spaces[number % len(spaces)], f"work-{number}"
        if number % 10 >= 7:
            yield _JOBS.format(space), job(name, space, 2 + number % 7, labels={SCHEDULER_LABEL: "koord-scheduler"})
        elif number % 10 == 0:
            yield _SETS.format(space), nvlink(name, space)
        else:
            workers = clique("worker", 2 + number % 13, cpu=str(1 + number % 5), gpu=number % 8)
            yield _SETS.format(space), pod_clique_set(name, space, clique("leader", 1), workers)


def _pods(count: int, workloads: int, spaces: list[str]) -> Iterator[tuple[str, Any]]:
    """Pods of PodCliqueSets, as Grove makes them."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    for number in range(count):
        owner = number % workloads
        space, name = spaces[owner % len(spaces)], f"work-{owner}"
        labels = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": name,
            "grove.io/podgang": f"{name}-0",
            "grove.io/podclique": f"{name}-0-worker",
        }
        metadata = {"name": f"pod-{number}", "namespace": space, "labels": labels}
        yield _PODS.format(space), {"metadata": metadata, "spec": {"containers": [container]}}


def _measure(what: str, folder: Path, *arguments: str | Path) -> None:
    command = [str(Path(sys.executable).parent / "rollcall"), "audit", *map(str, arguments)]
    said = folder / "audit.out"
    begun = time.perf_counter()
    with said.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    taken, busy = time.perf_counter() - begun, used.ru_utime + used.ru_stime
    peak = used.ru_maxrss / 1024
    print(f"{what:<32}{taken:>8.1f} s {busy:>8.1f} s of processor {peak:>6.0f} MB at most, exit {process.returncode}")
    print(f"    {said.stat().st_size:,} bytes; {said.read_text().strip().splitlines()[-1][:200]}")


def _measure_reports(plane: ControlPlane) -> None:
    """Print how long the reconciler takes for an audit with its reports, and what it holds before and after."""
    process = ReconcilerProcess(plane, {**_CONFIGURATION, "audit": {"openReports": True}})
    try:
        process.until_leading()
        before, peak = process.program.resident_megabytes, 0.0
        begun = time.perf_counter()
        while not process.metric("rollcall_audit_finished_timestamp_seconds"):
            process.program.check()
            peak = max(peak, process.program.resident_megabytes)
            time.sleep(0.25)
        taken = time.perf_counter() - begun
        written = process.metric("rollcall_writes_total", kind="Report", action="apply")
        findings = process.metric("rollcall_audit_findings", action="deny")
        print(f"reports of the reconciler       {taken:>8.1f} s {before:>6.0f} MB before, {peak:.0f} MB at most")
        print(f"    {written:.0f} reports with {findings:.0f} refusals")
    finally:
        process.program.stop()
        process.http.close()


if __name__ == "__main__":
    main()
