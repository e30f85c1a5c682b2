"""The net on real API servers: its CEL and admission's Python decide the same on thousands of pods."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path

import httpx
import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.control_plane import ADMIN, ControlPlane, Manifest
from tests.e2e.net_pods import SCHEDULERS, Case, Pods
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import rollcall
from webhook.backends.kube.workload_api import Generation, Served
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import ClusterFacts
from webhook.testing.start import may_start

POLICY = "validatingadmissionpolicies.admissionregistration.k8s.io"
# Where it is asked whether the net is there: no test labels it.
PROBED = "default"
_CLIENTS = 4
# What each Kubernetes has on a pod, and how the Workload API is spoken there.
_FIELDS: dict[str, tuple[str | None, Served | None]] = {
    "1.34": (None, None),
    "1.35": ("workloadRef", Served(Generation.V1ALPHA1, "v1alpha1")),
    "1.36": ("schedulingGroup", Served(Generation.V1ALPHA2, "v1alpha2")),
    "1.37": ("schedulingGroup", Served(Generation.TREE, "v1beta1", "v1alpha3")),
}
_POD = Kind("", "v1", "Pod")


def configuration(*, gangs: bool = True, net: str = "Deny", profiles: Iterable[str] = SCHEDULERS) -> Manifest:
    """Rollcall's configuration with these profiles and the net."""
    enabled: list[Manifest] = [{"name": name} for name in profiles]
    for profile in enabled:
        if profile["name"] == "default-scheduler":
            profile["config"] = {"gangScheduling": gangs}
    return configuration_of(*enabled, default="koord-scheduler", registration={"net": net})


def grove_pod(namespace: str, **spec: object) -> Manifest:
    """A pod as Grove creates it and Rollcall has not prepared it, without its gate."""
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "grove.io/podgang": "demo-0",
        "grove.io/podclique": "demo-0-worker",
    }
    container = {"name": "main", "image": "registry.example.com/main:1.0"}
    metadata = {"generateName": "demo-0-worker-", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def posted(plane: ControlPlane, pod: Manifest) -> httpx.Response:
    """The answer to the creation of a pod that is not stored."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    return plane.http.post(path, params={"dryRun": "All"}, json=pod)


def refused(answer: httpx.Response) -> bool:
    """Whether the net refused it. Any other refusal is an AssertionError."""
    if answer.is_success:
        return False
    assert "ValidatingAdmissionPolicy 'rollcall-net'" in answer.text, answer.text
    return True


@contextmanager
def spread(
    plane: ControlPlane, config: Manifest, folder: Path, namespace: str, *, refuses: bool = True
) -> Iterator[None]:
    """Apply the net of `rollcall manifests net`: wait until it takes effect, and at the end until it is removed."""
    file = folder / "rollcall.yaml"
    file.write_text(yaml.safe_dump(config))
    printed = rollcall("manifests", "net", "--config", file)
    plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed, check=True)
    free = grove_pod(PROBED)
    owned = grove_pod(PROBED)
    owned["metadata"]["labels"] = {"rollcall.dev/scheduler": "koord-scheduler"}
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1", "controller": True}
    ]

    def caught() -> list[bool]:
        answers = [posted(plane, probe) for probe in (free, owned)]
        return [
            refused(answer) if refuses else "rollcall-net" in answer.headers.get("Warning", "") for answer in answers
        ]

    try:
        # By both bindings, of each of which the API server learns by itself.
        eventually(lambda: all(caught()), "the net is spread", timeout=30)
        yield
    finally:
        plane.kubectl("delete", "-f", "-", stdin=printed, check=True)
        eventually(lambda: not any(caught()), "the net is gone", timeout=30)


class Difference:
    """The answers of the API server and of Python to the same pods."""

    def __init__(self, plane: ControlPlane, settings: Settings, namespace: str) -> None:
        self._plane = plane
        self._settings = settings
        self._namespace = namespace
        self._field, served = _FIELDS[plane.version]
        self._facts = ClusterFacts(apis=frozenset(() if served is None else served.kinds))
        self.counted: Counter[tuple[str, bool]] = Counter()
        self.disagreements: list[str] = []

    def draw(self, seed: int, number: int) -> list[Case]:
        """So many pods, a third of them changes of pods that are stored: now, so that the net has seen none of them."""
        pods = Pods(seed, self._namespace, self._field, self._job())
        stored = [self._stored(pods.stored()) for _ in range(number // 40)]
        return [pods.created() if index % 3 else pods.changed(stored[index % len(stored)]) for index in range(number)]

    def ask(self, cases: list[Case]) -> float:
        """Ask both about these; the API server's answers per second."""
        began = time.monotonic()
        with ThreadPoolExecutor(_CLIENTS) as clients:
            list(clients.map(self._compare, [cases[start::_CLIENTS] for start in range(_CLIENTS)]))
        return len(cases) / (time.monotonic() - began)

    def _job(self) -> Manifest:
        """A Job with an external controller, so that nothing changes the labels of its pods."""
        container = {"name": "main", "image": "registry.example.com/main:1.0"}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        metadata = {"generateName": "job-", "namespace": self._namespace}
        body = {"metadata": metadata, "spec": {"managedBy": "example.com/nobody", "template": template}}
        answer = self._plane.http.post(f"/apis/batch/v1/namespaces/{self._namespace}/jobs", json=body)
        assert answer.is_success, answer.text
        found: Manifest = answer.json()
        return found

    def _stored(self, pod: Manifest) -> Manifest:
        answer = self._plane.http.post(f"/api/v1/namespaces/{self._namespace}/pods", json=pod)
        assert answer.is_success, answer.text
        found: Manifest = answer.json()
        return found

    def _compare(self, cases: list[Case]) -> None:
        with closing(self._plane.new_client(ADMIN)) as http:
            for case in cases:
                answer = self._asked(http, case)
                theirs = not refused(answer)
                request = Request("1", case.operation, _POD, self._namespace, "", deepcopy(case.pod), case.old)
                ours = may_start(request, self._facts, self._settings)
                self.counted[case.operation, theirs] += 1
                if ours != theirs:
                    shown = {"pod": _short(case.pod), "old": case.old and _short(case.old)}
                    self.disagreements.append(f"Python {ours}, API server {theirs}: {json.dumps(shown)}\n{answer.text}")

    def _asked(self, http: httpx.Client, case: Case) -> httpx.Response:
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        if case.old is None:
            return http.post(path, params={"dryRun": "All"}, json=case.pod)
        return http.put(f"{path}/{case.pod['metadata']['name']}", params={"dryRun": "All"}, json=case.pod)


def _short(pod: Manifest) -> Manifest:
    kept = ("name", "labels", "annotations", "ownerReferences")
    metadata = {key: value for key, value in pod["metadata"].items() if key in kept}
    fields = ("schedulerName", "schedulingGates", "schedulingGroup", "workloadRef")
    return {"metadata": metadata, "spec": {key: value for key, value in pod["spec"].items() if key in fields}}


def compare(plane: ControlPlane, namespace: str, folder: Path, number: int, *, gangs: bool) -> Difference:
    """Send this many pods, and print the results."""
    config = configuration(gangs=gangs)
    found = Difference(plane, settings_from(config, "test"), namespace)
    cases = found.draw(20 + gangs, number)
    with spread(plane, config, folder, namespace):
        rate = found.ask(cases)
        warnings = plane.get(POLICY, "rollcall-net").get("status", {}).get("typeChecking", {})
    print(f"{plane.version}, gangs {gangs}: {dict(found.counted)}, {rate:.0f}/s, {len(found.disagreements)} differ")
    assert warnings == {}, warnings
    assert not found.disagreements, "\n".join(found.disagreements)
    return found


# 1.34 has no field by which a pod names its gang, 1.35 has another than the later ones.
@pytest.mark.every_version(soak=("1.36",))
def test_the_net_decides_like_admission(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    found = compare(plane, namespace, tmp_path, 1200, gangs=plane.version != "1.34")
    # Enough of each, so that none of the four answers is only thought to be given.
    assert min(found.counted[one] for one in found.counted) > 30, found.counted
    assert len(found.counted) == 4


@pytest.mark.soak
@pytest.mark.every_version(since="1.35")
@pytest.mark.parametrize("gangs", [True, False], ids=["gangs", "one by one"])
def test_the_net_decides_like_admission_on_thousands_of_pods(
    plane: ControlPlane, namespace: str, tmp_path: Path, gangs: bool
) -> None:
    compare(plane, namespace, tmp_path, 5000, gangs=gangs)
