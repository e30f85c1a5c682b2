"""Certificates: what is told of an authority, of what is shown in a handshake, and of what is stored."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.unit.doctor.told import remedies, told, unknown
from webhook.doctor.checking import Level
from webhook.doctor.example_certificates import HOST, bundled, certified, signed
from webhook.doctor.examples import configured, installed, thing
from webhook.doctor.parts import SECRET as PART
from webhook.doctor.snapshot import Presented, Snapshot
from webhook.model.reading import Manifest

FIRST = "MutatingWebhookConfiguration m-rollcall, podcliquesets.mutate.rollcall.dev"
SECRET = "Secret rollcall-system/rollcall-tls"
SHOWN = "https://10.0.0.0:8443"


def said(snapshot: Snapshot, check: str) -> list[str]:
    return [found for _, _, found in told(snapshot, check)]


def test_webhooks_without_a_ca_bundle_are_told_at_once() -> None:
    assert told(installed(), "webhooks/ca-bundle") == [(Level.ERROR, f"{FIRST} and 11 more", "there is no caBundle")]


def test_a_ca_bundle_that_is_none_is_told_once() -> None:
    def spoil(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = b64encode(b"nonsense").decode()

    found = told(installed(changed=spoil), "webhooks/ca-bundle")
    assert found == [(Level.ERROR, FIRST, "its caBundle is not a certificate in PEM form")]


def test_old_and_new_authority_side_by_side_are_well() -> None:
    assert told(bundled(signed(days=-1).authority, signed().authority), "webhooks/ca-bundle") == []


def test_an_authority_that_is_about_to_run_out_is_a_warning() -> None:
    # Ten days old, and a tenth of its life is more than a day.
    found = told(bundled(signed(days=1).authority), "webhooks/ca-bundle")
    assert found == [(Level.WARNING, FIRST, "the authority in its caBundle expires at 2026-09-02 12:00 UTC")]


def test_webhooks_that_believe_different_authorities_are_a_warning() -> None:
    one, other = (bundled(signed().authority) for _ in range(2))
    mixed = {part: one.parts[part] if index else other.parts[part] for index, part in enumerate(one.parts)}
    snapshot = bundled(signed().authority)
    (found,) = told(replace(snapshot, parts=mixed), "webhooks/ca-bundle")
    assert found[0] is Level.WARNING
    assert found[2].startswith("there are 2 different caBundles")


def test_a_certificate_that_ran_out_is_told_though_the_rest_is_well() -> None:
    found = told(certified(signed(days=-1)), "server/certificate")
    assert found == [(Level.ERROR, SHOWN, "the certificate that is served expired at 2026-08-31 12:00 UTC")]


def stored(leaf: x509.Certificate, *bundle: x509.Certificate, **known: Any) -> Snapshot:
    """Nobody to be reached, and a Secret."""
    content = b64encode(leaf.public_bytes(serialization.Encoding.PEM)).decode()
    secret = thing("v1", "Secret", "rollcall-tls", data={"tls.crt": content})
    snapshot = bundled(*bundle, presented=(Presented(SHOWN, HOST, trouble="timed out"),), **known)
    return replace(snapshot, parts={**snapshot.parts, PART: (secret,)})


def test_if_no_server_can_be_reached_the_secret_is_checked() -> None:
    pair, other = signed(), signed()
    assert said(stored(pair.leaf, pair.authority), "server/certificate") == []
    assert said(stored(pair.leaf, other.authority, pair.authority), "server/certificate") == []
    assert told(stored(pair.leaf, other.authority), "server/certificate") == [
        (Level.ERROR, SECRET, "no authority of a webhook's caBundle signed its certificate")
    ]
    elsewhere = signed(host="rollcall.default.svc")
    assert said(stored(elsewhere.leaf, elsewhere.authority), "server/certificate") == [
        f"its certificate is not for {HOST}"
    ]
    old = signed(days=-1)
    assert said(stored(old.leaf, old.authority), "server/certificate") == [
        "the certificate that is served expired at 2026-08-31 12:00 UTC"
    ]


def test_a_stored_certificate_that_cannot_be_read_is_told() -> None:
    pair = signed()
    snapshot = stored(pair.leaf, pair.authority)
    secret = thing("v1", "Secret", "rollcall-tls", data={"tls.crt": b64encode(b"nonsense").decode()})
    spoiled = replace(snapshot, parts={**snapshot.parts, PART: (secret,)})
    assert said(spoiled, "server/certificate") == ["its tls.crt is not a certificate in PEM form"]


def test_a_ca_bundle_that_is_none_says_nothing_about_what_is_stored() -> None:
    pair = signed()

    def spoil(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = "not base64"

    snapshot = installed(changed=spoil)
    known = replace(snapshot, parts={**snapshot.parts, PART: stored(pair.leaf, pair.authority).parts[PART]})
    assert said(known, "server/certificate") == []
    assert said(known, "webhooks/ca-bundle") == ["its caBundle is not a certificate in PEM form"]


def test_a_certificate_that_is_its_own_authority_is_believed() -> None:
    leaf = signed().leaf
    assert said(stored(leaf, leaf), "server/certificate") == []


def test_another_server_at_a_pod_s_address_is_not_rollcall() -> None:
    pair, proxy = signed(), signed(host="proxy.example.com")
    shown = certified(proxy, refused="certificate verify failed").presented
    snapshot = replace(stored(pair.leaf, pair.authority), presented=shown)
    assert said(snapshot, "server/certificate") == []
    nothing = replace(bundled(pair.authority), presented=shown)
    assert unknown(nothing, "server/certificate") == [
        f"which certificate is served: {SHOWN}: another server answers, and {SECRET} is missing"
    ]


def test_where_nothing_can_be_looked_at_that_is_said() -> None:
    nobody = bundled(signed().authority, presented=(Presented(SHOWN, HOST, trouble="timed out"),))
    assert unknown(nobody, "server/certificate") == [
        f"which certificate is served: {SHOWN}: timed out, and {SECRET} is missing"
    ]


@pytest.mark.parametrize("host", ["*.rollcall-system.svc", HOST])
def test_a_wildcard_is_for_one_label(host: str) -> None:
    pair = signed(host=host)
    assert said(stored(pair.leaf, pair.authority), "server/certificate") == []


def test_what_the_reconciler_keeps_is_not_to_be_written_by_hand() -> None:
    """It would write over it, and whoever did would be none the wiser."""
    own = configured(certificates={"mode": "selfManaged"})
    worlds = {
        "webhooks/ca-bundle": installed(settings=own),
        "server/certificate": replace(certified(signed(), refused="unable to get local issuer"), settings=own),
    }
    for check, snapshot in worlds.items():
        assert remedies(snapshot, check) == [
            "the reconciler maintains it; to find out why it has not, run rollcall certs status and kubectl -n "
            "rollcall-system logs deployment/rollcall-reconciler"
        ]
        assert "--ca ca.crt" in remedies(replace(snapshot, settings=configured()), check)[0]
