"""`rollcall serve --standalone` as a process with a health port, observed from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import programs
from tests.e2e.programs import free_port
from tests.forked_process import ForkedProcess
from tests.unit.cluster.scripted import NO_TLS
from tests.waiting import LIMIT_SECONDS
from webhook.server.tls import PairFiles

T = TypeVar("T")
Running = subprocess.Popen[bytes] | ForkedProcess
# coverage tells its subprocesses by such variables that they are measured.
_COVERAGE = "COVERAGE_PROCESS"
# A test that changes files waits for the next look at them.
_LOOK_SECONDS = 0.05


def eventually(probe: Callable[[], T | None], what: str) -> T:
    """Wait for `probe` as `tests.e2e.programs.eventually` does, on a machine that may be busy."""
    return programs.eventually(probe, what, LIMIT_SECONDS)


def lines_of(log: Path) -> list[dict[str, Any]]:
    """The lines of a log. The last one in the file may be incomplete."""
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]


class ServingProcess:
    """The process: its ports, its log, and its health."""

    def __init__(self, process: Running, log: Path, health_port: int) -> None:
        self.process = process
        self._log = log
        self.health_port = health_port
        self._health = httpx.Client(
            base_url=f"http://127.0.0.1:{health_port}", verify=NO_TLS, trust_env=False, timeout=LIMIT_SECONDS
        )
        first = eventually(self._first_line, "the server says that it serves")
        self.url, self.next_url = first["url"], first.get("next")

    @property
    def port(self) -> int:
        """The serving port."""
        return int(self.url.rpartition(":")[2])

    def lines(self) -> list[dict[str, Any]]:
        """Its lines on standard error. The last line may be incomplete."""
        return lines_of(self._log)

    def _first_line(self) -> dict[str, Any] | None:
        assert self.process.poll() is None, f"the server stopped: {self._log.read_text()}"
        return next((line for line in self.lines() if line["event"] == "serving"), None)

    def memory(self, which: str = "VmRSS") -> int:
        """Its resident memory in bytes, now or (`VmHWM`) at most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{which}:"))

    def readiness(self) -> tuple[int, str]:
        """What the health port says."""
        answer = self._health.get("/readyz")
        return answer.status_code, answer.text

    def until_readiness(self, status: int, text: str) -> str:
        """Wait until its readiness contains this text; the complete answer."""

        def probe() -> str:
            seen = self.readiness()
            assert seen[0] == status, seen
            assert text in seen[1], seen
            return seen[1]

        return eventually(probe, f"/readyz is {status} and says {text!r}")

    def metric(self, name: str, **labels: str) -> float:
        """The value of a series."""
        for family in text_string_to_metric_families(self._health.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        raise AssertionError(f"no series {name} with {labels}")

    def health(self, path: str) -> httpx.Response:
        """An answer of the health port."""
        return self._health.get(path)

    def stop(self) -> int:
        """Tell it to stop; its exit code once it has."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_SECONDS)

    def close(self) -> None:
        """Ask nothing more."""
        self._health.close()


@contextmanager
def serving_process(
    folder: Path, files: PairFiles, *arguments: str | Path, open_files: int | None = None, traced: bool = True
) -> Iterator[ServingProcess]:
    """A server with the pair in `files` and on free ports; its log goes to `folder`. It may have `open_files` open.

    A server under a heavy load is not `traced`: the measurement of coverage would take most of its time.
    """
    health_port = free_port()
    command: list[str | Path] = ["serve", "--standalone", "--cert", files.certificate, "--key", files.key]
    command += ["--port", "0", "--health-port", str(health_port), *arguments]
    log = folder / "serve.log"
    with rollcall_process(log, *command, open_files=open_files, traced=traced) as process:
        serving = ServingProcess(process, log, health_port)
        try:
            yield serving
        finally:
            serving.close()


@contextmanager
def rollcall_process(
    log: Path, *arguments: str | Path, open_files: int | None = None, traced: bool = True
) -> Iterator[Running]:
    """A process of `rollcall` that ends with the context. What it prints goes to `log`."""
    command = [str(argument) for argument in arguments]
    with log.open("wb") as output:
        process: Running
        if sys.flags.safe_path or any(name.startswith(_COVERAGE) for name in os.environ):
            # Coverage does not expect that a process that it measures is forked. Where the wheel is tested, a new
            # process cannot import these tests.
            limited = [] if open_files is None else ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh"]
            env = {name: value for name, value in os.environ.items() if traced or not name.startswith(_COVERAGE)}
            started = [*limited, sys.executable, "-m", "webhook", *command]
            process = subprocess.Popen(started, stdout=output, stderr=output, env=env)
        else:
            process = ForkedProcess(command, log, open_files=open_files, look_seconds=_LOOK_SECONDS)
    try:
        yield process
    finally:
        end(process)


def end(process: Running) -> None:
    """End a process. A kill at once would leave temporary certificates behind."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT_SECONDS)


def trusting(*authorities: Path, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A client's context that believes these authorities and no others."""
    context = ssl.create_default_context(cadata="".join(file.read_text() for file in authorities))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def shown_to(context: ssl.SSLContext, port: int, name: str | None = "localhost") -> bytes | None:
    """The certificate, DER, that a client is shown who names the server so. Raises `OSError` where it is shown none."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        return secured.getpeercert(binary_form=True)
