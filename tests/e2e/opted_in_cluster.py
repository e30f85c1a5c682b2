"""A cluster in which workloads that are not Grove's start as gangs: schedulers, controllers, Rollcall's server and
reconciler, and a namespace that is opted in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.test_coscheduling_gangs import CONFIG as COSCHEDULING
from tests.e2e.test_gang_starts import FORGOTTEN_SECONDS, QUIET_SECONDS
from tests.e2e.test_kube_gangs import configuration
from tests.e2e.workload_objects import MERGE, listed

LABEL = "rollcall.dev/scheduler"


class Chosen(NamedTuple):
    """A scheduler, its name among profiles, and how Rollcall is configured for it."""

    scheduler: str
    name: str
    config: Manifest


def with_the_gate(config: Manifest) -> Manifest:
    """The same with the pod gate, which is off for default-scheduler by default."""
    profiles = [{**profile, "gate": True} for profile in config["scheduler"]["profiles"]]
    return {**config, "scheduler": {**config["scheduler"], "profiles": profiles}}


KUBE = Chosen("kube", "default-scheduler", with_the_gate(configuration()))
KOORDINATOR = Chosen("koordinator", "koord-scheduler", gated())
PLUGINS = Chosen("scheduler-plugins", "scheduler-plugins-scheduler", COSCHEDULING)
# Every scheduler that is a Go module; the versions of Kubernetes matter to its own alone.
EVERY: dict[str, dict[str, Chosen]] = {
    "1.37": {"kube": KUBE, "koordinator": KOORDINATOR, "scheduler-plugins": PLUGINS},
    "1.36": {"kube": KUBE},
    "1.35": {"kube": KUBE},
}


class OptedIn(NamedTuple):
    """The cluster and the namespace."""

    plane: ControlPlane
    namespace: str

    @property
    def pods(self) -> list[Manifest]:
        """The pods of the namespace that are not being deleted."""
        found = listed(self.plane, "v1", "Pod", self.namespace)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def bound(self, key: str = LABEL) -> Mapping[str, int]:
        """How many pods are on nodes, by the value of a label."""
        found: dict[str, int] = {}
        for pod in self.pods:
            value = pod["metadata"]["labels"][key]
            found[value] = found.get(value, 0) + ("nodeName" in pod["spec"])
        return found

    def ungated(self) -> None:
        """Wait until no pod is gated."""
        eventually(lambda: not any("schedulingGates" in pod["spec"] for pod in self.pods), "the gates come off")

    def stays(self, expected: Callable[[], bool], what: str) -> None:
        """That holds now, and for as long as a scheduler would need to change it."""
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            assert expected(), f"{what}: {self.bound()}"
            time.sleep(0.25)

    def all_wait(self) -> None:
        """No pod is bound, and none will be."""
        self.stays(lambda: sum(self.bound().values()) == 0, "no pod starts")

    def all_bound(self, count: int, operator: Callable[[], object] | None = None) -> None:
        """Wait until there are so many pods, all of them on nodes. A gang that its scheduler forgets is helped now and
        then; `operator` creates the pods again where no controller does.
        """
        deadline = time.monotonic() + FORGOTTEN_SECONDS

        def whole() -> bool:
            nonlocal deadline
            found = self.bound()
            if sum(found.values()) < count and time.monotonic() > deadline:
                deadline = time.monotonic() + FORGOTTEN_SECONDS
                self._remind()
                if operator is not None:
                    operator()
            assert sum(found.values()) == count, f"{found} of {count} pods are bound"
            return True

        eventually(whole, "all pods are bound", timeout=120, pause=0.2)

    def _remind(self) -> None:
        """koord-scheduler 1.8 forgets a rejected gang for minutes, until its pods are replaced; a change of its
        PodGroup takes one of scheduler-plugins (v0.34.7) out of the queue.
        """
        for pod in self.pods:
            if pod["spec"]["schedulerName"] == PLUGINS.name:
                self._touch()
                return
            if "nodeName" not in pod["spec"]:
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                self.plane.http.delete(path, params={"gracePeriodSeconds": "0"})

    def _touch(self) -> None:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.namespace}/podgroups"
        body = {"metadata": {"annotations": {"example.com/touched": str(time.monotonic())}}}
        for group in self.plane.items(path):
            self.plane.http.patch(f"{path}/{group['metadata']['name']}", json=body, headers=MERGE).raise_for_status()


def opted_in(plane: ControlPlane, namespace: str, scheduler: str) -> OptedIn:
    """Label a namespace."""
    body = {"metadata": {"labels": {LABEL: scheduler}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    return OptedIn(plane, namespace)
