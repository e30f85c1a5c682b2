"""A real API server is answered while the files of the serving certificate become invalid and valid again."""

from __future__ import annotations

import shutil
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import KOORDINATOR, until_asked
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import nvlink, two_cliques
from tests.unit.server.server_process import shown_to
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, load_pair, make_development_certificates

# So that the API server opens connections, and sees what is shown now: one that is kept would see nothing of it.
CONFIG = {**KOORDINATOR, "serving": {"connectionSeconds": 1}}


class Ledger:
    """Continuous admissions, and the API server's answer to each."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._path = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"
        self._workloads = {201: two_cliques("fine", namespace), 422: nvlink("refused", namespace)}
        self._plane = plane
        self._end = threading.Event()
        self.counted: Counter[int] = Counter()
        self.wrong: list[str] = []

    def post(self) -> None:
        """Until the end: one workload that is admitted, one that our rule refuses, and again."""
        with self._plane.new_client(ADMIN) as http:
            while not self._end.is_set():
                for status, workload in self._workloads.items():
                    answer = http.post(self._path, params={"dryRun": "All"}, json=workload)
                    self.counted[answer.status_code] += 1
                    if answer.status_code != status or (status == 422 and "koordinator/mnnvl" not in answer.text):
                        self.wrong.append(f"{answer.status_code}: {answer.text[:500]}")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the ledger during the test."""
        thread = threading.Thread(target=self.post)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join(30)

    def until_more(self) -> None:
        """Wait until both kinds were answered again, and correctly."""
        before = self.counted.copy()
        eventually(lambda: min(self.counted[status] - before[status] for status in (201, 422)) > 2, "both are answered")
        assert self.wrong == []


@pytest.fixture
def server(plane: ControlPlane) -> Iterator[RollcallServer]:
    """A server whose authority, and another one, are both in caBundle."""
    serving = RollcallServer(plane, CONFIG)
    other = serving.folder / "other"
    make_development_certificates(other)
    bundle = serving.folder / CA_FILE
    bundle.write_bytes(bundle.read_bytes() + (other / CA_FILE).read_bytes())
    serving.until_ready()
    serving.register()
    until_asked(plane)
    yield serving
    serving.close()


BAD = {
    "the key of another": "tls.key: the key does not belong to",
    "empty": "tls.crt: no certificate in PEM form",
    "half written": "tls.crt: no certificate in PEM form",
    "gone": "tls.key: no such file",
}


def spoil(folder: Path, what: str) -> None:
    """Make the files of the serving certificate bad."""
    certificate, key = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if what == "the key of another":
        shutil.copy(folder / "other" / KEY_FILE, key)
    elif what == "empty":
        certificate.write_bytes(b"")
    elif what == "half written":
        certificate.write_bytes(certificate.read_bytes()[:300])
    else:
        key.unlink()


def test_the_api_server_is_answered_whatever_the_certificate_files_contain(
    plane: ControlPlane, server: RollcallServer, namespace: str, tmp_path: Path
) -> None:
    folder, ledger = server.folder, Ledger(plane, namespace)
    for name in (CERTIFICATE_FILE, KEY_FILE):
        shutil.copy(folder / name, tmp_path / name)
    both = ssl.create_default_context(cafile=str(folder / CA_FILE))

    def put(source: Path) -> None:
        for name in (CERTIFICATE_FILE, KEY_FILE):
            shutil.copy(source / name, folder / name)

    def told(path: str) -> httpx.Response:
        # A fresh connection, which sees what a new one of the API server's would see.
        return httpx.get(f"{server.url}{path}", verify=both, trust_env=False)

    def recycled() -> float:
        name = "rollcall_connections_recycled_total "
        return next(float(line.split()[-1]) for line in told("/metrics").text.splitlines() if line.startswith(name))

    def until_shown(source: Path) -> None:
        leaf = load_pair(source / CERTIFICATE_FILE, source / KEY_FILE).leaf
        eventually(lambda: shown_to(both, server.port) == leaf, "the new pair is shown")
        # What the API server kept of the time before is used up.
        before = recycled()
        eventually(lambda: recycled() > before + 1, "connections grow old")

    def until_refused(why: str) -> None:
        eventually(lambda: why in told("/readyz").text, f"the files are refused: {why}")
        assert told("/readyz").status_code == httpx.codes.OK

    with ledger.kept():
        for what, why in BAD.items():
            put(tmp_path)
            spoil(folder, what)
            until_refused(why)
            ledger.until_more()
        # Good again, and of another authority; the API server believes both.
        for source in (folder / "other", tmp_path):
            put(source)
            until_shown(source)
            assert told("/readyz").text == "ready\n"
            ledger.until_more()
    assert ledger.wrong == []
    assert set(ledger.counted) == {201, 422}
