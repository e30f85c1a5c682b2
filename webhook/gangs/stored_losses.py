"""Reads the stored records of gangs that lost pods."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, RequestFailed
from webhook.gangs.key import GangKey
from webhook.gangs.loss_records import content_of, losses_in
from webhook.gangs.losses import Loss
from webhook.installation.names import LOSS_RECORDS
from webhook.model.kubernetes_kinds import CONFIG_MAPS
from webhook.model.reading import Manifest


async def stored_shards(client: Client, namespace: str) -> dict[str, Manifest]:
    """The ConfigMaps that exist, by name. Raises `RequestFailed`."""
    found: dict[str, Manifest] = {}
    for name in LOSS_RECORDS:
        try:
            found[name] = (await client.get(requests.read(CONFIG_MAPS, name, namespace))).content
        except NotFound:
            continue
    return found


async def stored_losses(client: Client, namespace: str) -> dict[GangKey, Loss]:
    """The records of all gangs. Raises `RequestFailed`, `Malformed`."""
    return await losses_of(await stored_shards(client, namespace))


async def losses_of(shards: Mapping[str, Manifest], clock: Clock = MACHINE_CLOCK) -> dict[GangKey, Loss]:
    """The records in these ConfigMaps, which may be thousands. Raises `Malformed`."""
    losses: dict[GangKey, Loss] = {}
    turn = LoopTurn(clock)
    for raw in shards.values():
        for key, loss in losses_in(content_of(raw)):
            losses[key] = loss
            await turn.pause()
    return losses


def unreadable(error: RequestFailed) -> str:
    """Why the records are not known, in a sentence for the user of a command."""
    if error.code == HTTPStatus.FORBIDDEN:
        return f"you may not read the ConfigMaps {LOSS_RECORDS[0]} to {LOSS_RECORDS[-1]} of Rollcall's namespace"
    return str(error)
