"""The next step for self-managed certificates, for each state of the stored objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.certificates.certificate_world import NOW, ROTATION, CertificateWorld, current, lose_authority
from webhook.certificates.renewal import (
    CheckServers,
    Idle,
    Issue,
    NewAuthority,
    ProbeTrust,
    Publish,
    RotationStep,
    SeenCertificates,
    Switch,
    leaf_renewal,
    plan,
)
from webhook.certificates.x509 import issued_by, new_authority, new_leaf, pem, read_certificates


@pytest.fixture
def world() -> CertificateWorld:
    """One in which everything is as it should be."""
    found = CertificateWorld()
    found.settle()
    found.writes.clear()
    return found


def test_the_first_plan_creates_trusts_and_uses_an_authority() -> None:
    world = CertificateWorld()
    assert world.settle() == ["NewAuthority", "Publish", "ReleaseFields", "Publish", "ReleaseFields", "Issue"]
    assert world.authority is not None
    assert world.serving is not None
    assert sorted(world.authority) == ["ca.crt", "ca.key"]
    assert sorted(world.serving) == ["ca.crt", "tls.crt", "tls.key"]
    assert set(world.bundles.values()) == {world.authority["ca.crt"]} == {world.serving["ca.crt"]}
    assert world.serves


def test_the_certificate_has_every_service_name_and_expires_with_its_authority(world: CertificateWorld) -> None:
    pair = world.stored.serving.pair
    assert pair is not None
    assert world.stored.hosts == (
        "rollcall",
        "rollcall.rollcall-system",
        "rollcall.rollcall-system.svc",
        "rollcall.rollcall-system.svc.cluster.local",
    )
    assert pair.certificate.not_valid_after_utc == NOW + timedelta(days=30)
    (authority,) = read_certificates(current(world))
    assert authority.not_valid_after_utc == NOW + timedelta(days=365)


def test_certificates_are_maintained_without_webhook_configurations() -> None:
    world = CertificateWorld()
    world.bundles = {}
    assert world.settle() == ["NewAuthority", "Issue"]


def test_a_healthy_state_needs_no_write_until_something_is_due(world: CertificateWorld) -> None:
    action = world.next_action()
    begin = NOW - timedelta(minutes=5)
    assert action == Idle(begin + (timedelta(days=30, minutes=5)) * 0.67)
    assert world.settle() == []


def test_a_certificate_that_is_due_is_signed_again_and_nothing_else_is_written(world: CertificateWorld) -> None:
    world.passes(days=30 * 0.67 - 0.01)
    assert world.settle() == []
    world.passes(days=0.02)
    assert world.settle() == ["Issue"]
    assert world.settle() == []


def test_the_renewal_of_the_certificate_follows_from_the_authority_that_signed_it(world: CertificateWorld) -> None:
    """A certificate of 30 days is renewed after 67 percent of them. Near the end of its authority it ends with it, and
    is not renewed before, because a new one would not be valid any longer.
    """
    assert leaf_renewal(world.stored, world.now, world.settings) == NOW + timedelta(
        days=20, hours=2, minutes=22, seconds=21
    )
    world.passes(days=345)
    while not isinstance(world.step(), Switch):
        world.everybody_hears()
        world.look()
    # Signed by the next authority, which ends a year later; the current one ends after 20 days.
    assert world.stored.authority.next is not None
    assert leaf_renewal(world.stored, world.now, world.settings) == world.now + timedelta(
        days=20, hours=2, minutes=22, seconds=21
    )


def test_an_authority_near_its_end_is_rotated(world: CertificateWorld) -> None:
    before = current(world)
    world.passes(days=365 * 0.67)
    assert world.settle() == [
        "NewAuthority",
        "Publish",
        "ReleaseFields",
        "Publish",
        "ReleaseFields",
        "Issue",
        *ROTATION[5:],
    ]
    assert current(world) != before
    assert set(world.bundles.values()) == {current(world)}


def test_a_rotation_of_certificate_or_authority_can_be_requested(world: CertificateWorld) -> None:
    world.asked = {"leaf"}
    assert world.settle() == ["Issue"]
    world.asked = {"ca"}
    assert world.settle() == ROTATION
    assert world.asked == set()


def test_a_request_during_a_rotation_starts_another_one_afterwards(world: CertificateWorld) -> None:
    world.asked = {"ca"}
    world.step()
    world.asked = {"ca"}
    # What the first was to withdraw at last, the second leaves out when it publishes its own.
    assert world.settle() == [*ROTATION[1:8], *ROTATION]


def test_the_old_authority_is_trusted_until_every_server_presents_a_certificate_of_the_new(
    world: CertificateWorld,
) -> None:
    old = current(world)
    world.asked = {"ca"}
    while not isinstance(action := world.step(), ProbeTrust):
        pass
    assert action.step is RotationStep.PROOF
    assert world.authority is not None
    both = old + world.authority["next.crt"]
    assert set(world.bundles.values()) == {both}
    # The API server has not heard of it: nothing happens, however often it is looked at.
    world.server_hears()
    world.look()
    assert isinstance(world.step(), ProbeTrust)
    world.everybody_hears()
    world.look()
    while not isinstance(action := world.step(), CheckServers):
        pass
    assert action.step is RotationStep.SERVED
    assert set(world.bundles.values()) == {both}
    world.look()
    assert isinstance(world.step(), CheckServers), "the server has not read its files yet"
    world.server_hears()
    world.look()
    assert world.settle() == ROTATION[7:]


def test_a_certificate_is_renewed_while_a_rotation_waits(world: CertificateWorld) -> None:
    world.asked = {"ca"}
    while not isinstance(world.step(), ProbeTrust):
        pass
    before = world.stored.serving.pair
    world.passes(days=29)
    action = world.step()
    assert isinstance(action, Issue)
    assert (action.place, action.signer.certificate_pem) == ("tls", current(world))
    assert world.stored.serving.pair != before
    # And the next, before it has ever been served.
    action = world.step()
    assert isinstance(action, Issue)
    assert action.place == "next"


def test_near_the_end_of_its_authority_a_certificate_is_not_renewed_repeatedly(world: CertificateWorld) -> None:
    world.passes(days=350)
    assert world.authority is not None
    world.asked = {"leaf"}
    # A rotation is due as well, and waits.
    while not isinstance(world.step(), ProbeTrust):
        pass
    signed = world.writes.count("Issue")
    for _ in range(100):
        world.passes(hours=3)
        world.step()
    assert world.writes.count("Issue") <= signed + 1


def test_a_late_certificate_expires_with_its_authority(world: CertificateWorld) -> None:
    (authority,) = read_certificates(current(world))
    world.passes(days=350)
    world.asked = {"leaf"}
    while not isinstance(world.step(), ProbeTrust):
        pass
    pair = world.stored.serving.pair
    assert pair is not None
    assert issued_by(pair.certificate, authority)
    assert pair.certificate.not_valid_after_utc == authority.not_valid_after_utc


def garble(key: str) -> Callable[[CertificateWorld], None]:
    def garbled(world: CertificateWorld) -> None:
        assert world.authority is not None
        world.authority = {**world.authority, key: b"-----BEGIN nothing-----"}

    return garbled


def swap_key(world: CertificateWorld) -> None:
    assert world.authority is not None
    world.authority["ca.key"] = new_authority("another", NOW, timedelta(days=1)).key_pem


def lose_key(world: CertificateWorld) -> None:
    assert world.authority is not None
    del world.authority["ca.key"]


def leaf_for_authority(world: CertificateWorld) -> None:
    assert world.serving is not None
    world.authority = {"ca.crt": world.serving["tls.crt"], "ca.key": world.serving["tls.key"]}


LOST: dict[str, Callable[[CertificateWorld], None]] = {
    "it was deleted": lose_authority,
    "its certificate is none": garble("ca.crt"),
    "its key is none": garble("ca.key"),
    "its key is another's": swap_key,
    "its key is gone": lose_key,
    "it is no authority": leaf_for_authority,
    "half a next one is there": garble("next.crt"),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_lost_authority_stays_trusted_until_another_has_taken_over(
    world: CertificateWorld, lose: Callable[[CertificateWorld], None]
) -> None:
    (old,) = read_certificates(current(world))
    lose(world)
    action = world.next_action()
    assert isinstance(action, NewAuthority)
    assert action.repair
    world.step()
    assert sorted(world.authority or {}) == ["ca.crt", "next.crt", "next.key"]
    assert old in read_certificates(current(world))
    while not isinstance(world.step(), Idle):
        assert world.serves
        world.everybody_hears()
        world.look()
        assert world.serves
    assert read_certificates(current(world))[0] != old
    assert set(world.bundles.values()) == {current(world)}


def test_a_lost_authority_is_recovered_from_the_caBundles_if_both_secrets_are_missing(world: CertificateWorld) -> None:
    (old,) = read_certificates(current(world))
    world.authority = world.serving = None
    world.step()
    assert read_certificates(current(world)) == (old,)
    # What servers hold in memory is trusted all the while, and not replaced before the new one is.
    while not isinstance(world.step(), Idle):
        assert world.serves
        world.server_hears()
        assert world.serves
        world.everybody_hears()
        world.look()
    assert world.serves


def test_earlier_certificates_stay_trusted_until_ours_are_served() -> None:
    world = CertificateWorld()
    theirs = new_authority("cert-manager", NOW, timedelta(days=90))
    leaf = new_leaf(theirs, world.stored.hosts, NOW, NOW + timedelta(days=30))
    world.serving = {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem, "ca.crt": theirs.certificate_pem}
    world.bundles = dict.fromkeys(world.bundles, theirs.certificate_pem)
    world.everybody_hears()
    while not isinstance(world.step(), Idle):
        assert world.serves
        world.everybody_hears()
        world.look()
    assert theirs.certificate_pem not in world.bundles["m-rollcall"]


UNUSABLE = {
    "it was deleted": None,
    "it is empty": {},
    "it is nonsense": {"tls.crt": b"nonsense", "tls.key": b"nonsense"},
}


@pytest.mark.parametrize("data", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_certificate_is_signed_again_at_once(
    world: CertificateWorld, data: dict[str, bytes] | None
) -> None:
    world.serving = data
    assert world.settle() == ["Issue"]
    assert world.serves


def test_a_foreign_certificate_is_replaced(world: CertificateWorld) -> None:
    theirs = new_authority("somebody", NOW, timedelta(days=90))
    leaf = new_leaf(theirs, world.stored.hosts, NOW, NOW + timedelta(days=30))
    world.serving = {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem, "others": b"kept"}
    assert world.settle() == ["Issue"]
    assert world.serves
    assert (world.serving or {})["others"] == b"kept"


def test_an_expired_certificate_is_signed_again_at_once(world: CertificateWorld) -> None:
    world.passes(days=40)
    assert isinstance(action := world.next_action(), Issue)
    assert action.why == "it is not valid now"
    assert world.settle() == ["Issue"]


def test_an_expired_authority_is_replaced_by_one_that_signs_at_once(world: CertificateWorld) -> None:
    world.passes(days=400)
    assert not world.trusts(world.presented.pair or pytest.fail("it serves"))
    # There is nothing to lose any more, so nothing is waited for.
    for _ in range(6):
        world.step()
    world.everybody_hears()
    assert world.serves
    world.settle()
    assert world.serves
    assert len(read_certificates(current(world))) == 1


def test_everything_is_recreated_after_a_wrong_clock_is_set_back(world: CertificateWorld) -> None:
    world.passes(days=-400)
    world.settle()
    assert world.serves
    (authority,) = read_certificates(current(world))
    assert authority.not_valid_before_utc == world.now - timedelta(minutes=5)


@pytest.mark.parametrize("days", [1 / 24, 1, 25, 40, 300, 400, 4000])
@pytest.mark.parametrize("ahead", [1, -1])
def test_a_clock_that_jumps_and_is_set_back_leaves_a_certificate_that_is_valid(
    world: CertificateWorld, days: float, ahead: int
) -> None:
    before = world.now
    for _ in range(2):
        world.passes(days=ahead * days)
        world.settle()
        assert world.serves
        world.now = before
        world.settle()
        assert world.serves
    world.passes(minutes=1)
    assert world.settle() == []


def test_a_foreign_caBundle_is_overwritten(world: CertificateWorld) -> None:
    world.bundles["v-rollcall"] = pem([new_authority("somebody", NOW, timedelta(days=1)).certificate])
    world.claimed.clear()
    assert world.settle() == ["Publish", "ReleaseFields"]
    assert world.serves


def test_a_recreated_configuration_gets_its_caBundle_and_owner_reference(world: CertificateWorld) -> None:
    world.bundles["m-rollcall"] = b""
    world.owned.discard("m-rollcall")
    action = world.next_action()
    assert isinstance(action, Publish)
    assert (action.configuration.name, action.bundle) == ("m-rollcall", current(world))
    assert world.settle() == ["Publish", "ReleaseFields"]
    # One that matches nothing is reported with what it must match.
    world.owned.discard("v-rollcall")
    assert world.settle() == ["Publish", "ReleaseFields"]


def test_leftover_field_ownership_is_released(world: CertificateWorld) -> None:
    world.claimed.add("m-rollcall")
    assert world.settle() == ["ReleaseFields"]


def test_a_missing_name_is_added_to_the_certificate_at_once(world: CertificateWorld) -> None:
    stored = world.stored
    hooks = stored.registered[0].hooks
    elsewhere = replace(stored.registered[0], hooks=(hooks[0]._replace(host="hook.example", service=None), hooks[1]))
    moved = replace(stored, registered=(elsewhere, stored.registered[1]))
    action = plan(moved, NOW, SeenCertificates(), world.settings)
    assert isinstance(action, Issue)
    assert (action.place, action.why) == ("tls", "it is not for hook.example")


def test_a_printed_step_contains_no_key(world: CertificateWorld) -> None:
    world.asked = {"ca", "leaf"}
    shown = []
    while not isinstance(action := world.step(), Idle):
        shown.append(repr(action))
        world.everybody_hears()
        world.look()
    kept = [action for action in shown if "PRIVATE" in action and not action.startswith("NewAuthority")]
    assert kept == []
