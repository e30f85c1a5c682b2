"""The uninstallation, and another place for the reconciler, during admissions of which none is lost."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.conftest import gated
from tests.e2e.control_plane import RECONCILER, ROLLCALL, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Reconcilers, Rollcall
from tests.e2e.installed import documents
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess, forget_lease
from tests.e2e.rollcall_server import RollcallServer, rollcall
from tests.e2e.test_reconciler import pod_groups
from tests.e2e.workloads import two_cliques
from webhook.installation.names import LEASE_NAME, RECONCILER_ROLE
from webhook.installation.names import RECONCILER as OWN_ACCOUNT


class Admissions:
    """Creates sets one after the other until it is closed, and records each result."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._client = plane.new_client("admin-token")
        self._path = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"
        self._workload = two_cliques("probe", namespace)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done = 0
        self.refused: list[str] = []

    def __enter__(self) -> Admissions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            answer = self._client.post(self._path, params={"dryRun": "All"}, json=self._workload)
            if answer.is_error:
                self.refused.append(answer.text)
            self.done += 1

    def some_more(self) -> None:
        """Wait for another twenty."""
        goal = self.done + 20
        eventually(lambda: self.done >= goal, "admissions go on")


def new_rights(server: RollcallServer) -> str:
    return rollcall("manifests", "rbac", "--config", server.config)


@pytest.mark.beside
@pytest.mark.long
def test_gangs_are_created_while_rollcall_is_uninstalled_and_afterwards(
    plane: ControlPlane, rollcall: Rollcall, namespace: str
) -> None:
    """The order of docs/how-to/installing.md: webhooks first; the servers answer until no API server calls them."""
    server = rollcall(plane)
    with Admissions(plane, namespace) as admissions:
        admissions.some_more()
        server.unregister()
        admissions.some_more()
        server.program.stop()
        plane.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=new_rights(server), check=True)
        admissions.some_more()
    assert admissions.refused == []
    assert plane.kubectl("get", "mutatingwebhookconfiguration", "m-rollcall").code == 1
    assert plane.kubectl("get", "validatingwebhookconfiguration", "v-rollcall").code == 1
    server.program.start()
    server.until_ready()


LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/leases/{LEASE_NAME}"


def reconciler_rights(server: RollcallServer, placement: str) -> list[Manifest]:
    """The reconciler's roles and bindings of an installation that has it there; the account of its own is the one by
    which reconcilers ask in tests.
    """
    printed = rollcall("manifests", "all", "--config", server.config, "--reconciler", placement)
    found = [one for one in documents(printed) if one["metadata"]["name"] == RECONCILER_ROLE]
    for one in found:
        for subject in one.get("subjects", ()):
            subject["name"] = RECONCILER if subject["name"] == OWN_ACCOUNT else subject["name"]
    return found


def may_change_pods(plane: ControlPlane, account: str) -> bool:
    user = f"system:serviceaccount:{ROLLCALL_NAMESPACE}:{account}"
    return plane.kubectl("auth", "can-i", "patch", "pods", "--all-namespaces", "--as", user).out.strip() == "yes"


def holder(plane: ControlPlane) -> str:
    held: str = plane.http.get(LEASE).json()["spec"].get("holderIdentity") or ""
    return held


@pytest.fixture
def beside(
    plane: ControlPlane, rollcall: Rollcall, reconciler: Reconcilers
) -> tuple[RollcallServer, ReconcilerProcess]:
    """A server, and the reconciler in its Pods, which leads."""
    server = rollcall(plane, gated())
    forget_lease(plane)
    sidecar = reconciler(gated(), account=ROLLCALL, roles=reconciler_rights(server, "sidecar"))
    sidecar.until_leading()
    return server, sidecar


@pytest.mark.beside
@pytest.mark.long
def test_moving_the_reconciler_out_of_the_server_pods_keeps_its_rights_and_one_writer(
    plane: ControlPlane,
    beside: tuple[RollcallServer, ReconcilerProcess],
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    """As docs/how-to/installing.md says it: apply with `moving`, wait for the roll, apply with `deployment`."""
    server, sidecar = beside

    def gang_is_made(name: str) -> None:
        grove(two_cliques(name, namespace)).create_podgangs()
        made = {f"{name}-0-leader", f"{name}-0-worker"}
        eventually(lambda: made <= pod_groups(plane, namespace).keys(), f"the PodGroups of {name} are there")

    first = holder(plane)
    assert may_change_pods(plane, ROLLCALL)
    with Admissions(plane, namespace) as admissions:
        gang_is_made("before")
        own = reconciler(gated(), roles=reconciler_rights(server, "moving"))
        own.until_ready()
        gang_is_made("meanwhile")
        # Both may write, and one does.
        assert (sidecar.metric("rollcall_leads"), own.metric("rollcall_leads")) == (1, 0)
        assert holder(plane) == first
        sidecar.program.stop()
        own.until_leading()
        assert holder(plane) not in {first, ""}
        gang_is_made("moved")
        plane.apply(*reconciler_rights(server, "deployment"), check=True)
        eventually(lambda: not may_change_pods(plane, ROLLCALL), "the server may change no pods")
        gang_is_made("after")
        assert own.metric("rollcall_leads") == 1
        admissions.some_more()
    assert admissions.refused == []
    for one in (sidecar, own):
        assert "HTTP 403" not in one.program.log.read_text(), "a right was missing"


@pytest.mark.beside
@pytest.mark.long
def test_a_sidecar_without_rights_writes_nothing_and_the_next_one_takes_over(
    plane: ControlPlane,
    beside: tuple[RollcallServer, ReconcilerProcess],
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    """Without the step in between, gangs wait until the sidecar's lease expires, and are then written."""
    server, sidecar = beside
    own = reconciler(gated(), roles=reconciler_rights(server, "deployment"))
    own.until_leading()
    assert sidecar.metric("rollcall_leads") == 0
    grove(two_cliques("demo", namespace)).create_podgangs()
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the PodGroups are there")
    assert "HTTP 403" in sidecar.program.log.read_text()
