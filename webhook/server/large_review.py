"""A large review in the thread: decoded in pieces, and freed there once it has been answered."""

from __future__ import annotations

import gc
from typing import Any

from webhook.server.deliberation import Deliberation, Question
from webhook.server.lane import Turn
from webhook.server.large_json import Decoded, decode


class LargeReview:
    """One review, from its bytes until its memory is free. All of it runs in the thread of `turn`."""

    def __init__(self, deliberation: Deliberation, turn: Turn) -> None:
        self._deliberation = deliberation
        self._turn = turn
        self._decoded: Decoded | None = None
        turn.clear = self._clear

    def begin(self, body: bytes) -> Question | None:
        """Decode the body, and decide."""
        # The collector would visit a million new values again and again while all threads wait. A review has no cycles.
        gc.disable()
        return self._deliberation.begin(body, self._decode)

    def _decode(self, body: bytes) -> Any:
        self._decoded = decode(body, self._turn.proceed)
        return self._decoded.value

    def _clear(self) -> None:
        self._deliberation.forget()
        if self._decoded is not None:
            self._decoded.release()
        gc.enable()
