"""PodCliqueSets and clusters for the tests of the complete decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.worlds import koordinator, request
from webhook import admission
from webhook.config.settings import Settings
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.validators.examples import clique

LABEL = "rollcall.dev/scheduler"
KOORD = {LABEL: "koord-scheduler"}
NVLINK = {"grove.io/mnnvl-group": "train"}
GPU = clique("worker", requests={"nvidia.com/gpu": "8"})


def mutate(manifest: Any, old: Any = None, settings: Settings | None = None, facts: ClusterFacts = NO_FACTS) -> Any:
    return admission.mutate(request(manifest, old), facts, settings or koordinator())


def in_namespace(**labels: str) -> ClusterFacts:
    return ClusterFacts(
        namespaces={"default": Namespace({key.replace("__", "/"): value for key, value in labels.items()})}
    )


PLAIN_DEFAULT = replace(koordinator(), default="default-scheduler")
