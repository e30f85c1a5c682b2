"""A cluster in which workloads that are not Grove's start as gangs: schedulers, controllers, Rollcall's server and
reconciler, and a namespace that is opted in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from tests.configurations import configuration_of
from tests.e2e.bound_pods import FORGOTTEN_SECONDS, QUIET_SECONDS
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Reconcilers, Rollcall, Scheduler
from tests.e2e.kube_configuration import configuration
from tests.e2e.opted_in_workloads import job
from tests.e2e.programs import eventually
from tests.e2e.test_coscheduling_gangs import CONFIG as COSCHEDULING
from tests.e2e.workload_objects import MERGE, listed, path_of

LABEL = "rollcall.dev/scheduler"
# The version of Koordinator's PodGroups.
POD_GROUPS = "scheduling.sigs.k8s.io/v1alpha1"
# Without a kubelet nothing ends the containers of a pod.
AT_ONCE = {"gracePeriodSeconds": "0"}
# Where the schedulers have the minimum of a gang.
_MINIMUMS: Mapping[str, Callable[[Manifest], int]] = {
    POD_GROUPS: lambda group: int(group["spec"]["minMember"]),
    "scheduling.k8s.io/v1beta1": lambda group: int(group["spec"]["schedulingPolicy"]["gang"]["minCount"]),
    "scheduling.k8s.io/v1alpha2": lambda group: int(group["spec"]["schedulingPolicy"]["gang"]["minCount"]),
}


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
KOORDINATOR = Chosen("koordinator", "koord-scheduler", configuration_of("koord-scheduler"))
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

    @property
    def minimums(self) -> Mapping[str, int]:
        """The minimum of each PodGroup of Koordinator and of kube-scheduler, by name."""
        found = {}
        for version, of in _MINIMUMS.items():
            answer = self.plane.http.get(path_of(version, "PodGroup", self.namespace))
            groups = answer.json()["items"] if answer.is_success else ()
            found.update({group["metadata"]["name"]: of(group) for group in groups})
        return found

    def needs(self, count: int) -> None:
        """Wait until the gangs need so many pods in all."""

        def follows() -> bool:
            assert sum(self.minimums.values()) == count, f"{self.minimums} are not {count} pods"
            return True

        eventually(follows, "the minimums follow the number of pods")

    def lose(self, name: str) -> None:
        """A pod is gone at once."""
        path = path_of("v1", "Pod", self.namespace, name)
        self.plane.http.delete(path, params=AT_ONCE).raise_for_status()

    def bound(self, key: str = LABEL) -> Mapping[str, int]:
        """How many pods are on nodes, by the value of a label."""
        found: dict[str, int] = {}
        for pod in self.pods:
            value = pod["metadata"]["labels"][key]
            found[value] = found.get(value, 0) + ("nodeName" in pod["spec"])
        return found

    def ungated(self) -> None:
        """Wait until no pod is gated. The API server's check of owner references knows a new kind only some ten seconds
        after its definition, and until then refuses the gang's objects.
        """

        def free() -> bool:
            return not any("schedulingGates" in pod["spec"] for pod in self.pods)

        eventually(free, "the gates come off", timeout=90)

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
                self.plane.http.delete(path_of("v1", "Pod", self.namespace, pod["metadata"]["name"]), params=AT_ONCE)

    def _touch(self) -> None:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.namespace}/podgroups"
        body = {"metadata": {"annotations": {"example.com/touched": str(time.monotonic())}}}
        for group in self.plane.items(path):
            self.plane.http.patch(f"{path}/{group['metadata']['name']}", json=body, headers=MERGE).raise_for_status()


def opted_in(plane: ControlPlane, namespace: str, scheduler: str, *, asks: bool = True) -> OptedIn:
    """Label a namespace. If Rollcall serves, wait until the API server `asks` it about the workloads there."""
    body = {"metadata": {"labels": {LABEL: scheduler}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    path, probe = path_of("batch/v1", "Job", namespace), job("probe", namespace)

    def asked() -> bool:
        # Its label, or the name of its hook.
        return "rollcall.dev" in plane.http.post(path, params={"dryRun": "All"}, json=probe).text

    if asks:
        eventually(asked, "the API server asks about the namespace")
    return OptedIn(plane, namespace)


Start = Callable[..., OptedIn]


@pytest.fixture
def start(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    controllers: Controllers,
    namespace: str,
) -> Start:
    """An opted-in namespace with everything for a scheduler, and other controllers: `start(KOORDINATOR, "kuberay")`."""

    def started(chosen: Chosen, *systems: str) -> OptedIn:
        controllers(plane, *systems)
        scheduler(plane, chosen.scheduler)
        rollcall(plane, chosen.config)
        reconciler(chosen.config).until_leading()
        return opted_in(plane, namespace, chosen.name)

    return started
