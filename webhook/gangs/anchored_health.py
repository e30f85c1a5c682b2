"""Judges gangs together with their anchors, and knows which gangs to judge again when an anchor changes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from webhook.errors import FactsUnavailable
from webhook.gangs.anchors import Anchor, Anchors
from webhook.gangs.grouping import Grouping
from webhook.gangs.health import GangHealth, State
from webhook.gangs.key import POD_GANG, GangKey
from webhook.model.reading import Malformed

# The health of a gang; its anchors are judged by the function, and not at all without one. None if it does not exist.
Health = Callable[[GangKey, Anchors | None], GangHealth | None]

_STATES = {State.HELD: "held", State.IN_PART: "on nodes only in part", State.LEAVING: "being deleted"}


class AnchoredHealth:
    """The health of gangs. Many gangs may wait for one anchor, so an anchor is judged once until `forget` is called."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._anchors: dict[GangKey, Anchor | None] = {}
        # Gangs by the anchor that they wait for, as last judged.
        self._waiting: Grouping[GangKey, GangKey] = Grouping()
        # Each anchor as all gangs that wait for it were judged with it, or will be.
        self._as_known: dict[GangKey, Anchor | None] = {}

    def health(self, key: GangKey) -> GangHealth | None:
        """The health of a gang; None if it does not exist or Rollcall does not make it. Raises `Malformed`, and
        `FactsUnavailable` if it is not known yet whether the gang exists.
        """
        self._waiting.move(key, None)
        found = self._health(key, lambda name: self._anchor(GangKey(key.namespace, name)))
        if found is None:
            self._as_known.pop(key, None)
        elif found.anchor is not None:
            self._waiting.move(key, GangKey(key.namespace, found.anchor))
        return found

    def affected(self, changed: GangKey) -> Collection[GangKey]:
        """The gangs that wait for a changed gang and must be judged again; none if it still is as they know it."""
        waiting = self._waiting.members(changed) if changed.kind == POD_GANG else ()
        if not waiting:
            self._as_known.pop(changed, None)
            return ()
        self._anchors.pop(changed, None)
        now = self._anchor(changed)
        if changed in self._as_known and self._as_known[changed] == now:
            return ()
        self._as_known[changed] = now
        return tuple(waiting)

    def forget(self) -> None:
        """Judge each anchor again from now on."""
        self._anchors.clear()

    def _anchor(self, key: GangKey) -> Anchor | None:
        if key not in self._anchors:
            now = self._anchors[key] = self._judged(key)
            if self._as_known.get(key, now) != now:
                # One of the gangs that wait knows more than the others.
                del self._as_known[key]
        return self._anchors[key]

    def _judged(self, key: GangKey) -> Anchor | None:
        try:
            found = self._health(key, None)
        except (Malformed, FactsUnavailable):
            return None
        if found is None:
            return None
        first = found.obstacles[0] if found.obstacles else None
        return Anchor(key.name, found.state is State.STARTED, _STATES.get(found.state, found.state.value), first)
