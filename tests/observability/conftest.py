"""What these tests share with those of the server: certificates and a state."""

from tests.reconciler.conftest import quick
from tests.server.conftest import certificates, state

__all__ = ["certificates", "quick", "state"]
