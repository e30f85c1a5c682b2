"""The carrier of a call: its connection, as applications see it.

Connections that have carried a valid AdmissionReview are ended last, when connections or memory are scarce. Without a
client certificate there is no other way to recognise the API server.
"""

from __future__ import annotations

from typing import Protocol

from starlette.types import Scope

# The key of the carrier in the scope's state.
CARRIER = "carrier"


class Carrier(Protocol):
    """What applications and the intake need of a connection."""

    @property
    def reviewed(self) -> bool:
        """Return whether it has carried a valid AdmissionReview."""

    def carried_review(self) -> None:
        """Note that it has just carried one."""

    def holds_body(self, scope: Scope) -> bool:
        """Return whether the whole body of the request with that scope has arrived."""


class _Stranger:
    """The carrier of a call without a `Connection`, as in tests."""

    reviewed = False

    def carried_review(self) -> None:
        """Do nothing."""

    def holds_body(self, _: Scope) -> bool:
        """Return False: it is unknown."""
        return False


_STRANGER = _Stranger()


def carrier_of(scope: Scope) -> Carrier:
    """Return the carrier of a call."""
    found: Carrier = scope.get("state", {}).get(CARRIER, _STRANGER)
    return found
