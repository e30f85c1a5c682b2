"""Client certificates: the authority that callers' certificates are checked against. Another party maintains its
object.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from webhook.model.reading import Manifest

CLIENTS_VOLUME, CLIENTS_FOLDER = "clients", "/etc/rollcall/clients"
# The key in a ConfigMap or Secret; cert-manager and kubectl use it too.
AUTHORITY = "ca.crt"
# The notation of kubectl. Names of both kinds are RFC 1123 subdomains.
WRITTEN = r"(configmap|secret)/((?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)"


class ClientCertificates(NamedTuple):
    """The clients that may call: those with a certificate that an authority in that object signed, for any of these
    names; without names, for any name.
    """

    kind: str
    name: str
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str, names: tuple[str, ...]) -> Self:
        """Parse `configmap/NAME` or `secret/NAME`. Raises `ValueError`."""
        found = re.fullmatch(WRITTEN, written)
        if found is None:
            raise ValueError(f"{written!r} is neither configmap/NAME nor secret/NAME")
        return cls(found[1], found[2], names)

    @property
    def arguments(self) -> list[str]:
        """The arguments for `rollcall serve`."""
        return [f"--client-ca={CLIENTS_FOLDER}/{AUTHORITY}", *(f"--client-name={name}" for name in self.names)]

    @property
    def volume(self) -> Manifest:
        """Only the authority's certificate: a Secret may also hold its key."""
        source = {"name": self.name, "items": [{"key": AUTHORITY, "path": AUTHORITY}]}
        kind = "configMap" if self.kind == "configmap" else "secret"
        return {"name": CLIENTS_VOLUME, "projected": {"defaultMode": 0o444, "sources": [{kind: source}]}}

    @property
    def mount(self) -> Manifest:
        """The mount of that volume in the server's container."""
        return {"name": CLIENTS_VOLUME, "mountPath": CLIENTS_FOLDER, "readOnly": True}
