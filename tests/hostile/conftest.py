"""The hostile tests: a real server process, attackers in separate processes, and ordinary callers at the same time.

Each test asserts counts and generous ratios, and notes the figure that it measured beside the bound: the table of them
is printed at the end of a run. Traffic goes to the loopback address only; every attack is bounded in count and time.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.configurations import configuration_of
from tests.hostile.callers import Callers, call_for
from tests.hostile.objects import ordinary
from tests.unit.server.server_process import ServingProcess, serving_process
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.server.tls import PairFiles

ATTACKS = Path(__file__).parent / "attacks.py"
# Every scheduler, so that a denial asks all of them who else could run the workload.
CONFIGURATION = configuration_of(
    "koord-scheduler",
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
    "volcano",
    {"name": "kai-scheduler", "config": {"defaultQueue": "default-queue"}},
    "scheduler-plugins-scheduler",
)
FACTS = Path(__file__).parents[2] / "manifests" / "facts"


class Measured(NamedTuple):
    """A row of the table: the attack, what was measured, what it may be, and what it was."""

    attack: str
    what: str
    bound: str
    value: str


_rows = pytest.StashKey[list[Measured]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_rows] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash[_rows]:
        terminalreporter.section("measured")
        for row in rows:
            terminalreporter.write_line(f"{row.attack}: {row.what}: {row.value} (bound: {row.bound})")


@pytest.fixture
def measured(pytestconfig: pytest.Config) -> Callable[[str, str, str, str], None]:
    """Note a row of the table: attack, what, bound, value."""
    rows = pytestconfig.stash[_rows]
    return lambda *row: rows.append(Measured(*row))


class Target:
    """A server under attack."""

    def __init__(self, serving: ServingProcess, tls: ssl.SSLContext) -> None:
        self.serving = serving
        self._tls = tls

    @property
    def pid(self) -> int:
        """Of the server."""
        return self.serving.process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is alive."""
        return self.serving.process.poll() is None

    def highest_megabytes(self) -> float:
        """The most memory that was ever resident."""
        return self._status("VmHWM")

    def resident_megabytes(self) -> float:
        """What is resident now."""
        return self._status("VmRSS")

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split(f"{name}:")[1].split()[0]) / 1024

    def call(self, seconds: float, review: bytes | None = None) -> Callers:
        """Let ordinary callers call for so long."""
        health = self.serving.health_port
        return asyncio.run(call_for(seconds, self.serving.port, health, self._tls, review or ordinary()))


@contextmanager
def attacked_by(
    name: str, port: int, *, seconds: float, count: int = 1, body: Path | None = None, path: str = "/validate"
) -> Iterator[dict[str, int]]:
    """Run an attack during the block; its counts are complete afterwards."""
    command: list[str] = [sys.executable, str(ATTACKS), name, str(port), "--seconds", str(seconds)]
    command += ["--count", str(count), "--path", path]
    if body is not None:
        command += ["--body", str(body)]
    counted: dict[str, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        try:
            yield counted
            output, _ = attacker.communicate(timeout=seconds + LIMIT_SECONDS)
            assert attacker.returncode == 0
            counted.update(json.loads(output))
        finally:
            attacker.kill()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development certificates in a folder."""
    folder = tmp_path_factory.mktemp("certificates")
    make_development_certificates(folder)
    return folder


@pytest.fixture
def start(certificates: Path, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """Starts a server with every scheduler, which may have so many files open."""
    started: list[Any] = []

    def one(open_files: int | None = None) -> Target:
        configuration = tmp_path / "configuration.yaml"
        configuration.write_text(json.dumps(CONFIGURATION))
        files = PairFiles(certificates / CERTIFICATE_FILE, certificates / KEY_FILE)
        held = serving_process(tmp_path, files, "--config", configuration, "--facts", FACTS, open_files=open_files)
        started.append(held)
        tls = ssl.create_default_context(cafile=str(certificates / CA_FILE))
        return Target(held.__enter__(), tls)

    yield one
    for held in started:
        held.__exit__(None, None, None)


@pytest.fixture
def target(start: Callable[..., Target]) -> Target:
    """A server without limits of its own."""
    return start()
