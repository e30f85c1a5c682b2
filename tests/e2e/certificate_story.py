"""A server with certificates that the reconciler maintains: what a kubelet does for it, and steady admissions."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ADMIN, ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.network import Exchange
from tests.e2e.programs import COMMAND, eventually, free_port
from tests.e2e.rollcall_server import rollcall
from tests.e2e.workloads import two_cliques
from tests.mount import Mount
from webhook.certificates.x509 import fingerprint, read_certificates

SELF_MANAGED: Manifest = {**KOORDINATOR, "certificates": {"mode": "selfManaged", "overlapSeconds": 1}}
SECRETS = f"/api/v1/namespaces/{ROLLCALL_NAMESPACE}/secrets"
CONFIGURATIONS = {
    "m-rollcall": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "v-rollcall": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
WORKLOADS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"


def of_certificates(exchange: Exchange) -> bool:
    """Whether a change is one of certificates."""
    return "/secrets" in exchange.path or "/admissionregistration" in exchange.path


class Kubelet:
    """Keeps a mount as the Secret of that name is, as a kubelet does."""

    def __init__(self, plane: ControlPlane, name: str, folder: Path) -> None:
        self.folder = folder
        self._mount = Mount(folder)
        self._plane = plane
        self._name = name
        self._version = ""
        # A kubelet is late; tests may want it later still.
        self.frozen = threading.Event()
        self._begin()

    def _begin(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        with httpx.Client(base_url=self._plane.url, verify=self._plane.tls, headers=headers, trust_env=False) as http:
            while not self._ended.wait(0.1):
                if not self.frozen.is_set():
                    self._look(http)

    def _look(self, http: httpx.Client) -> None:
        try:
            answer = http.get(f"{SECRETS}/{self._name}")
        except httpx.TransportError:
            return
        if not answer.is_success:
            # A Secret that is gone leaves the files that there were.
            return
        secret = answer.json()
        version = secret["metadata"]["resourceVersion"]
        if version == self._version:
            return
        self._mount.write({key: b64decode(value) for key, value in (secret.get("data") or {}).items()})
        self._version = version

    @contextmanager
    def bringing(self, files: Mapping[str, bytes]) -> Iterator[None]:
        """Bring other files meanwhile, as when another Secret is mounted."""
        self.close()
        self._mount.write(files)
        try:
            yield
        finally:
            self._version = ""
            self._begin()

    def close(self) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()


class SelfManaged:
    """What is stored of self-managed certificates, and waiting for what the reconciler makes of it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def check(self) -> None:
        """Raise where a server has ended by itself."""
        raise NotImplementedError

    def secret(self, name: str) -> dict[str, bytes]:
        """The content of a Secret."""
        answer = self.plane.http.get(f"{SECRETS}/{name}")
        assert answer.is_success, f"{name}: {answer.text}"
        return {key: b64decode(value) for key, value in (answer.json().get("data") or {}).items()}

    def authority(self) -> str:
        """Which is the current authority, by its fingerprint."""
        return fingerprint(read_certificates(self.secret("rollcall-ca")["ca.crt"])[0])

    def bundles(self) -> list[list[str]]:
        """Each different caBundle of all hooks, as fingerprints."""
        found = {}
        for name, path in CONFIGURATIONS.items():
            for hook in self.configuration(name, path)["webhooks"]:
                bundle = b64decode(hook["clientConfig"].get("caBundle", ""))
                found[bundle] = [fingerprint(one) for one in read_certificates(bundle)] if bundle else []
        return list(found.values())

    def configuration(self, name: str, path: str | None = None) -> Manifest:
        """A webhook configuration."""
        answer = self.plane.http.get(f"{path or CONFIGURATIONS[name]}/{name}")
        assert answer.is_success, f"{name}: {answer.text}"
        found: Manifest = answer.json()
        return found

    def given_up(self) -> bool:
        """AssertionError if a manager owns the caBundle fields: a hook could then not be removed."""
        for name in CONFIGURATIONS:
            managers = {one["manager"] for one in self.configuration(name)["metadata"]["managedFields"]}
            assert "rollcall-certificates" not in managers, name
        return True

    def ask_for(self, name: str) -> None:
        """Ask for what is in that Secret to be renewed, as `rollcall certs rotate` does."""
        patch = {"metadata": {"annotations": {"rollcall.dev/rotate": "now"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        self.plane.http.patch(f"{SECRETS}/{name}", content=json.dumps(patch), headers=headers).raise_for_status()

    def until_served(self) -> None:
        """Wait until an admission by way of both configurations comes through."""

        def served() -> bool:
            self.check()
            answer = admitted(self.plane.http)
            assert answer.is_success, answer.text
            assert "rollcall.dev/scheduler" in answer.json()["metadata"].get("labels", {}), (
                "the webhook is not called yet"
            )
            return True

        eventually(served, "the API server asks, and is answered", timeout=60)

    def wait_for_rotation(self, before: str) -> None:
        """Wait until another authority than `before` is the only one that is trusted."""

        def rotated() -> bool:
            content = self.secret("rollcall-ca")
            assert self.authority() != before, f"it has {sorted(content)}"
            assert sorted(content) == ["ca.crt", "ca.key"]
            assert self.bundles() == [[self.authority()]]
            assert sorted(self.secret("rollcall-tls")) == ["ca.crt", "tls.crt", "tls.key"]
            return self.given_up()

        eventually(rotated, "the rotation is over", timeout=120)


class SelfManagedServer(SelfManaged):
    """One server, registered by url, with what it needs of a cluster, and nothing of certificates but a folder."""

    def __init__(self, plane: ControlPlane, config: Manifest = SELF_MANAGED) -> None:
        super().__init__(plane)
        self.folder = plane.folder / f"self-managed-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.config = self.folder / "rollcall.yaml"
        self.config.write_text(yaml.safe_dump(config))
        self.port, self.next_port = free_port(), free_port()
        plane.create_namespace(ROLLCALL_NAMESPACE)
        printed = rollcall("manifests", "rbac", "--config", self.config)
        plane.apply(*list(yaml.safe_load_all(printed))[:2], check=True)
        self.kubelet = Kubelet(plane, "rollcall-tls", self.folder / "tls")
        files = self.kubelet.folder
        self.program = plane.workplace.start(
            self.folder.name,
            [
                COMMAND,
                "serve",
                f"--config={self.config}",
                f"--kubeconfig={plane.write_kubeconfig(ROLLCALL)}",
                f"--cert={files / 'tls.crt'}",
                f"--key={files / 'tls.key'}",
                f"--next-cert={files / 'next.crt'}",
                f"--next-key={files / 'next.key'}",
                f"--next-port={self.next_port}",
                "--host=127.0.0.1",
                f"--port={self.port}",
                "--drain=0",
            ],
        )

    def check(self) -> None:
        self.program.check()

    def manifests(self) -> list[Manifest]:
        """The webhook configurations, as the command prints them: without a caBundle."""
        urls = f"--url=https://127.0.0.1:{self.port}", f"--next-url=https://127.0.0.1:{self.next_port}"
        return list(yaml.safe_load_all(rollcall("manifests", "webhooks", "--config", self.config, *urls)))

    def register(self) -> None:
        """Tell the API server."""
        self.plane.apply(*self.manifests(), check=True)

    def close(self) -> None:
        """Stop, and remove what is kept of certificates."""
        for name, path in CONFIGURATIONS.items():
            self.plane.http.delete(f"{path}/{name}")
        self.program.stop()
        self.kubelet.close()
        for name in ("rollcall-ca", "rollcall-tls"):
            self.plane.http.delete(f"{SECRETS}/{name}")


def admitted(http: httpx.Client) -> httpx.Response:
    """A PodCliqueSet that is not stored: both webhook configurations are called and must answer."""
    return http.post(WORKLOADS, params={"dryRun": "All"}, json=two_cliques("asked", "default"))


class Asking:
    """Sends admissions continuously, several at once, and records the results."""

    def __init__(self, plane: ControlPlane, clients: int = 2) -> None:
        self.came: Counter[str] = Counter()
        self._plane = plane
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        headers: dict[str, Any] = {"Authorization": f"Bearer {ADMIN}"}
        with httpx.Client(
            base_url=self._plane.url, verify=self._plane.tls, headers=headers, timeout=30, trust_env=False
        ) as http:
            while not self._ended.is_set():
                try:
                    answer = admitted(http)
                except httpx.TransportError as error:
                    self.came[str(error)] += 1
                    break
                stamped = answer.is_success and "rollcall.dev/scheduler" in answer.json()["metadata"].get("labels", {})
                self.came["admitted" if stamped else answer.text[:300]] += 1
                self._ended.wait(0.01)

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> int:
        """How many admissions there were; AssertionError where one failed."""
        self.end()
        number = self.came.pop("admitted", 0)
        assert self.came == Counter(), f"after {number} admissions"
        return number
