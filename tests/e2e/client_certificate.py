"""The client certificate that API servers show to webhooks, configured by the files in docs/explanation/serving.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.e2e.authorities import Authority
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "serving.md"
_THERE = "/etc/kubernetes/admission"
_FILES = re.compile(rf"```yaml\n# {_THERE}/(\S+)\n(.*?)```", re.DOTALL)
# Of the certificates that tests make for this machine.
NAME = "localhost"


class ClientCertificate(NamedTuple):
    """Where it is, with its key and its authority, and the file that an API server is given."""

    certificate: Path
    key: Path
    authority: Path
    configuration: Path


def client_certificate(folder: Path) -> ClientCertificate:
    """A new one, of a new authority. Most servers of tests have an address and no name: every webhook is shown it."""
    folder.mkdir()
    authority = Authority("callers")
    leaf = authority.leaf()
    found = ClientCertificate(*(folder / name for name in ("client.crt", "client.key", "ca.crt", "admission.yaml")))
    found.certificate.write_bytes(leaf[CERTIFICATE_FILE])
    found.key.write_bytes(leaf[KEY_FILE])
    found.authority.write_bytes(authority.pem)
    text = _PAGE.read_text(encoding="utf-8").replace("rollcall.rollcall-system.svc\n    user", '"*"\n    user')
    for name, content in _FILES.findall(text):
        (folder / name).write_text(content.replace(_THERE, str(folder)))
    return found
