"""The CRDs of other projects that a configuration needs. Rollcall has none of its own: its state is in labels and in
the schedulers' objects.
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.config.followed import followed_projections
from webhook.config.settings import Settings
from webhook.model.keys import Api
from webhook.model.kueue import keys as kueue
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, Resource

# API groups that an API server serves without a CRD, if it serves them.
_BUILT_IN = {"", "apps", "batch", "resource.k8s.io", "scheduling.k8s.io"}


class NeededKind(NamedTuple):
    """A CustomResourceDefinition: its name, the version that is used, and its users.

    If a `required` one is missing, no workload of that scheduler is admitted; the others are read if served.
    """

    name: str
    version: str
    wanted_by: tuple[str, ...]
    required: bool


def needed_kinds(settings: Settings) -> list[NeededKind]:
    """The CustomResourceDefinitions that the enabled profiles need, the required ones first."""
    found: dict[Api, NeededKind] = {}

    def add(resource: Resource, who: str, *, required: bool) -> None:
        api = resource.api
        if api.group in _BUILT_IN:
            return
        known = found.get(api)
        wanted_by = (who,) if known is None else tuple(dict.fromkeys((*known.wanted_by, who)))
        needed = required or (known is not None and known.required)
        found[api] = NeededKind(resource.qualified, api.version, wanted_by, needed)

    for projection in (POD_CLIQUE_SETS, POD_GANGS):
        add(projection.resource, "Grove", required=True)
    add(TOPOLOGY_BINDINGS.resource, "Grove", required=False)
    for name, profile in settings.profiles.items():
        backend = profile.backend
        read = {projection.resource.api: projection.resource for projection in backend.followed(objects=True)}
        for api in backend.required_apis:
            add(read.get(api) or Resource(api, f"{api.kind.lower()}s"), name, required=True)
        others = [*read.values()]
        if backend.topology_kind is not None:
            others.append(backend.topology_kind)
        for resource in others:
            add(resource, name, required=False)
    for shadow in settings.shadows:
        for profile in shadow.settings.profiles.values():
            for projection in profile.backend.followed(objects=True):
                if not projection.for_objects:
                    add(projection.resource, f"shadow {shadow.name}", required=False)
    for resource in (*settings.kinds.admitted, *(projection.resource for projection in settings.kinds.projections)):
        add(resource, "other workloads", required=False)
    followed = dict.fromkeys(
        one for objects in (True, False) for one in followed_projections(settings, objects=objects)
    )
    for projection in followed:
        if projection.resource.api.group == kueue.GROUP:
            add(projection.resource, "Kueue", required=False)
    return sorted(found.values(), key=lambda kind: not kind.required)
