"""A watch that runs while its kind is served."""

from __future__ import annotations

from tests.played import PlayedClock
from tests.unit.cluster.scripted import Script, client, listed, namespace
from webhook.cluster.watch import ServedWatch
from webhook.model.projections import NAMESPACES


async def test_a_fault_with_one_object_does_not_end_the_watch() -> None:
    """The next list goes on with the others."""
    script = Script(listed("5", namespace("a"), namespace("b")), listed("6", namespace("a"), namespace("b")), [...])
    told: list[object] = []

    def changed(key: object) -> None:
        told.append(key)
        if key == "a":
            raise RecursionError

    watch = ServedWatch(client(script), NAMESPACES, changed, clock=PlayedClock())
    watch.follow(served=True)
    await script.done()
    assert watch.filled
    assert told == ["a", "b"]
    await watch.close()
