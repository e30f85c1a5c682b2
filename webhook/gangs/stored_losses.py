"""Reads the stored records of gangs that lost pods."""

from __future__ import annotations

from http import HTTPStatus

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
    every = await stored_shards(client, namespace)
    return {key: loss for raw in every.values() for key, loss in losses_in(content_of(raw))}


def unreadable(error: RequestFailed) -> str:
    """Why the records are not known, in a sentence for the user of a command."""
    if error.code == HTTPStatus.FORBIDDEN:
        return f"you may not read the ConfigMaps {LOSS_RECORDS[0]} to {LOSS_RECORDS[-1]} of Rollcall's namespace"
    return str(error)
