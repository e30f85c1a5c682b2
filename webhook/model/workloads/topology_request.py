"""The topology that an opted-in workload asks for by annotations. Each scheduler has its own keys and reads them at its
own places: on the workload, on the template of a JobSet's Jobs, or on the pods.

Source: KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,jobset,leaderworkerset} (v0.17.0); koordinator,
apis/extension/coscheduling.go (v1.8.0); volcano, pkg/controllers/podgroup/pg_controller_handler.go (v1.15.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from webhook.model.capabilities import Use
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.reading import Malformed, mapping, sequence, text
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload, Part

KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"
KOORDINATOR_TOPOLOGY = "gang.scheduling.koordinator.sh/network-topology-spec"
VOLCANO_MODE = "volcano.sh/network-topology-mode"
VOLCANO_TIER = "volcano.sh/network-topology-highest-tier"

# The systems that read each key, as named in `webhook.model.claims`.
READERS: Mapping[str, str] = {
    KAI_TOPOLOGY: "KAI",
    KAI_REQUIRED: "KAI",
    KAI_PREFERRED: "KAI",
    KOORDINATOR_TOPOLOGY: "Koordinator",
    VOLCANO_MODE: "Volcano",
    VOLCANO_TIER: "Volcano",
}


class Holder(Enum):
    """Where an annotation is."""

    WORKLOAD = "the workload"
    JOBS = "the template of a JobSet's Jobs"
    PODS = "the pod template"


class Annotations(NamedTuple):
    """The annotations of one place of a workload."""

    holder: Holder
    path: FieldPath
    found: Mapping[str, Any]

    def asks(self, *keys: str) -> list[Use]:
        """Those of the keys that have a value, with their places."""
        return [Use(self.path / key, value) for key in keys if (value := text(self.found.get(key)))]


def of_workload(workload: OptedInWorkload) -> Annotations:
    """The annotations of the workload itself."""
    return Annotations(Holder.WORKLOAD, ANNOTATIONS, workload.annotations)


def of_jobs(workload: OptedInWorkload) -> Iterator[Annotations]:
    """The annotations of the Jobs of each part of a JobSet."""
    if isinstance(workload, JobSet):
        for index, part in enumerate(workload.parts):
            found = mapping(workload.job_metadata(index).get("annotations"))
            yield Annotations(Holder.JOBS, part.path / "template" / "metadata" / "annotations", found)


def of_pods(part: Part) -> Annotations:
    """The annotations of a part's pods."""
    return Annotations(Holder.PODS, part.template.annotations_path, part.template.annotations)


def every_place(workload: OptedInWorkload) -> Iterator[Annotations]:
    """The annotations of the workload, of its Jobs, and of its distinct pod templates."""
    yield of_workload(workload)
    yield from of_jobs(workload)
    yield from map(of_pods, workload.distinct_parts)


def requests(workload: OptedInWorkload, made: OptedInWorkload | None) -> list[tuple[str, Use]]:
    """The reader of every annotation that asks for topology, and its place: on the workload, and for a TrainJob also on
    the JobSet that is `made`.
    """
    found = [(_reader(use), use) for place in every_place(workload) for use in place.asks(*READERS)]
    if isinstance(made, MadeJobSet):
        of_made = [use for place in every_place(made) for use in place.asks(*READERS)]
        found += [(_reader(use), Use(made.in_train_job(use.path), use.value)) for use in of_made]
    return found


def _reader(use: Use) -> str:
    return READERS[str(use.path.parts[-1])]


def domains(place: Annotations) -> tuple[str | None, str | None]:
    """The domains that one place requires and prefers, as a person reads them: KAI's levels, Koordinator's layers, or
    Volcano's tier.
    """
    found = {use.path.parts[-1]: str(use.value) for use in place.asks(*READERS)}
    required, preferred = found.get(KAI_REQUIRED), found.get(KAI_PREFERRED)
    tier = found.get(VOLCANO_TIER)
    if tier is not None and found.get(VOLCANO_MODE, "hard").lower() != "soft":
        required = required or f"tier {tier}"
    layers = _layers(found.get(KOORDINATOR_TOPOLOGY))
    return required or layers.get("MustGather"), preferred or layers.get("PreferGather")


def _layers(written: str | None) -> dict[str, str]:
    """The last layer of each strategy in a network-topology-spec; none if it is not one."""
    try:
        entries = sequence(mapping(json.loads(written or "null")).get("gatherStrategy"))
        return {text(mapping(one).get("strategy")) or "": text(mapping(one).get("layer")) or "" for one in entries}
    except (ValueError, RecursionError, Malformed):
        return {}
