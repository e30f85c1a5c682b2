"""Two hundred TrainJobs at once under Kueue, with room for twenty: none starts in part, all finish, each one that waits
says why. The same while Rollcall is restarted again and again. The bindings are counted at the API server.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.kube_configuration import configuration
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import QUEUE_NAME, one_queue
from tests.e2e.opted_in_workloads import train_job, training_runtime
from tests.e2e.pod_life import let_succeed
from tests.e2e.pod_watch import pods_seen, repeated
from tests.e2e.programs import COMMAND, eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workload_objects import MERGE, created, listed

pytestmark = [pytest.mark.soak, pytest.mark.alone]
LABEL = "rollcall.dev/scheduler"
NAME = "jobset.sigs.k8s.io/jobset-name"
TRAIN_JOBS, ROOM, PODS = 200, 20, 2
# A scheduler binds the pods of a gang one after another. A gang that was started in part stays so.
IN_PART_SECONDS = 5.0
RUN_SECONDS = 2.0
RESTART_SECONDS = 10.0


class Case(NamedTuple):
    scheduler: str
    name: str
    config: Manifest


CASES: dict[str, dict[str, Case]] = {
    "1.37": {
        "kube": Case("kube", "default-scheduler", configuration()),
        "koordinator": Case("koordinator", "koord-scheduler", gated()),
    }
}


class Counted:
    """What a watch on the pods of a namespace has seen: the most gangs at a time, and those that stayed in part."""

    def __init__(self) -> None:
        self.bound: dict[str, dict[str, float]] = {}
        self.running: dict[str, set[str]] = {}
        self.part_since: dict[str, float] = {}
        self.in_part: dict[str, float] = {}
        self.most = 0
        self.pods: dict[str, Manifest] = {}
        self.lock = threading.Lock()

    def see(self, kind: str, pod: Manifest) -> None:
        """One event of the watch."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["labels"].get(NAME, "")
        ended = kind == "DELETED" or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        with self.lock:
            running = self.running.setdefault(name, set())
            if "nodeName" in pod["spec"] and not ended:
                running.add(uid)
                self.pods[uid] = pod
            else:
                running.discard(uid)
                self.pods.pop(uid, None)
            self.most = max(self.most, sum(bool(found) for found in self.running.values()))
            self._part(name, len(running), ended=ended)

    def _part(self, name: str, running: int, *, ended: bool) -> None:
        now = time.monotonic()
        if 0 < running < PODS and not ended:
            self.part_since.setdefault(name, now)
        elif name in self.part_since and (running in {0, PODS}):
            lasted = now - self.part_since.pop(name)
            self.in_part[name] = max(lasted, self.in_part.get(name, 0.0))

    @property
    def whole(self) -> dict[str, list[Manifest]]:
        """The pods of each gang that runs whole."""
        with self.lock:
            return {name: [self.pods[uid] for uid in uids] for name, uids in self.running.items() if len(uids) == PODS}

    def worst(self) -> float:
        """How long a gang was in part at most, also now."""
        now = time.monotonic()
        with self.lock:
            return max([*self.in_part.values(), *(now - since for since in self.part_since.values())], default=0.0)


@contextmanager
def counted(plane: ControlPlane, namespace: str) -> Iterator[Counted]:
    """Count while the block runs."""
    found = Counted()
    with pods_seen(plane, namespace, found.see):
        yield found


@contextmanager
def finishing(plane: ControlPlane, found: Counted) -> Iterator[set[str]]:
    """Have each gang that runs whole succeed after a moment; the names of those that have."""
    ended, since = set[str](), dict[str, float]()

    def look() -> None:
        for name, pods in found.whole.items():
            begun = since.setdefault(name, time.monotonic())
            if name not in ended and time.monotonic() - begun > RUN_SECONDS:
                let_succeed(plane, pods)
                ended.add(name)

    with repeated(look, 0.25):
        yield ended


@contextmanager
def restarting(*programs: RollcallServer | ReconcilerProcess) -> Iterator[list[float]]:
    """Stop and start the programs every ten seconds; the times at which that was done."""
    done = list[float]()

    def again() -> None:
        for one in programs:
            one.program.stop()
            one.program.start()
        done.append(time.monotonic())

    with repeated(again, RESTART_SECONDS):
        yield done


def unexplained(plane: ControlPlane, config: Path, namespace: str) -> tuple[int, set[str]]:
    """How many gangs wait, and those of them for which `rollcall gangs` has no reason."""
    command: list[str | Path] = [
        COMMAND,
        "gangs",
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={config}",
        "-n",
        namespace,
    ]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in {0, 1}, done.stderr
    waiting = [one for one in json.loads(done.stdout)["gangs"] if one["state"] in {"queued", "held", "suspended"}]
    return len(waiting), {f"{one['name']}: {one['state']}" for one in waiting if not one["reasons"]}


@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "restarted every ten seconds"])
@pytest.mark.cases(CASES)
def test_no_train_job_of_two_hundred_starts_in_part_and_all_finish(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
    for_the_test: Callable[[Manifest], Manifest],
    case: Case,
    restarted: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    controllers(plane, "jobset", "trainer", "kueue")
    scheduler(plane, case.scheduler)
    served, kept = rollcall(plane, case.config), reconciler(case.config)
    kept.until_leading()
    body = {"metadata": {"labels": {LABEL: case.name}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    nodes(ROOM // 4, cpu=4 * PODS)
    runtime = for_the_test(training_runtime(f"{namespace}-torch"))["metadata"]["name"]
    begun = time.monotonic()
    with one_queue(plane, namespace, {"cpu": ROOM * PODS}), counted(plane, namespace) as found:
        disturbed = restarting(served, kept) if restarted else nothing()
        with finishing(plane, found) as ended, disturbed as restarts:
            queued = {QUEUE_NAME: "queue"}
            for index in range(TRAIN_JOBS):
                until_created(plane, train_job(f"tune-{index}", namespace, runtime, nodes=PODS, labels=queued))
            waited, silent = 0, set[str]()
            if not restarted:
                # A gang that Kueue admits at this moment is silent in one look.
                waited, silent = unexplained(plane, kept.config, namespace)
                silent &= unexplained(plane, kept.config, namespace)[1]

            def finished() -> bool:
                jobs = listed(plane, "trainer.kubeflow.org/v1alpha1", "TrainJob", namespace)
                complete = [one for one in jobs if is_complete(one)]
                assert len(complete) == TRAIN_JOBS, (
                    f"{len(complete)} complete, {len(ended)} ended, {found.most} at most"
                )
                return True

            eventually(finished, "all TrainJobs are complete", timeout=1500, pause=2)
        with capsys.disabled():
            print(
                f"\n{case.name}: {TRAIN_JOBS} TrainJobs in {time.monotonic() - begun:.0f} s, at most {found.most} at a "
                f"time, in part for at most {found.worst():.2f} s, {waited} waited when all were stored, "
                f"{len(silent)} of them unexplained, {len(restarts)} restarts"
            )
        assert found.worst() < IN_PART_SECONDS, found.in_part
        assert found.most <= ROOM
        assert silent == set()


@contextmanager
def nothing() -> Iterator[list[float]]:
    """No restart."""
    yield []


def until_created(plane: ControlPlane, manifest: Manifest) -> None:
    """Store an object; a person would try again while Rollcall is away."""

    def there() -> bool:
        created(plane, manifest)
        return True

    eventually(there, "it is stored", timeout=60, pause=0.5)


def is_complete(train_job: Manifest) -> bool:
    """Whether Trainer says so."""
    conditions = train_job.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Complete", "True") for one in conditions)
