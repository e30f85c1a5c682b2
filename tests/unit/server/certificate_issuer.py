"""Temporary authorities for tests: certificates of servers and of clients, valid and damaged ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.mount import Mount
from webhook.certificates.x509 import key_usage
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.server.tls import PairFiles

HOSTS = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


class Authority:
    """Signs any certificate. `file` is its own certificate, for clients that trust it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            self._builder(self._name, self._key, (-1, 30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage(authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.ca.crt"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        days: tuple[float, float] = (-1, 1),
        common_name: str = "rollcall",
        hosts: Sequence[x509.GeneralName] = HOSTS,
    ) -> PairFiles:
        """A certificate for this machine that holds from and to so many days from now, and its key, in files `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        built = self._builder(subject, key, days)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = built.sign(self._key, hashes.SHA256())
        files = PairFiles(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[float, float]
    ) -> x509.CertificateBuilder:
        # Clients check certificates by the clock of the machine.
        now = MACHINE_CLOCK.now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


class Mounted:
    """A pair's Secret as the kubelet mounts it: `files` are where it is, empty until something is put."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ("tls.crt", "tls.key")) -> None:
        self._mount = Mount(folder)
        self.files = PairFiles(folder / names[0], folder / names[1])

    def put(self, files: PairFiles) -> None:
        """Have the files hold what these hold."""
        self.put_contents(files.certificate.read_bytes(), files.key.read_bytes())

    def put_contents(self, certificate: bytes, key: bytes) -> None:
        """Have the files hold this, both at once."""
        self._mount.write({self.files.certificate.name: certificate, self.files.key.name: key})
