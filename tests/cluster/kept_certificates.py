"""Certificates of replicas as files that somebody else keeps, with a bundle that is applied by hand."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.cluster.authorities import Authority
from tests.cluster.balancer import Balancer
from tests.cluster.programs import eventually
from tests.cluster.replicas import Replicas

# A changed bundle is in use when nothing was sent for so long on a connection that is older than it.
SETTLED_SECONDS = 1.0
Tell = Callable[[str], None]


class KeptCertificates:
    """One authority at a time and its leaves, which are numbered."""

    def __init__(self, balancer: Balancer) -> None:
        self.authority = Authority("authority 1")
        self.leaves = 0
        self.authorities = 1
        self._balancer = balancer

    def rotate_leaf(self, replicas: Replicas, tell: Tell) -> None:
        """Another certificate of the same authority."""
        self.leaves += 1
        replicas.bring(self.authority.leaf())
        replicas.until_presented()
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
        now = time.monotonic()
        eventually(lambda: self._balancer.oldest_in_use(SETTLED_SECONDS) > now, "the API server uses the new bundle")
