"""Self-managed certificates on a real API server: whatever is rotated, lost, spoilt or cut off in the middle, whoever
creates objects does not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.cluster.certificate_story import (
    CONFIGURATIONS,
    SECRETS,
    SELF_MANAGED,
    Asking,
    SelfManagedServer,
    of_certificates,
)
from tests.cluster.control_plane import ROLLCALL_NAMESPACE, ControlPlane
from tests.cluster.hosted_reconciler import HostedReconciler
from tests.cluster.network import Network
from tests.cluster.programs import eventually
from tests.cluster.reconciler_process import forget_lease

# A rotation of the authority: its Secret, then each configuration is written and given up, the next certificate, the
# switch, the authority's Secret again, and the configurations.
WRITES = 12

Started = Callable[[], HostedReconciler]

# Whoever is killed closes no connection.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture
def started(plane: ControlPlane) -> Iterator[Started]:
    """Start reconcilers that keep certificates, one after the other; they go with the test."""
    running: list[HostedReconciler] = []

    def start() -> HostedReconciler:
        forget_lease(plane)
        found = HostedReconciler(Network(plane), SELF_MANAGED, lease_namespace=ROLLCALL_NAMESPACE)
        running.append(found)
        return found

    yield start
    for found in running:
        found.kill()
    forget_lease(plane)


@pytest.fixture
def served(plane: ControlPlane) -> Iterator[SelfManagedServer]:
    """A server that is registered, and whose certificates nobody keeps yet."""
    found = SelfManagedServer(plane)
    try:
        found.register()
        yield found
    finally:
        found.close()


def test_certificates_are_kept_and_rotated_while_admissions_go_on(
    plane: ControlPlane, served: SelfManagedServer, started: Started
) -> None:
    reconciler = started()
    served.until_served()
    before, asking = served.authority(), Asking(plane)
    served.ask_for("rollcall-ca")
    served.until_rotated(before)
    assert asking.stop() > 10
    for name in CONFIGURATIONS:
        metadata = served.configuration(name)["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Namespace", ROLLCALL_NAMESPACE)
    eventually(lambda: reconciler.metric("rollcall_rotations_total", what="ca") == 1, "it is counted")
    assert reconciler.metric("rollcall_rotation_step", step="none") == 1
    written = [found for found in reconciler.network.changes if of_certificates(found)]
    assert len(written) == 6 + WRITES


@pytest.mark.long
def test_a_leader_that_is_cut_off_at_any_write_breaks_nothing_and_another_completes_the_rotation(
    plane: ControlPlane, served: SelfManagedServer, started: Started
) -> None:
    leader = started()
    served.until_served()
    asking = Asking(plane)
    for change in range(1, WRITES + 1):
        for sent in (False, True):
            before = served.authority()
            leader.until_leading()
            leader.network.die_at(change, sent=sent, among=of_certificates)
            served.ask_for("rollcall-ca")
            dies(leader, change)
            leader.kill()
            leader = started()
            served.until_rotated(before)
            assert set(asking.came) == {"admitted"}, f"cut off at write {change}, sent {sent}: {asking.came}"
    print(f"{WRITES * 2} rotations cut off, {asking.stop()} admissions, none failed")


def dies(leader: HostedReconciler, change: int) -> None:
    eventually(lambda: leader.network.dead, f"it dies at write {change}", timeout=60)


LOSSES = {
    "the authority": ("rollcall-ca",),
    "the certificate": ("rollcall-tls",),
    "both": ("rollcall-ca", "rollcall-tls"),
}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_secrets_that_are_deleted_are_made_anew_and_nobody_notices(
    plane: ControlPlane, served: SelfManagedServer, started: Started, lost: tuple[str, ...]
) -> None:
    reconciler = started()
    served.until_served()
    before, asking = served.authority(), Asking(plane)
    for name in lost:
        plane.http.delete(f"{SECRETS}/{name}").raise_for_status()
    if "rollcall-ca" in lost:
        served.until_rotated(before)
    else:
        eventually(lambda: "tls.crt" in served.secret("rollcall-tls"), "it is signed again")
        assert served.authority() == before
    asking.stop()
    del reconciler


def test_a_configuration_that_is_applied_anew_gets_its_caBundle_at_once(
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
    # By hand, over what was there; and by a tool that has its own opinion of the field.
    plane.kubectl("replace", "-f", "-", stdin=yaml.safe_dump_all(served.manifests()), check=True)
    eventually(lambda: served.bundles() == [[authority]], "both have it again", timeout=5)
    served.until_served()
    del reconciler


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_an_upgrade_may_drop_a_hook(
    plane: ControlPlane, served: SelfManagedServer, started: Started, options: tuple[str, ...]
) -> None:
    for name, path in CONFIGURATIONS.items():
        plane.http.delete(f"{path}/{name}").raise_for_status()
    plane.apply(*served.manifests(), options=options, check=True)
    reconciler = started()
    served.until_served()

    eventually(served.given_up, "the caBundles are nobody's")
    fewer = served.manifests()
    dropped = [one["webhooks"].pop(0)["name"] for one in fewer]
    plane.apply(*fewer, options=options, check=True)
    names = {hook["name"] for name in CONFIGURATIONS for hook in served.configuration(name)["webhooks"]}
    assert not names.intersection(dropped)
    assert served.bundles() == [[served.authority()]]
    del reconciler
