"""The variant with cert-manager: an authority of its own for this namespace, and the serving certificate.

The authority keeps its key when its certificate is renewed. So what it signed before holds under the new certificate
and the other way round, and no moment of the renewal has the API server and a server disagree.

Source: cert-manager documentation, "Certificate resource" and "CA Injector".
"""

from __future__ import annotations

from webhook.installation.names import CA_SECRET, LABELS, SERVER, TLS_SECRET
from webhook.installation.options import Options
from webhook.model.reading import Manifest

API_VERSION = "cert-manager.io/v1"
INJECTED = "cert-manager.io/inject-ca-from"
_SELF_SIGNED = "rollcall-selfsigned"
# In hours, as cert-manager wants them. An authority of ten years, which nobody else trusts; leaves of three months.
_YEARS_10, _YEAR, _DAYS_90, _DAYS_30 = "87600h", "8760h", "2160h", "720h"


def issuers(options: Options) -> list[Manifest]:
    """The authority, self-signed, who issues with it, and the serving certificate."""
    issuer = {"name": CA_SECRET, "kind": "Issuer", "group": "cert-manager.io"}
    names = [f"{SERVER}.{options.namespace}.svc", f"{SERVER}.{options.namespace}.svc.cluster.local"]
    return [
        _object(options, "Issuer", _SELF_SIGNED, {"selfSigned": {}}),
        _object(
            options,
            "Certificate",
            CA_SECRET,
            {
                "isCA": True,
                "commonName": "rollcall",
                "secretName": CA_SECRET,
                "duration": _YEARS_10,
                "renewBefore": _YEAR,
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
                "issuerRef": {**issuer, "name": _SELF_SIGNED},
            },
        ),
        _object(options, "Issuer", CA_SECRET, {"ca": {"secretName": CA_SECRET}}),
        _object(
            options,
            "Certificate",
            SERVER,
            {
                "secretName": TLS_SECRET,
                "duration": _DAYS_90,
                "renewBefore": _DAYS_30,
                "dnsNames": names,
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "usages": ["digital signature", "server auth"],
                "issuerRef": issuer,
            },
        ),
    ]


def injection(options: Options) -> dict[str, str]:
    """The annotation by which cert-manager fills the caBundle of a webhook configuration in."""
    return {INJECTED: f"{options.namespace}/{SERVER}"}


def _object(options: Options, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": options.namespace, "labels": dict(LABELS)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
