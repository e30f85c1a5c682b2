"""`python -m benchmarks.reconciler`: how long `rollcall reconcile` takes for many PodGangs from nothing on a real API
server, and what they cost when they are in step.
"""

from __future__ import annotations

import argparse
import os
import time
from http import HTTPStatus
from statistics import median

from benchmarks.control_planes import find_programs
from benchmarks.stored_gangs import MEMBERS, Cluster, store
from tests.configurations import configuration_of
from tests.e2e.conftest import KOORDINATOR, apply_crds
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import Program, eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.requests_counted import requests_of, shown
from webhook.config.file import settings_from
from webhook.model.facts import ClusterFacts

# What a busy machine may take to read 100,000 objects, or to judge them; the first is part of what is measured.
_MOST_SECONDS = 300.0
_LAG = "rollcall_event_loop_lag_seconds"
_CONFIGURATIONS = {
    "koord-scheduler": KOORDINATOR,
    "default-scheduler": configuration_of(
        {
            "name": "default-scheduler",
            "gate": False,
            "config": {"gangScheduling": True},
        }
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reconciler", description=__doc__)
    parser.add_argument("--gangs", type=int, default=1000, help="PodGangs, of 4 PodGroups each (default 1000)")
    parser.add_argument("--pods", type=int, default=0, help="pods of these gangs; half of the gangs run (default 0)")
    parser.add_argument("--namespaces", type=int, default=20, help="the namespaces they are in (default 20)")
    parser.add_argument("--replicas", type=int, default=10, help="gangs of each PodCliqueSet (default 10)")
    parser.add_argument("--steady", type=float, default=60, help="seconds to watch it do nothing (default 60)")
    parser.add_argument(
        "--newcomers", type=int, default=0, help="gangs that come to a namespace of their own meanwhile"
    )
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    parser.add_argument("--scheduler", choices=_CONFIGURATIONS, default="koord-scheduler")
    chosen = parser.parse_args()
    if chosen.newcomers and chosen.scheduler != "koord-scheduler":
        parser.error("--newcomers have PodGroups of koord-scheduler")
    find_programs(f"kube-{chosen.kube}")
    plane = ControlPlane(chosen.kube)
    try:
        apply_crds(plane)
        names = tuple(f"team-{number}" for number in range(chosen.namespaces))
        profile = settings_from(_CONFIGURATIONS[chosen.scheduler], "the benchmark").profiles[chosen.scheduler]
        facts = ClusterFacts(apis=frozenset(profile.backend.writable_kinds))
        _fill(plane, Cluster(profile, chosen.gangs, chosen.pods, names, facts, chosen.replicas))
        _measure(plane, _CONFIGURATIONS[chosen.scheduler], chosen.gangs, chosen.newcomers, chosen.steady)
    finally:
        plane.close()


def _fill(plane: ControlPlane, cluster: Cluster) -> None:
    """Store the gangs, and wait until the API server has read them."""
    for name in cluster.namespaces:
        metadata = {"name": name}
        plane.http.post("/api/v1/namespaces", json={"metadata": metadata}).raise_for_status()
    stored = store(plane, cluster.objects())
    path = "/apis/scheduler.grove.io/v1alpha1/podgangs"

    def read() -> bool:
        found = plane.http.get(path, params={"limit": "1"}).json()
        left = found["metadata"].get("remainingItemCount", 0)
        assert len(found["items"]) + left == cluster.gangs, f"{left} PodGangs"
        return True

    eventually(read, "the API server has read the PodGangs", timeout=120, pause=0.5)
    print(f"{stored} objects are stored")


def _measure(plane: ControlPlane, config: Manifest, gangs: int, newcomers: int, steady: float) -> None:
    etcd = plane.workplace.programs[0]
    served, kept, before = plane.api_server.processor_seconds, etcd.processor_seconds, requests_of(plane)
    begun = time.perf_counter()
    process = ReconcilerProcess(plane, config, as_pod=True)
    made = time.perf_counter() - begun
    try:
        process.until_leading(_MOST_SECONDS)
        leading = time.perf_counter() - begun - made
        waited = [_newcomer(plane, number) for number in range(newcomers)]
        gangs += newcomers
        while process.metric("rollcall_reconciled_total", outcome="written") < gangs:
            process.program.check()
            # Each look takes the reconciler some milliseconds.
            time.sleep(2)
        taken = time.perf_counter() - begun - made
        writes = process.metric("rollcall_writes_total")
        process.until_settled(_MOST_SECONDS)
        came = f"{max(waited):>8.1f} s at most, {median(waited):.1f} s the median" if waited else "       none"
        print(
            f"{gangs} PodGangs of {MEMBERS} PodGroups from nothing, on {os.cpu_count()} processors",
            f"leads after                {leading:>8.1f} s",
            f"a gang that came then      {came}",
            f"all written after          {taken:>8.1f} s   ({writes / taken:.0f} writes/s)",
            f"processor time, rollcall   {process.program.processor_seconds:>8.1f} s",
            f"processor time, API server {plane.api_server.processor_seconds - served:>8.1f} s",
            f"processor time, etcd       {etcd.processor_seconds - kept:>8.1f} s",
            sep="\n",
        )
        _memory(process.program)
        print(f"requests                   {shown(requests_of(plane) - before)}")
        before = requests_of(plane)
        while process.metric("rollcall_gangs") < gangs:
            process.program.check()
            time.sleep(2)
        # An event about a gang comes only when the gang was held for a while.
        _wait(process, 30)
        print(f"until all are judged       {shown(requests_of(plane) - before)}")
        print(f"processor time, rollcall   {process.program.processor_seconds:>8.1f} s")
        before, busy = requests_of(plane), process.program.processor_seconds
        _wait(process, steady)
        print(f"in {steady:.0f} s after these      {shown(requests_of(plane) - before)}")
        print(f"processor time             {process.program.processor_seconds - busy:>8.2f} s")
        _memory(process.program)
        _lateness(process)
    finally:
        process.close()


def _lateness(process: ReconcilerProcess) -> None:
    """Print how late the event loop was: it is measured four times a second."""
    measured = process.metric(f"{_LAG}_count")
    for edge in ("0.05", "0.1", "1.0"):
        share = process.metric(f"{_LAG}_bucket", le=edge) / measured
        print(f"loop late by {float(edge):4.2f} s at most {share:>8.2%} of {measured:.0f} times")
    print(f"lease lost                 {process.metric('rollcall_lease_lost_total'):>8.0f} times")


def _newcomer(plane: ControlPlane, number: int) -> float:
    """Create a set with one gang in a namespace of its own, and return the seconds until the gang has its PodGroups."""
    namespace, name = "newcomers", f"new-{number}"
    plane.create_namespace(namespace)
    clique = {"roleName": "a", "replicas": 2, "minAvailable": 2, "podSpec": {"containers": []}}
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    made = plane.http.post(
        f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets",
        json={
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": 1, "template": {"cliques": [{"name": "a", "spec": clique}]}},
        },
    )
    uid = made.raise_for_status().json()["metadata"]["uid"]
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": name, "uid": uid, "controller": True}
    plane.http.post(
        f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliques",
        json={
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {"name": f"{name}-0-a", "ownerReferences": [owner]},
            "spec": clique,
        },
    ).raise_for_status()
    begun = time.perf_counter()
    plane.http.post(
        f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs",
        json={
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {
                "name": f"{name}-0",
                "labels": {"app.kubernetes.io/part-of": name},
                "ownerReferences": [owner],
            },
            "spec": {"podgroups": [{"name": f"{name}-0-a", "minReplicas": 2, "podReferences": []}]},
        },
    ).raise_for_status()
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{name}-0-a"
    eventually(lambda: plane.http.get(path).status_code == HTTPStatus.OK, "its PodGroup", timeout=600)
    return time.perf_counter() - begun


def _wait(process: ReconcilerProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        process.program.check()
        time.sleep(0.5)


def _memory(program: Program) -> None:
    print(f"resident                   {program.resident_megabytes:>8.0f} MB, {program.peak_megabytes:.0f} MB at most")


if __name__ == "__main__":
    main()
