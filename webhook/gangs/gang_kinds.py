"""Which kinds are followed for the gangs of a cluster."""

from __future__ import annotations

from webhook.cluster.facts import LiveFacts
from webhook.config.settings import Settings
from webhook.model.projections import POD_GANGS, Resource
from webhook.telemetry.logs import log


def gang_resources(settings: Settings, live: LiveFacts) -> list[Resource]:
    """The served kinds to follow: PodGangs, and for every enabled scheduler its gang objects and the kinds of its queue
    trees.
    """
    served = live.resources
    backends = [profile.backend for profile in settings.profiles.values()]
    wanted = {api: None for backend in backends for api in backend.gang_kinds(live.facts)}
    for backend in backends:
        # The objects of a kind are the same in each version, so one is followed.
        trees = next((one.resource.api for one in backend.trees if one.resource.api in served), None)
        wanted |= {} if trees is None else {trees: None}
    found = [served[api] for api in wanted if api in served]
    if POD_GANGS.resource.api in served:
        found.insert(0, POD_GANGS.resource)
    else:
        log.info("no PodGangs", why="the cluster does not serve them")
    return found
