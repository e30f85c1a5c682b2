"""Replicas of `rollcall serve` behind a balancer, like those of a Deployment behind its Service."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Protocol

import yaml

from tests.e2e.balancer import Balancer
from tests.e2e.control_plane import ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.gang_writer import applied
from tests.e2e.programs import COMMAND, Program, eventually, free_port
from tests.e2e.rollcall_server import rollcall
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE

# What the manifests give a Pod between SIGTERM and SIGKILL.
GRACE_SECONDS = 45.0
_END = "-----END CERTIFICATE-----"


class Files(Protocol):
    """Who brings certificates into each Pod."""

    def bring(self, folder: Path) -> None:
        """From now on bring them to this folder, which is there when this returns."""

    def leave(self, folder: Path) -> None:
        """No more to this one."""


class Replicas:
    """The replicas of one configuration, by name. `close` unregisters them and ends all.

    With `shown`, a balancer in front of their ports for the next certificate.
    """

    def __init__(
        self, plane: ControlPlane, config: Manifest, balancer: Balancer, files: Files, shown: Balancer | None = None
    ) -> None:
        self.plane = plane
        self.balancer = balancer
        self._files = files
        self._shown = shown
        self.folder = plane.folder / f"replicas-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.config = self.folder / "rollcall.yaml"
        self.config.write_text(yaml.safe_dump(config))
        self.programs: dict[str, Program] = {}
        self._folders: dict[str, Path] = {}
        self._pods = count(1)
        self._registration = ""
        # When the API server was last told.
        self.registered = 0.0
        plane.create_namespace(ROLLCALL_NAMESPACE)
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
        folder = self._folders[name] = self.folder / pod
        self._files.bring(folder)
        port, health, following = free_port(), free_port(), free_port()
        next_one = [
            f"--next-cert={folder / 'next.crt'}",
            f"--next-key={folder / 'next.key'}",
            f"--next-port={following}",
        ]
        self.programs[name] = self.plane.workplace.start(
            pod,
            [
                COMMAND,
                "serve",
                f"--config={self.config}",
                f"--kubeconfig={self._kubeconfig}",
                f"--cert={folder / CERTIFICATE_FILE}",
                f"--key={folder / KEY_FILE}",
                "--host=127.0.0.1",
                f"--port={port}",
                "--health-host=127.0.0.1",
                f"--health-port={health}",
                *(next_one if self._shown is not None else ()),
            ],
        )
        probe = f"http://127.0.0.1:{health}/readyz"
        self.balancer.add(name, port, probe)
        if self._shown is not None:
            self._shown.add(name, following, probe)

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
            self._files.leave(self._folders.pop(name))
        eventually(lambda: not set(names) & self.balancer.ready(), f"{', '.join(names)} get no connections")
        for name in names:
            self._forget(name)
        return codes

    def _forget(self, name: str) -> None:
        self.balancer.forget(name)
        if self._shown is not None:
            self._shown.forget(name)

    def until_presented(self, certificate: bytes) -> None:
        """Wait until each replica shows this certificate, the first of a PEM file."""
        text = certificate.decode()
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

    def register(self, authorities: bytes = b"") -> None:
        """Tell the API server where they are, and which authorities to trust if another system maintains these."""
        options: list[str | Path] = [f"--url=https://127.0.0.1:{self.balancer.port}"]
        if self._shown is not None:
            options.append(f"--next-url=https://127.0.0.1:{self._shown.port}")
        if authorities:
            bundle = self.folder / "bundle.crt"
            bundle.write_bytes(authorities)
            options.append(f"--ca={bundle}")
        self._registration = rollcall("manifests", "webhooks", "--config", self.config, *options)
        self.registered = time.monotonic()
        for manifest in yaml.safe_load_all(self._registration):
            # Not by kubectl: the moment of it shall be known well.
            answer = applied(self.plane, manifest, manager="somebody")
            assert answer.is_success, answer.text

    def close(self) -> None:
        """Unregister and end all."""
        if self._registration:
            self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=self._registration, check=True)
        for name, program in self.programs.items():
            self._forget(name)
            program.stop(kill=True)
            self._files.leave(self._folders[name])


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
