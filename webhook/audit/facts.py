"""What is known of the cluster for an audit, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.audit.stored import Judge
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.discovery import Discovery
from webhook.config.followed import followed_projections
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, RequestFailed
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.sources.cluster_objects import read_objects


@dataclass(frozen=True, slots=True)
class Known:
    """The served kinds, a judge for each of the settings, and the kinds of facts that could not be read, with the
    reason.
    """

    served: Mapping[Api, Resource]
    judges: Sequence[Judge]
    unread: Mapping[str, str]


async def read_facts(client: Client, *settings: Settings, clock: Clock = MACHINE_CLOCK) -> Known:
    """Return what is known of the cluster, for judging by each of `settings`. Raises `FactsUnavailable` if it cannot be
    read at all.
    """
    discovery = Discovery(client)
    try:
        await discovery.ask()
    except RequestFailed as error:
        raise FactsUnavailable(f"the cluster cannot be read: {error}") from None
    # What admission knows, so that both judge alike.
    projections = dict.fromkeys(one for each in settings for one in followed_projections(each, objects=True))
    found = await read_objects(client, projections, pods=False)
    # The API server has pruned the fields that it does not know.
    now = clock.now()
    judges = [Judge(replace(found.facts(each.kinds), field_names=None), each, now) for each in settings]
    return Known(dict(discovery.resources), judges, found.failed)
