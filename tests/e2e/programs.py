"""The programs of a control plane: their paths, their start, and their certain end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

import httpx

from tests.forked_process import ForkedProcess

T = TypeVar("T")

# The installed command.
COMMAND = Path(sys.executable).parent / "rollcall"

# Ends when our end of its pipe is closed, be it by a crash or a kill: then it removes what we could not.
_JANITOR = """
cat >/dev/null
for file in "$1"/*.pid; do [ ! -f "$file" ] || kill -KILL "$(cat "$file")"; done
rm -rf "$1"
"""

# How long a program that is revived stays dead.
_REVIVE_SECONDS = 0.5


def folder_of(name: str) -> Path | None:
    """The folder with the programs of `name` (kube-1.37, koordinator-1.8), or None where there is none.

    `scripts/test-cluster` builds them and says where they are; KUBEBUILDER_ASSETS overrules it for all of them.
    """
    variable = "ROLLCALL_" + name.upper().replace("-", "_").replace(".", "_")
    said = os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get(variable)
    return Path(said) if said else None


def program(name: str, *within: str) -> Path | None:
    """The path of a program in the folders of the given names, or None."""
    for one in within:
        folder = folder_of(one)
        if folder is not None and (folder / name).is_file():
            return folder / name
    return None


def eventually(probe: Callable[[], T | None], what: str, timeout: float = 30, pause: float = 0.05) -> T:
    """What `probe` returns once it is neither None nor False; an AssertionError says what was waited for.

    A probe that raises AssertionError has not succeeded yet; its last message is told.
    """
    deadline = time.monotonic() + timeout
    while True:
        last = ""
        try:
            found = probe()
            if found is not None and found is not False:
                return found
        except AssertionError as error:
            last = f"; last seen: {error}"
        assert time.monotonic() < deadline, f"{what}: not within {timeout:g} s{last}"
        time.sleep(pause)


def free_port(host: str = "127.0.0.1") -> int:
    """A port without a listener."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def own_address() -> str | None:
    """An address of this machine by which others could call it, as an endpoint of a Service must have; or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # An address of an unused network: nothing is sent, but the local address is chosen.
            probe.connect(("203.0.113.1", 9))
        except OSError:
            return None
        found = ip_address(probe.getsockname()[0])
    return None if found.is_loopback or found.is_link_local or found.is_unspecified else str(found)


def processor_seconds(pid: int) -> float:
    """How much time of a processor a process has taken, with its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Workplace:
    """A temporary folder that is gone when the tests are, with everything that was started in it."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"rollcall-{name}-"))
        # In a session of its own, so that Ctrl-C is ours to handle.
        self._janitor = subprocess.Popen(
            ["/bin/sh", "-c", _JANITOR, "janitor", str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.programs: list[Program] = []

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None, *, revived: bool = False
    ) -> Program:
        """Start a program; its output goes to a log in the folder. With `revived` it is started again when it ends by
        itself, as a kubelet would.
        """
        started = (Revived if revived else Program)(self.folder, name, command, env)
        self.programs.append(started)
        return started

    def close(self) -> None:
        """Stop everything, the last first, and remove the folder."""
        for started in reversed(self.programs):
            started.stop()
        assert self._janitor.stdin is not None
        self._janitor.stdin.close()
        self._janitor.wait(10)

    def keep_logs(self, where: Path) -> None:
        """Copy the logs to a folder that stays."""
        target = where / self.folder.name
        target.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):
            shutil.copy(log, target)


class Program:
    """One running program."""

    # Whether processes of `rollcall` are forked: for tests, not for benchmarks, which measure their start and memory.
    forks = False

    def __init__(
        self, folder: Path, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._pid_file = folder / f"{name}.pid"
        self._command = [str(part) for part in command]
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.start()

    def start(self) -> None:
        """Start it, again after a stop."""
        program, *arguments = self._command
        if self.forks and program == str(COMMAND):
            self._process = ForkedProcess(arguments, self.log, env=self._env, start_new_session=True)
        else:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._env,
                    start_new_session=True,
                )
        self._pid_file.write_text(str(self._process.pid))

    def stop(self, *, kill: bool = False, timeout: float = 15) -> int | None:
        """End it and wait until it has; its exit code, or None where it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait(timeout)
        self._pid_file.unlink(missing_ok=True)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal that does not end it."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def resident_megabytes(self) -> float:
        """How much memory it holds."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def peak_megabytes(self) -> float:
        """The most memory that it held at a time."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    @property
    def own_megabytes(self) -> float:
        """How much of that is its own, and not of files, whose pages come and go with the memory of the machine."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) / 1024

    @property
    def processor_seconds(self) -> float:
        """How much time of a processor it has taken."""
        return processor_seconds(self.pid)

    @property
    def open_files(self) -> int:
        """How many files and sockets it has open."""
        assert self._process is not None
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise AssertionError where it has ended."""
        if not self.running:
            raise RuntimeError(f"{self.name} has ended; its log:\n{self.tail()}")


class Revived(Program):
    """A program that is started again when it ends by itself, until it is stopped."""

    def __init__(
        self, folder: Path, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        self._lock = threading.Lock()
        super().__init__(folder, name, command, env)
        threading.Thread(target=self._revive, daemon=True).start()

    def stop(self, *, kill: bool = False, timeout: float = 15) -> int | None:
        """End it, for good."""
        with self._lock:
            return super().stop(kill=kill, timeout=timeout)

    def check(self) -> None:
        """It may have ended for a moment."""

    def _revive(self) -> None:
        while True:
            time.sleep(_REVIVE_SECONDS)
            with self._lock:
                if self._process is None:
                    return
                if self._process.poll() is not None:
                    self.start()


def is_ready(program: Program, http: httpx.Client) -> bool:
    """Whether a process of ours says so; raises AssertionError with its answer otherwise."""
    program.check()
    try:
        answer = http.get("/readyz")
    except httpx.TransportError as error:
        raise AssertionError(str(error)) from None
    assert answer.status_code == httpx.codes.OK, answer.text
    return True
