"""Certificates: findings about an authority, about presented certificates, and about stored ones."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.model.reading import Manifest
from webhook.operations.certificate_checks import HOST, bundled_installation, certified_installation, signed_pair
from webhook.operations.diagnosis import Severity, configured, example_object, installed
from webhook.operations.snapshot import SECRET as PART
from webhook.operations.snapshot import PresentedCertificate, Snapshot

FIRST = "MutatingWebhookConfiguration m-rollcall, podcliquesets.mutate.rollcall.dev"
SECRET = "Secret rollcall-system/rollcall-tls"
SHOWN = "https://10.0.0.0:8443"


def texts(snapshot: Snapshot, check: str) -> list[str]:
    return [found for _, _, found in reported(snapshot, check)]


def test_all_webhooks_without_a_ca_bundle_are_reported_in_one_finding() -> None:
    assert reported(installed(), "webhooks/ca-bundle") == [
        (Severity.ERROR, f"{FIRST} and 14 more", "there is no caBundle")
    ]


def test_an_invalid_ca_bundle_is_reported_once() -> None:
    def spoil(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = b64encode(b"nonsense").decode()

    found = reported(installed(changed=spoil), "webhooks/ca-bundle")
    assert found == [(Severity.ERROR, FIRST, Text("caBundle", "PEM"))]


def test_an_old_and_a_new_authority_together_are_accepted() -> None:
    assert (
        reported(bundled_installation(signed_pair(days=-1).authority, signed_pair().authority), "webhooks/ca-bundle")
        == []
    )


def test_an_authority_that_expires_soon_causes_a_warning() -> None:
    # Ten days old, and a tenth of its life is more than a day.
    found = reported(bundled_installation(signed_pair(days=1).authority), "webhooks/ca-bundle")
    assert found == [(Severity.WARNING, FIRST, Text("authority", "2026-09-02 12:00 UTC"))]


def test_webhooks_with_different_authorities_cause_a_warning() -> None:
    one, other = (bundled_installation(signed_pair().authority) for _ in range(2))
    mixed = {part: one.parts[part] if index else other.parts[part] for index, part in enumerate(one.parts)}
    snapshot = bundled_installation(signed_pair().authority)
    (found,) = reported(replace(snapshot, parts=mixed), "webhooks/ca-bundle")
    assert found[0] is Severity.WARNING
    assert found[2].startswith("there are 2 different caBundles")


def test_an_expired_certificate_is_reported_even_if_others_are_valid() -> None:
    found = reported(certified_installation(signed_pair(days=-1)), "server/certificate")
    assert found == [(Severity.ERROR, SHOWN, Text("certificate", "2026-08-31 12:00 UTC"))]


def stored(leaf: x509.Certificate, *bundle: x509.Certificate, **known: Any) -> Snapshot:
    """No reachable server, and a Secret."""
    content = b64encode(leaf.public_bytes(serialization.Encoding.PEM)).decode()
    secret = example_object("v1", "Secret", "rollcall-tls", data={"tls.crt": content})
    snapshot = bundled_installation(
        *bundle, presented=(PresentedCertificate(SHOWN, HOST, trouble="timed out"),), **known
    )
    return replace(snapshot, parts={**snapshot.parts, PART: (secret,)})


def test_if_no_server_can_be_reached_the_secret_is_checked() -> None:
    pair, other = signed_pair(), signed_pair()
    assert texts(stored(pair.leaf, pair.authority), "server/certificate") == []
    assert texts(stored(pair.leaf, other.authority, pair.authority), "server/certificate") == []
    assert reported(stored(pair.leaf, other.authority), "server/certificate") == [
        (Severity.ERROR, SECRET, Text("authority", "caBundle"))
    ]
    elsewhere = signed_pair(host="rollcall.default.svc")
    assert texts(stored(elsewhere.leaf, elsewhere.authority), "server/certificate") == [Text(HOST)]
    old = signed_pair(days=-1)
    assert texts(stored(old.leaf, old.authority), "server/certificate") == [Text("certificate", "2026-08-31 12:00 UTC")]


def test_a_malformed_stored_certificate_is_reported() -> None:
    pair = signed_pair()
    snapshot = stored(pair.leaf, pair.authority)
    secret = example_object("v1", "Secret", "rollcall-tls", data={"tls.crt": b64encode(b"nonsense").decode()})
    spoiled = replace(snapshot, parts={**snapshot.parts, PART: (secret,)})
    assert texts(spoiled, "server/certificate") == [Text("tls.crt", "PEM")]


def test_an_invalid_ca_bundle_causes_no_finding_about_the_stored_certificate() -> None:
    pair = signed_pair()

    def spoil(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = "not base64"

    snapshot = installed(changed=spoil)
    known = replace(snapshot, parts={**snapshot.parts, PART: stored(pair.leaf, pair.authority).parts[PART]})
    assert texts(known, "server/certificate") == []
    assert texts(known, "webhooks/ca-bundle") == [Text("caBundle", "PEM")]


def test_a_self_signed_certificate_is_trusted() -> None:
    leaf = signed_pair().leaf
    assert texts(stored(leaf, leaf), "server/certificate") == []


def test_another_server_at_a_pod_s_address_is_not_rollcall() -> None:
    pair, proxy = signed_pair(), signed_pair(host="proxy.example.com")
    shown = certified_installation(proxy, refused="another authority").presented
    snapshot = replace(stored(pair.leaf, pair.authority), presented=shown)
    assert texts(snapshot, "server/certificate") == []
    nothing = replace(bundled_installation(pair.authority), presented=shown)
    assert unknown(nothing, "server/certificate") == [Text(SHOWN, "another server", SECRET)]


def test_missing_certificate_data_is_reported_as_unknown() -> None:
    unreachable = bundled_installation(
        signed_pair().authority, presented=(PresentedCertificate(SHOWN, HOST, trouble="timed out"),)
    )
    assert unknown(unreachable, "server/certificate") == [Text(SHOWN, "timed out", SECRET)]


@pytest.mark.parametrize("host", ["*.rollcall-system.svc", HOST])
def test_a_wildcard_covers_one_label(host: str) -> None:
    pair = signed_pair(host=host)
    assert texts(stored(pair.leaf, pair.authority), "server/certificate") == []


def test_the_remedy_for_reconciler_managed_certificates_is_not_a_manual_write() -> None:
    """The reconciler would overwrite a manual change without a message."""
    own = configured(certificates={"mode": "selfManaged"})
    worlds = {
        "webhooks/ca-bundle": installed(settings=own),
        "server/certificate": replace(certified_installation(signed_pair(), refused="another authority"), settings=own),
    }
    for check, snapshot in worlds.items():
        assert remedies(snapshot, check) == [
            Text("rollcall certs status", "kubectl -n rollcall-system logs deployment/rollcall-reconciler")
        ]
        assert "--ca ca.crt" in remedies(replace(snapshot, settings=configured()), check)[0]
