"""Self-managed certificates on a real API server: rotations, losses, damage and interruptions are not visible to users
who create objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.certificate_story import (
    CONFIGURATIONS,
    SECRETS,
    SELF_MANAGED,
    Asking,
    SelfManagedServer,
    of_certificates,
)
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Reconcilers
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.network import Network
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import forget_lease
from tests.e2e.rollcall_server import rollcall

# A rotation of the authority: its Secret, then each configuration is written and given up, the next certificate, the
# switch, the authority's Secret again, and the configurations.
WRITES = 12

Started = Callable[[], HostedReconciler]

# A killed process closes no connection.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture
def started(plane: ControlPlane) -> Iterator[Started]:
    """Start reconcilers that keep certificates, one after the other; they go with the test."""
    running: list[HostedReconciler] = []

    def start() -> HostedReconciler:
        # The earlier process is dead and will not come back.
        forget_lease(plane)
        running[:] = [HostedReconciler(Network(plane), SELF_MANAGED, lease_namespace=ROLLCALL_NAMESPACE)]
        return running[0]

    yield start
    for found in running:
        found.kill()
    forget_lease(plane)


@pytest.fixture
def steady_admissions(plane: ControlPlane) -> Iterator[Callable[[], Asking]]:
    """Start sending admissions; it ends with the test."""
    begun: list[Asking] = []

    def begin() -> Asking:
        begun.append(Asking(plane))
        return begun[-1]

    yield begin
    for found in begun:
        found.end()


@pytest.fixture
def served(plane: ControlPlane) -> Iterator[SelfManagedServer]:
    """A server that is registered, and whose certificates no reconciler maintains yet."""
    found = SelfManagedServer(plane)
    try:
        found.register()
        yield found
    finally:
        found.close()


@pytest.mark.soak
@pytest.mark.chaos
def test_certificates_are_rotated_without_a_failed_admission(
    plane: ControlPlane, served: SelfManagedServer, started: Started, steady_admissions: Callable[[], Asking]
) -> None:
    reconciler = started()
    served.until_served()
    before, asking = served.authority(), steady_admissions()
    access = f"--kubeconfig={plane.kubeconfig}"
    assert rollcall("certs", "rotate", "--ca", access) == "asked for\n"
    served.wait_for_rotation(before)
    assert rollcall("certs", "rotate", "--leaf", "--wait", access).startswith("rotated: ")
    assert asking.stop() > 10
    checked = rollcall("certs", "verify", access).splitlines()
    assert f"good    m-rollcall 127.0.0.1:{served.port}" in checked
    assert {line.split()[0] for line in checked} == {"good"}
    for name in CONFIGURATIONS:
        metadata = served.configuration(name)["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Namespace", ROLLCALL_NAMESPACE)
    eventually(lambda: reconciler.metric("rollcall_rotation_step", step="none") == 1, "nothing is left to do")
    assert reconciler.metric("rollcall_rotations_total", what="ca") == 1
    written = [found for found in reconciler.network.changes if of_certificates(found)]
    assert len(written) == 6 + WRITES + 1


@pytest.mark.soak
@pytest.mark.chaos
def test_another_leader_completes_a_rotation_that_was_cut_off_at_any_write(
    served: SelfManagedServer, started: Started, steady_admissions: Callable[[], Asking]
) -> None:
    leader = started()
    served.until_served()
    asking = steady_admissions()
    for change in range(1, WRITES + 1):
        for sent in (False, True):
            before = served.authority()
            leader.until_leading()
            leader.network.die_at(change, sent=sent, among=of_certificates)
            served.ask_for("rollcall-ca")
            dies(leader, change)
            leader.kill()
            leader = started()
            served.wait_for_rotation(before)
            assert set(asking.came) == {"admitted"}, f"cut off at write {change}, sent {sent}: {asking.came}"
    print(f"{WRITES * 2} rotations cut off, {asking.stop()} admissions, none failed")


def dies(leader: HostedReconciler, change: int) -> None:
    eventually(lambda: leader.network.dead, f"it dies at write {change}", timeout=60)


LOSSES = {
    "the authority": ("rollcall-ca",),
    "the certificate": ("rollcall-tls",),
    "both": ("rollcall-ca", "rollcall-tls"),
}


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_deleted_secrets_are_recreated_without_a_failed_admission(
    plane: ControlPlane,
    served: SelfManagedServer,
    started: Started,
    steady_admissions: Callable[[], Asking],
    lost: tuple[str, ...],
) -> None:
    reconciler = started()
    served.until_served()
    before, asking = served.authority(), steady_admissions()
    for name in lost:
        plane.http.delete(f"{SECRETS}/{name}").raise_for_status()
    if "rollcall-ca" in lost:
        served.wait_for_rotation(before)
    else:
        eventually(lambda: "tls.crt" in served.secret("rollcall-tls"), "it is signed again")
        assert served.authority() == before
    asking.stop()
    del reconciler


@pytest.mark.soak
@pytest.mark.chaos
def test_a_reapplied_configuration_gets_its_caBundle_at_once(
    plane: ControlPlane, served: SelfManagedServer, started: Started
) -> None:
    reconciler = started()
    served.until_served()
    authority = served.authority()
    for name, path in CONFIGURATIONS.items():
        plane.http.delete(f"{path}/{name}").raise_for_status()
    eventually(lambda: not plane.http.get(f"{CONFIGURATIONS['m-rollcall']}/m-rollcall").is_success, "it is gone")
    served.register()
    eventually(lambda: served.bundles() == [[authority]], "both have the authority", timeout=5)
    # By hand, over what was there.
    plane.kubectl("replace", "-f", "-", stdin=yaml.safe_dump_all(served.manifests()), check=True)
    eventually(lambda: served.bundles() == [[authority]], "both have it again", timeout=5)
    served.until_served()
    del reconciler


@pytest.mark.soak
@pytest.mark.chaos
def test_a_tool_that_keeps_emptying_the_caBundle_is_overwritten_without_a_conflict(
    plane: ControlPlane, served: SelfManagedServer, started: Started
) -> None:
    reconciler = started()
    served.until_served()
    authority = served.authority()
    emptied = served.manifests()
    for hook in (hook for one in emptied for hook in one["webhooks"]):
        hook["clientConfig"]["caBundle"] = ""
    options = ("--server-side", "--field-manager=gitops")
    # Once by force, because it takes the fields over from the registering user; no conflict may follow.
    for force in (("--force-conflicts",), (), ()):
        eventually(served.given_up, "no manager owns the caBundles")
        plane.apply(*emptied, options=(*options, *force), check=True)
        eventually(lambda: served.bundles() == [[authority]], "both have the authority again", timeout=30)
    served.until_served()
    # Its other fields are its own, and stay.
    for name in CONFIGURATIONS:
        managers = served.configuration(name)["metadata"]["managedFields"]
        assert "gitops" in {one["manager"] for one in managers}
    del reconciler


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_an_upgrade_can_remove_a_webhook(
    plane: ControlPlane, served: SelfManagedServer, started: Started, options: tuple[str, ...]
) -> None:
    for name, path in CONFIGURATIONS.items():
        plane.http.delete(f"{path}/{name}").raise_for_status()
    plane.apply(*served.manifests(), options=options, check=True)
    reconciler = started()
    served.until_served()

    eventually(served.given_up, "no manager owns the caBundles")
    fewer = served.manifests()
    dropped = [one["webhooks"].pop(0)["name"] for one in fewer]
    plane.apply(*fewer, options=options, check=True)
    names = {hook["name"] for name in CONFIGURATIONS for hook in served.configuration(name)["webhooks"]}
    assert not names.intersection(dropped)
    assert served.bundles() == [[served.authority()]]
    del reconciler


# What the certificates are kept by, and is asked for in a cluster whose server is registered by url. Whether it may
# delete the configurations is asked within a request that is about something else.
RIGHTS = {
    *(("/secrets", verb) for verb in ("get", "list", "watch", "create", "update")),
    *(
        (f"admissionregistration.k8s.io/{kind}webhookconfigurations", verb)
        for kind in ("mutating", "validating")
        for verb in ("get", "list", "watch", "patch")
    ),
    ("/configmaps", "create"),
    ("/namespaces", "get"),
}


@pytest.mark.soak
@pytest.mark.chaos
def test_the_printed_rights_are_sufficient_and_all_used(
    plane: ControlPlane, served: SelfManagedServer, reconciler: Reconcilers
) -> None:
    forget_lease(plane)
    keeping = reconciler(SELF_MANAGED)
    served.until_served()
    before = served.authority()
    served.ask_for("rollcall-ca")
    served.wait_for_rotation(before)
    assert keeping.metric("rollcall_certificate_failures_total") == 0
    assert {(asked.resource, asked.verb) for asked in keeping.asked()} >= RIGHTS


@pytest.mark.soak
@pytest.mark.chaos
def test_deleting_the_namespace_deletes_the_webhook_configurations(plane: ControlPlane, tmp_path: Path) -> None:
    if not plane.collects_garbage:
        pytest.skip("there is no kube-controller-manager")
    namespace = "rollcall-leaving"
    plane.kubectl("create", "namespace", namespace, check=True)
    config = tmp_path / "rollcall.yaml"
    # No server answers, and no request waits for it.
    config.write_text(yaml.safe_dump({**SELF_MANAGED, "registration": {"failurePolicy": "Ignore"}}))
    urls = "--url=https://127.0.0.1:1", "--next-url=https://127.0.0.1:2"
    printed = rollcall("manifests", "webhooks", "--config", config, *urls)
    plane.kubectl("apply", "-f", "-", stdin=printed, check=True)
    reconciler = HostedReconciler(Network(plane), SELF_MANAGED, lease_namespace=namespace)
    try:

        def found() -> list[Manifest]:
            answers = [plane.http.get(f"{path}/{name}") for name, path in CONFIGURATIONS.items()]
            return [answer.json() for answer in answers if answer.is_success]

        eventually(lambda: all("ownerReferences" in one["metadata"] for one in found()), "they go with the namespace")
        assert len(found()) == 2
        plane.kubectl("delete", "namespace", namespace, "--wait=false", check=True)
        eventually(lambda: found() == [], "they have gone with it", timeout=60)
    finally:
        reconciler.kill()
