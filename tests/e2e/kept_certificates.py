"""Certificates of replicas: as files that another system maintains, with a bundle that is applied by hand; and as the
reconciler keeps them, asked for by the command.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

from tests.e2e.authorities import Authority
from tests.e2e.balancer import Balancer
from tests.e2e.certificate_story import SECRETS, Kubelet
from tests.e2e.control_plane import ControlPlane
from tests.e2e.programs import eventually
from tests.e2e.replicas import Replicas
from tests.e2e.rollcall_server import ran, succeeded
from tests.mount import Mount
from webhook.certificates.files import CERTIFICATE_FILE
from webhook.installation.names import TLS_SECRET

# A changed bundle is in use when nothing was sent for so long on a connection that is older than it.
SETTLED_SECONDS = 1.0
# Twice the overlap, and what a busy machine needs for some processes more.
_ROTATION_SECONDS = 180
Tell = Callable[[str], None]


class KeptCertificates:
    """One authority at a time and its leaves, which are numbered."""

    def __init__(self, balancer: Balancer) -> None:
        self.authority = Authority("authority 1")
        self.leaves = 0
        self.authorities = 1
        self._balancer = balancer
        self._secret = self.authority.leaf()
        self._mounts: dict[Path, Mount] = {}

    def bring(self, folder: Path) -> None:
        """Bring what there is, and each new state, to a folder."""
        mount = self._mounts[folder] = Mount(folder)
        mount.write(self._secret)

    def leave(self, folder: Path) -> None:
        """No more to this one."""
        del self._mounts[folder]

    def rotate_leaf(self, replicas: Replicas, tell: Tell) -> None:
        """Another certificate of the same authority."""
        self.leaves += 1
        self._secret = self.authority.leaf()
        # A Pod after the other, as kubelets do it, each at its own time.
        for mount in list(self._mounts.values()):
            mount.write(self._secret)
        replicas.until_presented(self._secret[CERTIFICATE_FILE])
        tell(f"leaf {self.leaves} is presented")

    def rotate_authority(self, replicas: Replicas, tell: Tell) -> None:
        """Both are known first, then the leaf changes, then the old one is withdrawn."""
        old, self.authorities = self.authority, self.authorities + 1
        self.authority = Authority(f"authority {self.authorities}")
        self._register(replicas, old.pem + self.authority.pem)
        tell(f"authority {self.authorities} is known beside the old one")
        self.rotate_leaf(replicas, tell)
        self._register(replicas, self.authority.pem)
        tell(f"the authority before {self.authorities} is withdrawn")

    def _register(self, replicas: Replicas, bundle: bytes) -> None:
        replicas.register(bundle)
        # It reopens connections while the second configuration is still on its way.
        when, balancer = replicas.registered, self._balancer
        eventually(lambda: balancer.oldest_in_use(SETTLED_SECONDS) > when, "the API server uses the new bundle")


class ReconcilersCertificates:
    """What the reconciler keeps in Secrets, as kubelets bring it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.leaves = 0
        self.authorities = 1
        self._plane = plane
        self._kubelets: dict[Path, Kubelet] = {}

    def bring(self, folder: Path) -> None:
        """Follow the Secret."""
        self._kubelets[folder] = Kubelet(self._plane, TLS_SECRET, folder)

    def leave(self, folder: Path) -> None:
        """No more to this one."""
        self._kubelets.pop(folder).close()

    def rotate_leaf(self, replicas: Replicas, tell: Tell) -> None:
        """`rollcall certs rotate --leaf`."""
        self.leaves += 1
        self._rotate("--leaf")
        replicas.until_presented(self._certificate())
        tell(f"leaf {self.leaves} is presented")

    def rotate_authority(self, replicas: Replicas, tell: Tell) -> None:
        """`rollcall certs rotate --ca`, and a leaf of it."""
        self.leaves += 1
        self.authorities += 1
        self._rotate("--ca")
        replicas.until_presented(self._certificate())
        tell(f"authority {self.authorities} and leaf {self.leaves}: rotated by the reconciler")

    def _rotate(self, what: str) -> None:
        access = f"--kubeconfig={self._plane.kubeconfig}"
        succeeded(ran("certs", "rotate", what, "--wait", access, timeout=_ROTATION_SECONDS))

    def _certificate(self) -> bytes:
        answer = self._plane.http.get(f"{SECRETS}/{TLS_SECRET}")
        assert answer.is_success, answer.text
        return b64decode(answer.json()["data"][CERTIFICATE_FILE])
