"""Stored objects for the tests of audits, and the judge of a cluster with koord-scheduler."""

from __future__ import annotations

from typing import Any

from tests.unit.worlds import koordinator
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Manifest
from webhook.operations.audit import Judge, StoredKey, key_of
from webhook.validators.examples import clique

SETS = POD_CLIQUE_SETS.resource.api
RULE = "koordinator/mnnvl"
SETTINGS = koordinator(standalone=False)
NAMESPACES = {name: Namespace({}) for name in ("team-a", "team-b", "kube-system", "rollcall-system")}
FACTS = ClusterFacts(namespaces=NAMESPACES, pod_clique_sets={}, jobs={}, job_sets={})


def stored_set(name: str = "demo", namespace: str = "team-a", *, bad: bool = False, **metadata: Any) -> Manifest:
    """A PodCliqueSet as a list has it: with a uid, and without kind. A `bad` one asks for an NVLink domain."""
    gpus = clique("worker", requests={"nvidia.com/gpu": "8"})
    if bad:
        gpus["annotations"] = {"grove.io/mnnvl-group": "train"}
    named = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", **metadata}
    return {"metadata": named, "spec": {"replicas": 1, "template": {"cliques": [gpus]}}}


def judge(settings: Settings = SETTINGS, facts: ClusterFacts = FACTS) -> Judge:
    """The judge of a cluster."""
    return Judge(facts, settings)


def key(raw: Manifest) -> StoredKey:
    """The key of a PodCliqueSet."""
    return key_of(raw, SETS)
