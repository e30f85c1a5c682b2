"""The variant with cert-manager: an authority for this namespace, and the serving certificate.

The authority keeps its key when its certificate is renewed. So certificates signed before the renewal are valid under
the new authority certificate and vice versa. The API server and the servers never disagree during a renewal.

Source: cert-manager documentation, "Certificate resource" and "CA Injector".
"""

from __future__ import annotations

from webhook.installation.names import CA_SECRET, LABELS, SERVER, TLS_SECRET
from webhook.installation.options import Options
from webhook.model.reading import Manifest

API_VERSION = "cert-manager.io/v1"
INJECTED = "cert-manager.io/inject-ca-from"
_SELF_SIGNED = "rollcall-selfsigned"
# In hours, as cert-manager requires. The authority lasts ten years, because no other system trusts it; serving
# certificates last three months.
_YEARS_10, _YEAR, _DAYS_90, _DAYS_30 = "87600h", "8760h", "2160h", "720h"


def issuers(options: Options) -> list[Manifest]:
    """The self-signed authority, its issuer, and the serving certificate."""
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
    """The annotation that makes cert-manager fill in the caBundle of a webhook configuration."""
    return {INJECTED: f"{options.namespace}/{SERVER}"}


def _object(options: Options, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": options.namespace, "labels": dict(LABELS)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
