"""The judgement of one waiting gang, from its stored pods or, if pods are missing, from its workload's templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from webhook.admission.fit import fit_of, fits_of, packing_of, room_for
from webhook.config.settings import Settings
from webhook.fit.gang_fit import GangFit
from webhook.fit.now import Now, Usage, counted_by, room_now
from webhook.fit.shape import GangShape
from webhook.fit.stored_shapes import shape_of_templates
from webhook.fit.verdict import Verdict
from webhook.gangs.waiting_gang import Waiting, unnamed
from webhook.model.facts import ClusterFacts
from webhook.model.node_pods import NodePods
from webhook.model.reading import Malformed
from webhook.model.workloads.pod import Pod


class FitJudgement(Protocol):
    """Judges one gang, whatever it costs."""

    def verdict(self, gang: Waiting, facts: ClusterFacts) -> Verdict | None:
        """Whether the gang can ever start; None if it is not judged."""

    def now(self, gang: Waiting, facts: ClusterFacts, pods: NodePods) -> Now | None:
        """An estimate of whether the gang has room now; None if there is none."""


class StoredFits:
    """Judges gangs by the facts of a cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def verdict(self, gang: Waiting, facts: ClusterFacts) -> Verdict | None:
        """Whether the gang can ever start; None if it is not judged."""
        try:
            if not gang.is_whole:
                return self._of_templates(gang, facts)
            return fit_of(_shape(gang), gang.profile.backend, facts, self._settings.fit)
        except Malformed:
            return None

    def now(self, gang: Waiting, facts: ClusterFacts, pods: NodePods) -> Now | None:
        """An estimate of whether the gang has room now; None if there is none. Who holds the room is not worked out."""
        backend, settings = gang.profile.backend, self._settings.fit
        try:
            packing = packing_of(_shape(gang), backend, facts, settings)
            room = room_for(packing, backend, facts, settings)
        except Malformed:
            return None
        if packing.unknown or room is None:
            return None
        usage = Usage.of(replace(facts, node_pods=pods), counted_by(backend.pod_reading(settings)))
        return room_now(packing, room, usage, (gang.podgang.namespace, gang.podgang.name))

    def _of_templates(self, gang: Waiting, facts: ClusterFacts) -> Verdict | None:
        if (workload := gang.templates_of) is None:
            return None
        found = _named(gang.podgang.name, fits_of(workload, gang.profile, facts, self._settings))
        return None if found is None else found.verdict


def _shape(gang: Waiting) -> GangShape:
    """The gang with places for names. Raises `Malformed`."""
    podgang = gang.podgang
    templates = {name: [Pod(one.manifest(podgang.namespace)).template] for name, one in gang.pods.items()}
    shape = shape_of_templates(podgang, templates, gang.record)
    whole = tuple(member._replace(pods=gang.counts[member.name]) for member in shape.members)
    return unnamed(shape._replace(members=whole), [member.name for member in podgang.members])


def _named(name: str, fits: Iterable[GangFit]) -> GangFit | None:
    """The gang of that name; the only one if none is named so, as the replicas of a set are equal."""
    known = list(fits)
    return next((one for one in known if one.shape.name == name), known[0] if len(known) == 1 else None)
