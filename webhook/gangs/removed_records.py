"""Opted-in workloads that lost their record while Rollcall did not answer, although they have a gang of Rollcall's.

The watches follow workloads with the record label only, so one without it is missing there as if it were deleted. If
prepared pods or gang objects still name it, it is read by its name, and then kept and judged like the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.client import Client
from webhook.errors import RequestFailed
from webhook.gangs.key import GangKey
from webhook.gangs.stored_workloads import StoredWorkloads
from webhook.model.fair_memory import share_of
from webhook.model.keys import ObjectKey
from webhook.model.naming import is_subdomain
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.record import SCHEDULER_LABEL
from webhook.telemetry.logs import log, outline

LOOK_SECONDS = 1.0
# The pods and gang objects of a workload that is deleted follow it within seconds.
SETTLE_SECONDS = 5.0
# How many workloads are read at one look. Anyone who may create pods can name any number of workloads.
READS_A_LOOK = 4
# No watch says what becomes of a workload without its record, so it is read again.
PERIOD_SECONDS = 60.0
# A command waits for so many reads at most.
READS_OF_A_COMMAND = 200
# How many workloads are kept. One namespace has its share of them.
MOST_KEPT = 256

# Kind, namespace and name.
_Workload = tuple[str, str, str]


class _Noted(NamedTuple):
    """A gang whose workload is missing, and since when it may be read."""

    gang: GangKey
    due: float


class RemovedRecords:
    """Finds them. `owners` returns the uids that the prepared pods and the objects of a gang name as its workload, and
    `changed` gets the kind and key of each workload that comes, changes or goes.
    """

    def __init__(
        self,
        client: Client,
        workloads: Mapping[str, StoredWorkloads],
        owners: Callable[[GangKey], Collection[str]],
        changed: Callable[[str, ObjectKey], None],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._owners = owners
        self._changed = changed
        self._clock = clock
        # By namespace, the one whose turn is next first; each in the order of time.
        self._noted: OrderedDict[str, OrderedDict[_Workload, _Noted]] = OrderedDict()
        # A gang of each workload that is kept.
        self._kept: dict[_Workload, GangKey] = {}
        self._again = 0.0
        self._failures = 0

    def note(self, gang: GangKey) -> None:
        """Look for the workload of a gang, which is missing in the watch."""
        noted = self._noted.setdefault(gang.namespace, OrderedDict())
        noted.setdefault((gang.kind, *gang.workload_key), _Noted(gang, self._clock.monotonic() + SETTLE_SECONDS))

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - a fault of ours with one workload must keep no gang from its objects
                log.exception("workloads without a record not read")

    async def look(self) -> None:
        """Read the next workloads. Namespaces take turns."""
        now = self._clock.monotonic()
        if now >= self._again:
            self._again = now + PERIOD_SECONDS
            for gang in self._kept.values():
                self.note(gang)
        await self._look(now, READS_A_LOOK)

    async def look_at_once(self) -> None:
        """Read every workload, up to `READS_OF_A_COMMAND`."""
        for _ in range(READS_OF_A_COMMAND // READS_A_LOOK):
            if not self._noted:
                return
            await self._look(self._clock.monotonic() + SETTLE_SECONDS, READS_A_LOOK)

    async def _look(self, now: float, most: int) -> None:
        gangs, unfilled, turn = list[GangKey](), list[GangKey](), LoopTurn(self._clock)
        while len(gangs) < most and (gang := self._next(now)) is not None:
            if not self._workloads[gang.kind].filled:
                unfilled.append(gang)
            elif self._is_wanted(gang):
                gangs.append(gang)
            await turn.pause()
        for gang in unfilled:
            self.note(gang)
        await asyncio.gather(*map(self._read, gangs))

    def _next(self, now: float) -> GangKey | None:
        """The gang whose turn it is; None if none is due."""
        for namespace, noted in self._noted.items():
            workload, (gang, due) = next(iter(noted.items()))
            if due <= now:
                del noted[workload]
                self._noted.move_to_end(namespace)
                if not noted:
                    del self._noted[namespace]
                return gang
        return None

    def _is_wanted(self, gang: GangKey) -> bool:
        """Whether to read the workload of a gang. It is forgotten if it has its record, or nothing names it."""
        workloads, key = self._workloads[gang.kind], gang.workload_key
        has_record = workloads.watch is None or key in workloads.entries
        if has_record or not (self._owners(gang) and all(map(is_subdomain, key))):
            self._forget(gang)
            return False
        return True

    async def _read(self, gang: GangKey) -> None:
        workloads, (namespace, name) = self._workloads[gang.kind], gang.workload_key
        selector = {"fieldSelector": f"metadata.name={name}"}
        unrecorded: Manifest | None = None
        try:
            async for raw in self._client.items(workloads.resource, namespace=namespace, selector=selector):
                unrecorded = raw if _is_unrecorded(raw, name, self._owners(gang)) else unrecorded
            self._keep(gang, unrecorded)
        except (RequestFailed, Malformed) as error:
            self._failures += 1
            if self._failures.bit_count() == 1:
                # At 1, 2, 4, 8 and so on.
                why, kind = outline(error), gang.kind
                log.warning("workload without a record not read", kind=kind, namespace=namespace, name=name, why=why)
            self.note(gang)

    def _keep(self, gang: GangKey, raw: Manifest | None) -> None:
        """Keep the workload of a gang as it was read; None if it is not one without a record. Raises `Malformed`."""
        workloads, workload = self._workloads[gang.kind], (gang.kind, *gang.workload_key)
        if raw is None or gang.workload_key in workloads.entries:
            self._forget(gang)
            return
        if workload not in self._kept:
            of_namespace = sum(1 for _, namespace, _ in self._kept if namespace == gang.namespace)
            if len(self._kept) >= MOST_KEPT or of_namespace >= share_of(MOST_KEPT):
                return
            kind, namespace, name = workload
            log.warning("record removed", kind=kind, namespace=namespace, name=name)
        self._kept[workload] = gang
        if workloads.put_unrecorded(raw):
            self._changed(gang.kind, gang.workload_key)

    def _forget(self, gang: GangKey) -> None:
        if self._kept.pop((gang.kind, *gang.workload_key), None) is not None:
            self._workloads[gang.kind].drop_unrecorded(gang.workload_key)
            self._changed(gang.kind, gang.workload_key)


def _is_unrecorded(raw: Manifest, name: str, owners: Collection[str]) -> bool:
    """Whether this is the workload that these pods and objects name, without its record. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    is_it = metadata.get("name") == name and metadata.get("uid") in owners
    leaves = metadata.get("deletionTimestamp") is not None
    return is_it and not leaves and SCHEDULER_LABEL not in mapping(metadata.get("labels"))
