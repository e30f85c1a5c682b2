"""Pods of the server's Deployment as a kubelet runs them: made of its template, each with the process that its
container would be, and a status that follows /readyz. Who is behind the Service the EndpointSlice controller says.

All are on one machine, so each has ports of its own, by the names that the template has for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from copy import deepcopy
from itertools import count
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.certificate_story import Kubelet
from tests.e2e.control_plane import ADMIN, ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.programs import COMMAND, Program, eventually, free_port
from webhook.installation.deployment import CONFIGURATION_FOLDER, TLS_FOLDER
from webhook.installation.names import TLS_SECRET

_PODS = f"/api/v1/namespaces/{ROLLCALL_NAMESPACE}/pods"
_SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/endpointslices"
_MERGE = {"Content-Type": "application/merge-patch+json"}
# Twice as often as the manifests tell a kubelet to look.
_PROBE_SECONDS = 1.0
# In all addresses of the machine, as in a Pod.
_ANY = "0.0.0.0"  # noqa: S104 - other machines call a webhook


class ServedPod:
    """One Pod. `end` ends it as a Deployment does that rolls."""

    def __init__(
        self, plane: ControlPlane, template: Manifest, name: str, where: tuple[str, str], config: Path
    ) -> None:
        """`where`: the address that it has, and the node that it is on; `config` is what its ConfigMap holds."""
        self.name = name
        self._plane = plane
        self._address, node = where
        self._grace = float(template["spec"]["terminationGracePeriodSeconds"])
        (container,) = template["spec"]["containers"]
        self.ports = {port["name"]: free_port(_ANY) for port in container["ports"]}
        self._create(template, node)
        self.kubelet = Kubelet(plane, TLS_SECRET, plane.folder / name / "tls")
        self.program = self._run(container, config)
        self._shown = ""
        # Its reported readiness is its own, unless a test overrides it.
        self.said_unready = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _create(self, template: Manifest, node: str) -> None:
        pod: Manifest = {**deepcopy(template), "apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] |= {"name": self.name, "namespace": ROLLCALL_NAMESPACE}
        # Pods of the template's priority are counted by a quota, which takes the controllers some tries.
        pod["spec"] |= {"nodeName": node, "priorityClassName": ""}
        for port in pod["spec"]["containers"][0]["ports"]:
            port["containerPort"] = self.ports[port["name"]]
        self._plane.http.post(_PODS, json=pod).raise_for_status()

    def _run(self, container: Manifest, config: Path) -> Program:
        numbers = {f"={port['containerPort']}": f"={self.ports[port['name']]}" for port in container["ports"]}
        arguments = []
        for said in container["args"]:
            argument = said.replace(TLS_FOLDER, str(self.kubelet.folder)).replace(CONFIGURATION_FOLDER, str(config))
            option, equals, value = argument.partition("=")
            arguments.append(f"{option}{numbers.get(equals + value, equals + value)}")
        # Instead of the account's token, which a Pod mounts.
        access = f"--kubeconfig={self._plane.write_kubeconfig(ROLLCALL)}"
        return self._plane.workplace.start(self.name, [COMMAND, *arguments, access])

    @property
    def health(self) -> str:
        """The URL of its health and metrics."""
        return f"http://{self._address}:{self.ports['health']}"

    def answered(self) -> float:
        """How many calls it has answered."""
        families = text_string_to_metric_families(httpx.get(f"{self.health}/metrics", timeout=30, trust_env=False).text)
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == "rollcall_admission_requests_total")

    def _follow(self) -> None:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        with (
            httpx.Client(base_url=self._plane.url, verify=self._plane.tls, headers=headers, trust_env=False) as http,
            httpx.Client(base_url=self.health, timeout=_PROBE_SECONDS, trust_env=False) as asked,
        ):
            while True:
                self._tell(http, "True" if self._ready(asked) else "False")
                if self._ended.wait(_PROBE_SECONDS):
                    return

    def _ready(self, asked: httpx.Client) -> bool:
        try:
            return asked.get("/readyz").is_success and not self.said_unready.is_set()
        except httpx.TransportError:
            return False

    def _tell(self, http: httpx.Client, ready: str) -> None:
        if ready == self._shown:
            return
        status = {
            "phase": "Running",
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
        }
        try:
            answer = http.patch(f"{_PODS}/{self.name}/status", json={"status": status}, headers=_MERGE)
        except httpx.TransportError:
            return
        if answer.is_success:
            self._shown = ready

    def end(self, *, kill: bool = False) -> int | None:
        """Delete it; the exit code of its process. It leaves the Service and gets SIGTERM."""
        self._plane.http.delete(f"{_PODS}/{self.name}").raise_for_status()
        code = self.program.stop(kill=kill, timeout=self._grace)
        self._ended.set()
        self._thread.join()
        self.kubelet.close()
        self._plane.http.delete(f"{_PODS}/{self.name}", params={"gracePeriodSeconds": "0"})
        return code


class ServedPods:
    """The Pods behind the Service. `close` ends all."""

    def __init__(
        self, plane: ControlPlane, template: Manifest, address: str, nodes: Iterable[str], config: Path
    ) -> None:
        """`template` is the Deployment's; each Pod is on the next of these nodes."""
        self._plane = plane
        self._template = template
        self.address = address
        self._nodes = list(nodes)
        self._config = config
        self._numbers = count()
        self.pods: dict[str, ServedPod] = {}

    def start(self, *names: str) -> None:
        """Start Pods, and wait until they are behind the Service."""
        for name in names:
            number = next(self._numbers)
            where = self.address, self._nodes[number % len(self._nodes)]
            full = f"rollcall-{name}-{number}"
            self.pods[name] = ServedPod(self._plane, self._template, full, where, self._config)
        self.until_behind(*self.pods)

    def end(self, name: str) -> int | None:
        """End one as a Deployment does."""
        return self.pods.pop(name).end()

    def check(self) -> None:
        """Raise where one has ended by itself."""
        for pod in self.pods.values():
            pod.program.check()

    def endpoints(self) -> dict[str, bool]:
        """The Pods in the Service's EndpointSlices that have its port, and whether each is ready."""
        found: dict[str, bool] = {}
        for one in self._plane.items(_SLICES, labelSelector="kubernetes.io/service-name=rollcall"):
            for endpoint in one["endpoints"] or ():
                if "https" in {port["name"] for port in one["ports"] or ()}:
                    found[endpoint["targetRef"]["name"]] = endpoint["conditions"]["ready"]
        return found

    def until_behind(self, *names: str) -> None:
        """Wait until these, and no others, are ready behind the Service."""
        wanted = {self.pods[name].name for name in names}

        def behind() -> bool:
            self.check()
            found = {name for name, ready in self.endpoints().items() if ready}
            assert found == wanted, f"ready are {sorted(found)}"
            return True

        eventually(behind, f"{', '.join(sorted(wanted)) or 'no server'} is behind the Service", timeout=60)

    def close(self) -> None:
        """End all without a drain."""
        for name in list(self.pods):
            self.pods.pop(name).end(kill=True)
