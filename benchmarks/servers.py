"""The two servers as processes of their own, and what the operating system says of them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from webhook.backends.registry import installed_backends

# Every built-in scheduler, and the one whose workloads are sent: what is not chosen should cost nothing.
SIX_PROFILES = tuple(installed_backends())
ONE_PROFILE = ("koord-scheduler",)


def configuration(profiles: Sequence[str], default: str = "koord-scheduler") -> dict[str, Any]:
    """A configuration that enables these profiles with their defaults; KAI refuses a set that has no queue."""
    own = {"kai-scheduler": {"defaultQueue": "default-queue"}}
    enabled = [{"name": name, "config": own.get(name, {})} for name in profiles]
    scheduler = {"defaultProfileName": default, "profiles": enabled}
    return {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration", "scheduler": scheduler}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def rollcall(
    folder: Path, port: int, profiles: Sequence[str] = ONE_PROFILE
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """`rollcall serve` on `port`, with its certificates in `folder`; the process and the seconds until it answered."""
    file = folder / f"configuration-{len(profiles)}.yaml"
    file.write_text(json.dumps(configuration(profiles)))
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--config", str(file)]
    log = folder / f"rollcall-{len(profiles)}.log"
    with _running([*command, "--certs", str(folder), "--port", str(port)], port, log) as started:
        yield started


@contextmanager
def empty_route(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The empty route on `port`, with the same certificate."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.empty_route",
        str(port),
        str(folder / "tls.crt"),
        str(folder / "tls.key"),
    ]
    with _running(command, port, folder / "empty.log") as started:
        yield started


@contextmanager
def _running(command: list[str], port: int, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    begun = perf_counter()
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            while not _listens(port):
                if process.poll() is not None or perf_counter() - begun > 30:
                    raise RuntimeError(f"{command} did not start: {log.read_text()}")
                sleep(0.01)
            yield process, perf_counter() - begun
        finally:
            process.terminate()
            process.wait(15)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def resident_megabytes(process: subprocess.Popen[bytes]) -> float:
    """The memory that the process holds now, as Linux counts it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
