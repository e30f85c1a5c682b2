"""Certificates of callers: the authority that the server asks them for, in an object that somebody else keeps."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from webhook.model.reading import Manifest

CLIENTS_VOLUME, CLIENTS_FOLDER = "clients", "/etc/rollcall/clients"
# In a ConfigMap as in a Secret; cert-manager and kubectl call it so.
AUTHORITY = "ca.crt"
# As kubectl writes it. Names of both kinds are RFC 1123 subdomains.
WRITTEN = r"(configmap|secret)/((?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)"


class ClientCertificates(NamedTuple):
    """Who must show a certificate: one that an authority in that object signed, for any of these names; without names
    any certificate of it will do.
    """

    kind: str
    name: str
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str, names: tuple[str, ...]) -> Self:
        """Of `configmap/NAME` or `secret/NAME`. Raises `ValueError`."""
        found = re.fullmatch(WRITTEN, written)
        if found is None:
            raise ValueError(f"{written!r} is neither configmap/NAME nor secret/NAME")
        return cls(found[1], found[2], names)

    @property
    def arguments(self) -> list[str]:
        """What `rollcall serve` is told."""
        return [f"--client-ca={CLIENTS_FOLDER}/{AUTHORITY}", *(f"--client-name={name}" for name in self.names)]

    @property
    def volume(self) -> Manifest:
        """The authority alone: a Secret may hold a key beside it."""
        source = {"name": self.name, "items": [{"key": AUTHORITY, "path": AUTHORITY}]}
        kind = "configMap" if self.kind == "configmap" else "secret"
        return {"name": CLIENTS_VOLUME, "projected": {"defaultMode": 0o444, "sources": [{kind: source}]}}

    @property
    def mount(self) -> Manifest:
        """Where the server finds it."""
        return {"name": CLIENTS_VOLUME, "mountPath": CLIENTS_FOLDER, "readOnly": True}
