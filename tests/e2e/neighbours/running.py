"""The controllers that run beside one control plane: started once, registered when a module wants them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.neighbours.certificates import Certificates, make_certificates
from tests.e2e.neighbours.kueue import frameworks_of, kueue_configuration, prepare, release_pods
from tests.e2e.neighbours.systems import SYSTEMS, Ports, System, configuration, options
from tests.e2e.neighbours.webhooks import configurations, register, unregister
from tests.e2e.programs import Program, eventually, free_port, is_ready

Settings = dict[str, Any]


class Neighbour:
    """One controller: its process and what the API server knows of its webhooks."""

    def __init__(self, plane: ControlPlane, system: System, certificates: Certificates, settings: Settings) -> None:
        self.system, self.settings = system, settings
        self.ports = Ports(free_port(), free_port())
        self._plane, self._certificates = plane, certificates
        self._registered: list[Manifest] = []
        if system.name == "kueue":
            prepare(plane, self.ports, certificates)
        assert system.executable is not None
        command: list[str | Path] = [system.executable, f"--kubeconfig={plane.kubeconfig}", *self._options()]
        env = {"TMPDIR": str(certificates.temporary)}
        self.program: Program = plane.workplace.start(system.name, command, env)

    def until_ready(self) -> None:
        """Wait until it works and answers."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.ports.health}", timeout=5, trust_env=False) as http:
            eventually(lambda: is_ready(self.program, http), f"{self.system.name} is ready", timeout=60)
        # Not every one of them waits for its webhooks.
        if self.system.mutating:
            eventually(self._listens, f"the webhooks of {self.system.name} are reachable")

    def register(self, prefix: str = "", reinvocation: str = "Never") -> None:
        """Have the API server call its webhooks: `configurations` says what is meant by the parameters."""
        wanted = configurations(self.system, self.ports.webhook, self._certificates.bundle, prefix, reinvocation)
        if wanted != self._registered:
            self.unregister()
            self._registered = wanted
            register(self._plane, wanted)

    def unregister(self) -> None:
        """Have it call them no more."""
        gone, self._registered = self._registered, []
        unregister(self._plane, gone)

    def stop(self) -> None:
        """End it, once nothing calls it."""
        self.unregister()
        # Kueue takes longer to end by itself than to start.
        self.program.stop(kill=True)

    def _options(self) -> list[str]:
        if not self.system.configuration:
            return options(self.system, self.ports, self.settings)
        path = self._plane.folder / f"{self.system.name}.configuration.yaml"
        path.write_text(yaml.safe_dump(self._configuration()))
        return [f"--config={path}"]

    def _configuration(self) -> Manifest:
        if self.system.name == "kueue":
            return kueue_configuration(self.ports, self._certificates, self.settings)
        return {**configuration(self.system, self.ports, self._certificates.folder), **self.settings}

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.ports.webhook), timeout=1).close()
        except OSError as error:
            raise AssertionError(str(error)) from None
        return True


class Neighbours:
    """The controllers beside one control plane. `serve_kinds(plane, *systems)` has their kinds served."""

    def __init__(self, plane: ControlPlane, serve_kinds: Callable[..., None]) -> None:
        self._plane, self._serve_kinds = plane, serve_kinds
        self._running: dict[str, Neighbour] = {}
        self._certificates: Certificates | None = None

    def run(self, *names: str, prefix: str = "", **settings: Settings) -> dict[str, Neighbour]:
        """Have these controllers run with their webhooks registered; one that does already is left as it is.

        `settings` are fields of their configuration files, by name: `kueue={"waitForPodsReady": ...}`; of KubeRay they
        are options. Raises
        FileNotFoundError where there is no program of one.
        """
        for name in names:
            if SYSTEMS[name].executable is None:
                raise FileNotFoundError(f"there is no {name} among the programs")
        self._serve_kinds(self._plane, *{kind for name in names for kind in (*SYSTEMS[name].watches, name)})
        found = {name: self._one(name, self._settings(name, names, settings.get(name))) for name in names}
        for one in found.values():
            one.until_ready()
            one.register(prefix)
        return found

    def unregister(self) -> None:
        """Unregister all webhooks. The processes stay, with nothing to do."""
        for one in self._running.values():
            one.unregister()

    def close(self) -> None:
        """End all of them, before their control plane."""
        for one in self._running.values():
            one.program.stop(kill=True)

    def release(self, namespace: str) -> None:
        """Let go what a controller holds back of a namespace that is being deleted."""
        if "kueue" in self._running:
            release_pods(self._plane, namespace)

    def _one(self, name: str, settings: Settings) -> Neighbour:
        running = self._running.get(name)
        if running is not None and running.settings != settings:
            running.stop()
            running = None
        if running is None:
            if self._certificates is None:
                self._certificates = make_certificates(self._plane.folder / "neighbours")
            running = self._running[name] = Neighbour(self._plane, SYSTEMS[name], self._certificates, settings)
        return running

    def _settings(self, name: str, names: tuple[str, ...], said: Settings | None) -> Settings:
        # A copy, so that it can be compared with what comes later.
        settings: Settings = json.loads(json.dumps(said or {}))
        if name == "kueue":
            running, frameworks = self._running.get(name), frameworks_of(names)
            # One that has more integrations need not start again.
            if running is not None and set(frameworks) <= set(running.settings["frameworks"]):
                frameworks = running.settings["frameworks"]
            settings.setdefault("frameworks", frameworks)
        return settings
