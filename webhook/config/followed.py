"""The kinds whose objects are followed in a cluster as facts, under a configuration.

Watches and rights are both made from this list, so a service account may read exactly what is read.
"""

from __future__ import annotations

from webhook.config.settings import Settings
from webhook.model.general import general_to_reconciler, general_to_server
from webhook.model.keys import SHAPED_WORKLOADS
from webhook.model.kueue.admission_check import CheckMode
from webhook.model.projections import Projection
from webhook.model.workloads.kinds import JOB_SETS


def followed_projections(settings: Settings, *, objects: bool) -> tuple[Projection, ...]:
    """The projections for admission, which also judges gang `objects` of other authors; without `objects` those for the
    reconciler. A server does not wait for those that only its shadows need.
    """
    found = list(_followed(settings, objects=objects))
    for shadow in settings.shadows if objects else ():
        # Several kinds fill one part only if all of them say so.
        filled = {one.part for one in found if not one.shared}
        # Shadows judge no gang objects.
        judged = (one for one in _followed(shadow.settings, objects=True) if not one.for_objects)
        others = (one for one in judged if one.part not in filled)
        known = {one._replace(awaited=False) for one in found}
        found += [late for one in others if (late := one._replace(awaited=False)) not in known]
    return tuple(found)


def _followed(settings: Settings, *, objects: bool) -> tuple[Projection, ...]:
    if objects:
        general = general_to_server(kueue=settings.judges_kueue)
    else:
        kueue = settings.makes_gangs or settings.admission_check is not CheckMode.OFF
        # The record of a TrainJob completes that of its JobSet.
        general = general_to_reconciler(opted_in=JOB_SETS.api.kind in settings.gang_workloads, kueue=kueue)
    backends = (profile.backend for profile in settings.profiles.values())
    declared = (one for one in settings.kinds.projections if one.part == SHAPED_WORKLOADS) if objects else ()
    every = (*general, *declared, *(found for backend in backends for found in backend.followed(objects=objects)))
    return tuple(dict.fromkeys(every))
