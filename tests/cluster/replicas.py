"""Replicas of `rollcall serve` behind a balancer, as a Deployment has them behind its Service."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import yaml

from tests.cluster.authorities import Mount
from tests.cluster.balancer import Balancer
from tests.cluster.control_plane import ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.cluster.programs import Program, eventually, free_port
from tests.cluster.rollcall_server import COMMAND, rollcall
from webhook.certificates import CERTIFICATE_FILE, KEY_FILE

# What the manifests give a Pod between SIGTERM and SIGKILL.
GRACE_SECONDS = 45.0
_END = "-----END CERTIFICATE-----"


class Replicas:
    """The replicas of one configuration, by name. `close` unregisters them and ends all."""

    def __init__(self, plane: ControlPlane, config: Manifest, balancer: Balancer, secret: Mapping[str, bytes]) -> None:
        self.plane = plane
        self.balancer = balancer
        self.folder = plane.folder / f"replicas-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.config = self.folder / "rollcall.yaml"
        self.config.write_text(yaml.safe_dump(config))
        self.programs: dict[str, Program] = {}
        self._secret = dict(secret)
        self._mounts: dict[str, Mount] = {}
        self._pods = count(1)
        self._registration = ""
        plane.kubectl("create", "namespace", ROLLCALL_NAMESPACE)
        account = f"{ROLLCALL_NAMESPACE}/{ROLLCALL}"
        rights = rollcall("manifests", "rbac", "--config", self.config, "--account", account)
        plane.kubectl("apply", "-f", "-", stdin=rights, check=True)
        self._kubeconfig = plane.write_kubeconfig(ROLLCALL)

    def start(self, names: Iterable[str]) -> None:
        """Start replicas in new Pods, and wait until they get connections."""
        wanted = set(names)
        for name in wanted:
            self._start(name)
        eventually(lambda: wanted <= self.balancer.ready(), f"{', '.join(sorted(wanted))} are ready")

    def _start(self, name: str) -> None:
        pod = f"{self.folder.name}-{name}-{next(self._pods)}"
        mount = self._mounts[name] = Mount(self.folder / pod)
        mount.write(self._secret)
        port, health = free_port(), free_port()
        self.programs[name] = self.plane.workplace.start(
            pod,
            [
                COMMAND,
                "serve",
                f"--config={self.config}",
                f"--kubeconfig={self._kubeconfig}",
                f"--cert={mount.folder / CERTIFICATE_FILE}",
                f"--key={mount.folder / KEY_FILE}",
                "--host=127.0.0.1",
                f"--port={port}",
                "--health-host=127.0.0.1",
                f"--health-port={health}",
            ],
        )
        self.balancer.add(name, port, f"http://127.0.0.1:{health}/readyz")

    def stop(self, names: Iterable[str]) -> dict[str, int | None]:
        """End replicas as a Deployment does that shrinks or rolls, all at once; their exit codes."""
        return self._end(list(names), kill=False)

    def kill(self, names: Iterable[str]) -> dict[str, int | None]:
        """End them as the kernel does that has no memory left."""
        return self._end(list(names), kill=True)

    def _end(self, names: list[str], *, kill: bool) -> dict[str, int | None]:
        with ThreadPoolExecutor(max(len(names), 1)) as those:
            ended = those.map(lambda name: self.programs.pop(name).stop(kill=kill, timeout=GRACE_SECONDS), names)
            codes = dict(zip(names, ended, strict=True))
        for name in names:
            del self._mounts[name]
        eventually(lambda: not set(names) & self.balancer.ready(), f"{', '.join(names)} get no connections")
        for name in names:
            self.balancer.forget(name)
        return codes

    def bring(self, secret: Mapping[str, bytes]) -> None:
        """Bring a new state of the Secret into each Pod, one after the other."""
        self._secret = dict(secret)
        for mount in self._mounts.values():
            mount.write(secret)

    def until_presented(self) -> None:
        """Wait until each replica shows the certificate that it was brought."""
        text = self._secret[CERTIFICATE_FILE].decode()
        wanted = ssl.PEM_cert_to_DER_cert(text[: text.index(_END) + len(_END)])
        for name, port in self.balancer.ports().items():
            self._until_presented(name, port, wanted)

    def _until_presented(self, name: str, port: int, wanted: bytes) -> None:
        def presents() -> bool:
            try:
                return presented(port) == wanted
            except OSError as error:
                # It may be told to end meanwhile.
                if name not in self.balancer.ready():
                    return True
                raise AssertionError(repr(error)) from None

        eventually(presents, f"{name} presents its new certificate")

    def register(self, authorities: bytes) -> None:
        """Tell the API server where they are, and by which authorities to know them."""
        bundle = self.folder / "bundle.crt"
        bundle.write_bytes(authorities)
        url = f"https://127.0.0.1:{self.balancer.port}"
        self._registration = rollcall("manifests", "webhooks", "--config", self.config, "--url", url, "--ca", bundle)
        self.plane.kubectl("apply", "-f", "-", stdin=self._registration, check=True)

    def close(self) -> None:
        """Unregister and end all."""
        if self._registration:
            self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=self._registration, check=True)
        for name in self.programs:
            self.balancer.forget(name)
        for program in self.programs.values():
            program.stop(kill=True)


def presented(port: int) -> bytes:
    """The certificate that a server of this machine presents now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as channel,
    ):
        found = channel.getpeercert(binary_form=True)
    assert found is not None
    return found
