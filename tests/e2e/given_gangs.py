"""The gangs whose objects are tried on real API servers: published workloads, recordings of Grove's operator, and our
own hard cases.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import yaml

from tests.e2e.control_plane import Manifest

# Our own are always there; the published ones where ROLLCALL_SAMPLES says where Grove's are.
_OWN = Path(__file__).parents[2] / "manifests" / "samples"
GROVES = os.environ.get("ROLLCALL_SAMPLES")
SAMPLES = [*sorted(_OWN.glob("*.yaml")), *(sorted((Path(GROVES) / "grove").rglob("*.yaml")) if GROVES else ())]

RECORDINGS = os.environ.get("ROLLCALL_RECORDINGS")
RACK, HOST, ZONE = "example.com/rack", "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def sample_sets() -> dict[str, Manifest]:
    """The PodCliqueSets of all samples, by file and name."""
    found = {}
    for path in SAMPLES:
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(manifest, dict) and manifest.get("kind") == "PodCliqueSet":
                found[f"{path.stem}/{manifest['metadata']['name']}"] = manifest
    return found


def recorded_gangs() -> dict[str, list[Manifest]]:
    """Each PodGang that was recorded, by folder, in all its states in order."""
    found: dict[str, list[Manifest]] = {}
    for path in sorted(Path(RECORDINGS or "none", "grove-operator").rglob("[0-9]*-podgangs-*.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))["request"]["object"]
        # A deletion brings none.
        if manifest is not None:
            found.setdefault(path.parent.name, []).append(manifest)
    return found


def without_preference(podgang: Manifest) -> Manifest:
    """The same PodGang, as of a set that requires and does not prefer."""
    spec = json.loads(json.dumps(podgang["spec"]))
    for holder in (spec, *spec.get("topologyConstraintGroupConfigs", ()), *spec["podgroups"]):
        if pack := holder.get("topologyConstraint", {}).get("packConstraint"):
            pack.pop("preferred", None)
            if not pack:
                del holder["topologyConstraint"]
    return {**podgang, "spec": spec}


def podgang(name: str, *members: Manifest, **spec: object) -> Manifest:
    """A PodGang as Grove's operator writes it; keywords go into its spec."""
    metadata = {
        "name": name,
        "annotations": {"grove.io/topology-name": "dc"},
        "labels": {"app.kubernetes.io/managed-by": "grove-operator", "kai.scheduler/queue": "team-a"},
    }
    body = {"podgroups": list(members), **spec}
    return {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": metadata, "spec": body}


def member(name: str, minimum: int = 1, **fields: object) -> Manifest:
    """A PodGang's member, with as many pods as it needs."""
    references = [{"namespace": "default", "name": f"{name[:200]}-{index}"} for index in range(minimum)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def required(key: str) -> Manifest:
    """The fields of a required topology."""
    return {"topologyConstraint": {"packConstraint": {"required": key}}}


def group(name: str, key: str, *members: str) -> Manifest:
    """A constraint on some members: what a scaling group with topology becomes."""
    return {"name": name, "podGroupNames": list(members), **required(key)}


# By which scheduler is to say no, and with which rule: `flat` is default-scheduler before CompositePodGroups with the
# members merged, `apart` with a gang of each.
Refusals = Mapping[str, str]
_NO_TOPOLOGY = {
    "flat": "kube/topology",
    "apart": "kube/topology",
    "scheduler-plugins-scheduler": "coscheduling/topology",
}
_NO_SUBSET = {"koord-scheduler": "koordinator/scaling-group-topology", "volcano": "volcano/scaling-group-topology"}


class Hard(NamedTuple):
    """A hard case: one PodGang in all its states, in order."""

    states: tuple[Manifest, ...]
    refused: Refusals = MappingProxyType({})


_LONG, _VERY_LONG = "l" * 60, "v" * 250
_LEAD, _WORK = "demo-0-decode-0-lead", "demo-0-decode-0-work"
_MANY = [f"demo-0-g-{index}-m" for index in range(8)]
_TREE_OF_64 = [f"demo-0-g-{group}-m{leaf}" for group in range(8) for leaf in range(8)]

HARD_CASES: dict[str, Hard] = {
    "names with dots": Hard((podgang("team.a-0", member("team.a-0-lead.er"), member("team.a-0-w", 3)),)),
    "a member of 63 characters": Hard((podgang("demo-0", member("demo-0-" + "m" * 56), member("demo-0-w", 2)),)),
    "a member of 64 characters": Hard((podgang("demo-0", member("demo-0-" + "m" * 57), member("demo-0-w", 2)),)),
    "names over the limit of a label": Hard(
        (podgang(f"{_LONG}-demo-0", member(f"{_LONG}-demo-0-lead"), member(f"{_LONG}-demo-0-w", 2)),)
    ),
    "names as long as names may be, alike in their first 250 characters": Hard(
        (podgang(f"{_VERY_LONG}-00", member(f"{_VERY_LONG}-aa"), member(f"{_VERY_LONG}-bb", 2)),)
    ),
    "long names with dots where they are cut": Hard(
        (podgang("x." * 120 + "y", member("x." * 31 + "a"), member("x." * 125 + "b", 2)),)
    ),
    "members called as templates are": Hard((podgang("gang", member("root"), member("gang"), member("leaf-0")),)),
    "a scaled gang": Hard(
        (podgang("demo-0-decode-0", member("demo-0-decode-1-lead"), member("demo-0-decode-1-w", 4)),)
    ),
    "as many members as a list takes": Hard((podgang("demo-0", *(member(name) for name in _MANY)),)),
    "topology at three levels": Hard(
        (
            podgang(
                "demo-0",
                member("demo-0-router"),
                member(_LEAD, 1, **required(HOST)),
                member(_WORK, 4),
                topologyConstraintGroupConfigs=[group("demo-0-decode-0", RACK, _LEAD, _WORK)],
                **required(ZONE),
            ),
        ),
        {**_NO_TOPOLOGY, **_NO_SUBSET},
    ),
    "a scaling group's replica called as a clique": Hard(
        (
            podgang(
                "demo-0",
                member("demo-0-decode-0"),
                member(_LEAD),
                member(_WORK, 2),
                topologyConstraintGroupConfigs=[group("demo-0-decode-0", RACK, _LEAD, _WORK)],
            ),
        ),
        {**_NO_TOPOLOGY, **_NO_SUBSET},
    ),
    "eight groups of eight members": Hard(
        (
            podgang(
                "demo-0",
                *map(member, _TREE_OF_64),
                topologyConstraintGroupConfigs=[
                    group(f"demo-0-g-{index}", RACK, *_TREE_OF_64[8 * index : 8 * index + 8]) for index in range(8)
                ],
            ),
        ),
        {**_NO_TOPOLOGY, **_NO_SUBSET},
    ),
    "a member released, then all, then none": Hard(
        tuple(
            podgang("demo-0", member("demo-0-lead", lead), member("demo-0-w", work))
            for lead, work in ((1, 3), (0, 3), (0, 0), (1, 0), (1, 3))
        )
    ),
    "a gang that is released when it is first seen": Hard(
        (
            podgang("demo-0", member("demo-0-lead", 0), member("demo-0-w", 0)),
            podgang("demo-0", member("demo-0-lead", 0), member("demo-0-w", 0)),
        )
    ),
    "a gang that is empty at first": Hard(
        (podgang("demo-0"), podgang("demo-0", member("demo-0-lead"), member("demo-0-w", 2)))
    ),
    "pods that come one by one": Hard(
        tuple(
            podgang("demo-0", {**member("demo-0-w", 3), "podReferences": member("demo-0-w", pods)["podReferences"]})
            for pods in (0, 1, 3)
        )
    ),
}
