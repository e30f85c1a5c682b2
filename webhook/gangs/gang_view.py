"""A look at a cluster's gangs that writes nothing: what `rollcall gangs` and `rollcall explain KIND/NAME` show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import httpx

from webhook.cluster.access import Access
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.cluster_view import Following
from webhook.gangs.health import GangHealth
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.pod import GangPod
from webhook.gangs.roster import Roster
from webhook.model.reading import Malformed

# An API server that is there answers well before; one that is not, or that refuses, will not tomorrow either.
PATIENCE_SECONDS = 20.0
# How often what has changed is shown.
LOOK_SECONDS = 1.0


class Look:
    """The gangs of a cluster, followed."""

    def __init__(self, settings: Settings, access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._changed: set[GangKey] = set()
        self._held: set[GangKey] = set()
        self.following = Following(
            settings,
            access,
            gang_changed=self._changed.add,
            pods_changed=self._changed.add,
            facts_changed=lambda: self._changed.update(self._held),
            transport=transport,
        )

    def gangs(self, namespace: str | None = None) -> list[GangHealth]:
        """How every gang is, those of one namespace or all; those that nobody can read are left out."""
        self._changed.clear()
        keys = sorted(key for key in self.following.gangs if namespace is None or key[0] == namespace)
        return [found for key in keys if (found := self._health(key)) is not None]

    def named(self, kind: str, namespace: str, name: str) -> Iterator[tuple[GangHealth, Sequence[GangPod]]]:
        """How the gangs of the object of that kind and name are, and the pods that name each. Raises `Malformed`."""
        known = self.following
        keys = [GangKey(namespace, name)] if kind == POD_GANG else known.owned.named(kind, namespace, name)
        for key in keys:
            podgang, health = known.gang(key), known.health(key)
            if podgang is not None and health is not None:
                yield health, (known.roster_of(podgang) or Roster()).pods

    async def changes(self, namespace: str | None = None) -> AsyncIterator[GangHealth]:
        """Each gang that changed, from now on and for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changed = sorted(self._changed)
            self._changed.clear()
            for key in changed:
                if (namespace is None or key[0] == namespace) and (found := self._health(key)) is not None:
                    yield found

    def _health(self, key: GangKey) -> GangHealth | None:
        self._held.discard(key)
        try:
            found = self.following.health(key)
        except (Malformed, FactsUnavailable):
            # Of a kind that is served since a moment nothing is known yet.
            return None
        if found is not None and found.obstacles:
            self._held.add(key)
        return found


@asynccontextmanager
async def looking(
    settings: Settings, access: Access, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Look]:
    """A look at a cluster, once everything is read. Raises `FactsUnavailable` where that cannot be."""
    look = Look(settings, access, transport)
    running = asyncio.create_task(look.following.run())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while any(look.following.unseen()) and not running.done():
                    await asyncio.sleep(0.02)
        if running.done():
            running.result()
        missing = list(look.following.unseen())
        if missing:
            raise FactsUnavailable("\n".join(missing))
        if not look.following.serves_gangs:
            raise FactsUnavailable("the cluster does not serve PodGangs; is Grove installed?")
        yield look
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await look.following.close()
