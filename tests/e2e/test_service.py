"""An installation as users have it: registered by its Service, whose endpoints the API server finds itself.

All that `rollcall manifests all` prints is applied; the EndpointSlices are the real controller's, and connections go to
the endpoints without kube-proxy. What is between them is played: the kubelets, and each Pod's network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.admissions import Admissions, percentile
from tests.e2e.background import Background
from tests.e2e.certificate_story import SelfManaged, admitted
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Grove
from tests.e2e.installed import documents, removed
from tests.e2e.nodes import add_nodes, remove_nodes
from tests.e2e.programs import eventually, own_address
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import ran, rollcall
from tests.e2e.served_pods import ServedPods
from tests.e2e.workloads import nvlink, two_cliques
from webhook.certificates.files import make_development_certificates
from webhook.installation.deployment import CONFIGURATION_FILE

pytestmark = [pytest.mark.soak, pytest.mark.chaos]


HOST = f"rollcall.{ROLLCALL_NAMESPACE}.svc"
# Short, so that connections are renewed and a drain ends while a test waits for it; and longer than the endpoints'
# controller and the API server take to hear that a Pod goes.
CONFIG: Manifest = {
    **KOORDINATOR,
    "serving": {"drainSeconds": 8, "connectionSeconds": 5},
    "certificates": {"mode": "selfManaged", "overlapSeconds": 2},
}
_MERGE = {"Content-Type": "application/merge-patch+json"}
SERVICE = f"/api/v1/namespaces/{ROLLCALL_NAMESPACE}/services/rollcall"


class Installation(SelfManaged):
    """What is installed, and two Pods behind its Service. `close` removes all of it."""

    def __init__(self, plane: ControlPlane, address: str, folder: Path) -> None:
        super().__init__(plane)
        self.config = folder / CONFIGURATION_FILE
        self.config.write_text(yaml.safe_dump(CONFIG))
        removed(plane, ROLLCALL_NAMESPACE)
        printed = rollcall("manifests", "all", "--config", self.config)
        plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed, check=True)
        (template,) = (
            found["spec"]["template"]
            for found in documents(printed)
            if (found["kind"], found["metadata"]["name"]) == ("Deployment", "rollcall")
        )
        # No free resources, so that no scheduler brings the Deployment's own Pods here.
        nodes = add_nodes(plane, 2, cpu=0, prefix="served")
        self.reconciler = ReconcilerProcess(plane, CONFIG)
        self.pods = ServedPods(plane, template, address, nodes, folder)

    def begin(self) -> None:
        """Have both Pods behind the Service, and the API server ask them."""
        self.pods.start("a", "b")
        self.until_served()

    def check(self) -> None:
        self.pods.check()

    def command(self, *arguments: str, code: int = 0) -> str:
        """What a command says that a person gives, and how it ends."""
        done = ran(*arguments, f"--kubeconfig={self.plane.kubeconfig}")
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def place(self, name: str) -> str:
        """Where a Pod serves."""
        return f"{self.pods.address}:{self.pods.pods[name].ports['https']}"

    def close(self) -> None:
        """Remove all of it."""
        self.pods.close()
        try:
            self.reconciler.close()
        finally:
            removed(self.plane, ROLLCALL_NAMESPACE)
            remove_nodes(self.plane)


@pytest.fixture(scope="module")
def installation(
    version: str, control_plane: Callable[[str], ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    plane, address = control_plane(version), own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback, which no endpoint of a Service may have")
    if not plane.collects_garbage:
        pytest.skip("there is no kube-controller-manager among the programs, so no EndpointSlices are created")
    found = Installation(plane, address, tmp_path_factory.mktemp("installation"))
    try:
        found.begin()
        yield found
    finally:
        found.close()


@pytest.fixture
def load(
    installation: Installation, namespace: str, grove: Grove, background: Background
) -> Iterator[Callable[[float], Admissions]]:
    """Begin a load of so many admissions a second; it ends with the test."""
    begun: list[Admissions] = []

    def begin(rate: float) -> Admissions:
        played = grove(two_cliques("demo", namespace)).create_podgangs()
        begun.append(Admissions(installation.plane, played, rate, background))
        return begun[-1]

    yield begin
    for found in begun:
        found.close()


def ended(load: Admissions, what: str) -> None:
    """End it: every admission must have come through."""
    load.wait()
    outcomes = load.outcomes
    worst = percentile(outcomes, 99)
    print(f"{what}: {len(outcomes)} admissions in {load.seconds:.1f} s, p99 {worst:.0f} ms, {load.stalls}")
    assert [one for one in outcomes if one.wrong] == []


@pytest.mark.every_version
def test_admissions_go_through_the_service(installation: Installation, namespace: str, grove: Grove) -> None:
    plane = installation.plane
    hooks = [hook for name in ("m-rollcall", "v-rollcall") for hook in installation.configuration(name)["webhooks"]]
    assert {hook["clientConfig"].get("url") for hook in hooks} == {None}
    played = grove(two_cliques("demo", namespace)).create()
    assert len(played.pods()) == 3
    for pod in played.pods():
        assert pod["spec"]["schedulerName"] == "koord-scheduler"
        assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"].startswith("demo-0")
    refused = plane.apply(nvlink("split", namespace))
    assert refused.code == 1
    assert "koordinator/mnnvl" in refused.err


def test_the_commands_show_the_state_of_the_certificates(installation: Installation) -> None:
    told = json.loads(installation.command("certs", "status", f"--config={installation.config}", "-o", "json"))
    assert (told["selfManaged"], told["step"]) == (True, "none")
    assert [one["trusts"] for one in told["configurations"]] == [[installation.authority()]] * 2
    checked = installation.command("certs", "verify").splitlines()
    wanted = {f"good    {name} {installation.place(pod)}" for name in ("m-rollcall", "v-rollcall") for pod in "ab"}
    assert {line for line in checked if installation.pods.address in line} == wanted
    assert {line.split()[0] for line in checked} == {"good"}


def test_an_authority_is_rotated_through_the_service(
    installation: Installation, load: Callable[[float], Admissions]
) -> None:
    # Commands take their part of the machine beside it.
    before, going = installation.authority(), load(20)
    # While one Pod has heard of nothing, the old authority must be trusted.
    kubelet = installation.pods.pods["b"].kubelet
    kubelet.frozen.set()
    installation.command("certs", "rotate", "--ca")

    def both_trusted() -> Manifest:
        told: Manifest = json.loads(
            installation.command("certs", "status", f"--config={installation.config}", "-o", "json")
        )
        # By chance the other Pod alone was asked for the proof.
        assert told["step"] in {"proof", "served"}, told["step"]
        return told

    told = eventually(both_trusted, "the next certificate is shown", timeout=60)
    following = told["authority"]["next"]["fingerprint"]
    assert [one["trusts"] for one in told["configurations"]] == [[before, following]] * 2
    assert {line.split()[0] for line in installation.command("certs", "verify").splitlines()} == {"good"}
    kubelet.frozen.clear()
    installation.wait_for_rotation(before)
    assert installation.authority() == following
    assert {line.split()[0] for line in installation.command("certs", "verify").splitlines()} == {"good"}
    ended(going, "a rotation of the authority")


def test_an_endpoint_with_a_foreign_certificate_is_reported(installation: Installation, tmp_path: Path) -> None:
    make_development_certificates(tmp_path, [HOST])
    foreign = {name: (tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key")}
    with installation.pods.pods["b"].kubelet.bringing(foreign):
        wanted = [
            f"bad     {name} {installation.place('b')}: as {HOST}: unable to get local issuer certificate"
            for name in ("m-rollcall", "v-rollcall")
        ]

        def told() -> bool:
            found = installation.command("certs", "verify", code=1).splitlines()
            assert [line for line in found if not line.startswith("good ")] == wanted
            return True

        eventually(told, "it is served, and named")
        found = [one for one in doctored(installation) if one["check"] == "server/certificate"]
        assert [one["where"] for one in found] == [f"https://{installation.place('b')}"]
        assert f"the caBundle does not trust it as {HOST}" in found[0]["found"]

    def good() -> bool:
        installation.command("certs", "verify")
        return True

    eventually(good, "its own is served again")


def doctored(installation: Installation, *, code: int = 1) -> list[dict[str, Any]]:
    """What the doctor finds that is worse than a note; where no container runs there is no scheduler's Deployment."""
    said = installation.command("doctor", f"--config={installation.config}", "-o", "json", code=code)
    return [
        one
        for one in json.loads(said)["findings"]
        if one["level"] != "note" and " test-" not in one["where"] and one["check"] != "schedulers/running"
    ]


@pytest.fixture
def mended(installation: Installation) -> Iterator[Installation]:
    """An installation whose Service a test may change."""
    before = installation.plane.http.get(SERVICE).json()["spec"]["ports"]
    yield installation
    installation.plane.http.patch(SERVICE, json={"spec": {"ports": before}}, headers=_MERGE).raise_for_status()
    for pod in installation.pods.pods.values():
        pod.said_unready.clear()
    installation.pods.until_behind("a", "b")
    installation.until_served()


def test_the_doctor_finds_no_fault_in_the_installation(installation: Installation) -> None:
    assert doctored(installation, code=0) == []


def test_the_doctor_reports_endpoints_that_are_not_ready(mended: Installation) -> None:
    pods = mended.pods.pods
    pods["b"].said_unready.set()
    mended.pods.until_behind("a")
    (one,) = doctored(mended, code=0)
    assert (one["check"], one["level"], one["found"]) == ("server/endpoints", "warning", "one endpoint is ready")
    pods["a"].said_unready.set()
    mended.pods.until_behind()
    found = {one["check"]: one for one in doctored(mended)}
    assert (found["server/endpoints"]["level"], found["server/endpoints"]["found"]) == ("error", "no endpoint is ready")
    assert set(found) <= {"server/endpoints", "webhooks/answered"}


def test_a_target_port_that_no_container_has_is_reported(mended: Installation) -> None:
    ports = mended.plane.http.get(SERVICE).json()["spec"]["ports"]
    spoilt = [{**port, "targetPort": "webhook"} if port["name"] == "https" else port for port in ports]
    mended.plane.http.patch(SERVICE, json={"spec": {"ports": spoilt}}, headers=_MERGE).raise_for_status()
    mended.pods.until_behind()
    found = {one["check"]: one for one in doctored(mended)}
    assert set(found) <= {"server/endpoints", "webhooks/answered"}
    told = found["server/endpoints"]
    assert (told["level"], told["where"]) == ("error", f"Service {ROLLCALL_NAMESPACE}/rollcall")
    assert told["found"] == "no ready endpoint has its port 443 (https)"
    checked = mended.command("certs", "verify", code=1).splitlines()
    assert [line for line in checked if not line.startswith("good ")] == [
        f"bad     {name} {mended.pods.address}: it has no port https of the Service"
        for name in ("m-rollcall", "v-rollcall")
    ]


# The newest chooses an endpoint for each call (its gate WebhookRoundTripLoadBalancing), the others for each connection.
@pytest.mark.every_version
def test_a_rolling_update_loses_no_admission(installation: Installation, load: Callable[[float], Admissions]) -> None:
    pods, going = installation.pods, load(50)
    before = {name: pod.answered() for name, pod in pods.pods.items()}
    eventually(
        lambda: all(pod.answered() > before[name] + 20 for name, pod in pods.pods.items()), "both are asked", timeout=60
    )
    assert pods.end("a") == 0
    pods.until_behind("b")
    pods.start("a")
    eventually(lambda: pods.pods["a"].answered() > 20, "the new one is asked", timeout=60)
    ended(going, "a roll")


def test_admissions_are_refused_while_the_service_has_no_endpoint(mended: Installation) -> None:
    """So that the tests above can fail: it is the endpoints that are called, and those that are ready."""
    for pod in mended.pods.pods.values():
        pod.said_unready.set()
    mended.pods.until_behind()

    def refused() -> bool:
        answer = admitted(mended.plane.http)
        assert "no endpoints available for service" in answer.text, answer.text
        return True

    eventually(refused, "the API server finds no endpoint")
    checked = mended.command("certs", "verify", code=1).splitlines()
    assert [line for line in checked if not line.startswith("good ")] == [
        f"bad     {name} {HOST}: no server behind the Service is ready" for name in ("m-rollcall", "v-rollcall")
    ]
