"""The carrier of a call: the connection that it comes over, as applications see it.

Who has carried a valid AdmissionReview is the last to be ended, when connections or memory are short. Without a client
certificate the API server cannot be told from a stranger in any other way.
"""

from __future__ import annotations

from typing import Protocol

from starlette.types import Scope

# Under which the scope's state holds it.
CARRIER = "carrier"


class Carrier(Protocol):
    """What applications and the intake ask of a connection."""

    @property
    def reviewed(self) -> bool:
        """Whether it has carried a valid AdmissionReview."""

    def carried_review(self) -> None:
        """Note that it has, just now."""

    def holds_body(self, scope: Scope) -> bool:
        """Whether the body of the request with that scope has come as a whole."""


class _Stranger:
    """The carrier of a call that came over no connection of ours."""

    reviewed = False

    def carried_review(self) -> None:
        """Nothing is kept."""

    def holds_body(self, _: Scope) -> bool:
        """That is not known."""
        return False


_STRANGER = _Stranger()


def carrier_of(scope: Scope) -> Carrier:
    """Over what a call comes."""
    found: Carrier = scope.get("state", {}).get(CARRIER, _STRANGER)
    return found
