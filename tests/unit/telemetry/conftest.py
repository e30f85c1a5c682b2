"""Fixtures that these tests share with those of the server: certificates and a state."""

from tests.unit.reconciler.conftest import quick
from tests.unit.server.conftest import certificates, state

__all__ = ["certificates", "quick", "state"]
