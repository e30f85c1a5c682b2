"""The installed `rollcall serve` as a process, registered with a control plane by its own `manifests`."""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.command import run_here
from tests.e2e.control_plane import ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.programs import COMMAND, eventually, free_port, is_ready
from tests.e2e.workload_objects import applied, deleted
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.model.reading import EMPTY


def rollcall(*arguments: str | Path, stdin: str = "") -> str:
    """What a command prints; it must succeed."""
    return succeeded(run_here(*arguments, stdin=stdin))


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """What a command printed that must have succeeded."""
    assert done.returncode == 0, f"{' '.join(done.args)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def ran(*arguments: str | Path, stdin: str | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The installed command, however it ends."""
    command = [str(part) for part in (COMMAND, *arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)


def samples_of(metrics: str, name: str) -> list[Sample]:
    """The samples of one metric. Only its lines are parsed: a test looks twenty times a second."""
    lines = (line for line in metrics.splitlines(keepends=True) if line.startswith((f"{name}{{", f"{name} ")))
    return [sample for family in text_string_to_metric_families("".join(lines)) for sample in family.samples]


def trusting(folder: Path) -> ssl.SSLContext:
    """The context of a client that trusts the authority in that folder."""
    return ssl.create_default_context(cafile=str(folder / CA_FILE))


class RollcallServer:
    """One server and its registration. `close` removes both."""

    def __init__(
        self,
        plane: ControlPlane,
        config: Manifest,
        account: str = ROLLCALL,
        narrowed: Callable[[Manifest], Manifest | None] = lambda rule: rule,
        options: Sequence[str] = (),
        beside: Mapping[str, str] = EMPTY,
    ) -> None:
        """`narrowed` makes each rule of its ClusterRole smaller, or takes it away, for tests of what happens then.
        `beside` is the text of files beside the configuration, by name.
        """
        self.plane = plane
        self.folder = plane.folder / f"rollcall-{time.monotonic_ns()}"
        make_development_certificates(self.folder)
        self.config = self.folder / "rollcall.yaml"
        for name, text in {**beside, self.config.name: yaml.safe_dump(config)}.items():
            (self.folder / name).write_text(text)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        plane.create_namespace(ROLLCALL_NAMESPACE)
        for right in self._rights(account, narrowed):
            applied(plane, right, "installation")
        self.program = plane.workplace.start(
            self.folder.name,
            [
                COMMAND,
                "serve",
                f"--config={self.config}",
                f"--kubeconfig={plane.write_kubeconfig(account)}",
                f"--cert={self.folder / CERTIFICATE_FILE}",
                f"--key={self.folder / KEY_FILE}",
                "--host=127.0.0.1",
                f"--port={self.port}",
                # There is no load balancer here, and each test would wait for the end of the drain.
                "--drain=0",
                *options,
            ],
        )
        tls = trusting(self.folder)
        tls.load_cert_chain(plane.client.certificate, plane.client.key)
        self.http = httpx.Client(base_url=self.url, verify=tls, timeout=30, trust_env=False)

    def _rights(self, account: str, narrowed: Callable[[Manifest], Manifest | None]) -> list[Manifest]:
        """What `rollcall manifests rbac` says it needs, and no more; under a name of the account's own."""
        printed = rollcall("manifests", "rbac", "--config", self.config, "--account", f"{ROLLCALL_NAMESPACE}/{account}")
        role, binding, *_ = yaml.safe_load_all(printed)
        name = role["metadata"]["name"] = binding["metadata"]["name"] = f"rollcall-{account}"
        binding["roleRef"]["name"] = name
        role["rules"] = [rule for found in role["rules"] if (rule := narrowed(found)) is not None]
        return [role, binding]

    def until_ready(self) -> None:
        """Wait until /readyz says so."""
        eventually(lambda: is_ready(self.program, self.http), "rollcall is ready")

    def register(self) -> None:
        """Tell the API server, and wait until it asks."""
        for manifest in yaml.safe_load_all(self.manifests()):
            applied(self.plane, manifest, "installation")

    def manifests(self) -> str:
        """The webhook configurations, as the command prints them."""
        bundle = self.folder / CA_FILE
        return rollcall("manifests", "webhooks", "--config", self.config, "--url", self.url, "--ca", bundle)

    def unregister(self) -> None:
        """Unregister from the API server."""
        for manifest in yaml.safe_load_all(self.manifests()):
            deleted(self.plane, manifest, "Background")

    def series(self, name: str) -> dict[str, float]:
        """The values of a metric, by the last of its labels."""
        lines = (line for line in self.http.get("/metrics").text.splitlines() if line.startswith(f"{name}{{"))
        return {line.split('"')[-2]: float(line.split()[-1]) for line in lines}

    def metric(self, name: str, **labels: str) -> float:
        """The value of one metric that has these labels, among others."""
        for sample in samples_of(self.http.get("/metrics").text, name):
            if labels.items() <= sample.labels.items():
                return float(sample.value)
        raise AssertionError(f"no metric {name} with {labels}")

    def close(self) -> None:
        """Unregister and stop."""
        self.unregister()
        self.program.stop()
        self.http.close()


def review(pod: Manifest, namespace: str) -> Manifest:
    """An AdmissionReview of the creation of a pod, to ask a server without an API server in between."""
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
