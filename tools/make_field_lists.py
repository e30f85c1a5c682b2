"""Makes `webhook/offline/field_lists.json` from CustomResourceDefinitions: `python -m tools.make_field_lists CRDS`.

`CRDS` has a folder for each product. The files must be those of the release in `PRODUCTS`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from webhook.model.fields import ITEMS, OBJECT_META, Names
from webhook.model.keys import Api
from webhook.offline.fact_files import LISTS, versions_of
from webhook.offline.manifests import read_file


class CrdProduct(NamedTuple):
    """Where the CRDs of a product are, and the release that they are from."""

    name: str
    folder: str
    release: str


PRODUCTS = (
    CrdProduct("Grove", "grove", "v0.1.0-alpha.12-rc1 (main of 2026-08-19)"),
    CrdProduct("JobSet", "jobset", "v0.12.0 (main of 2026-08-18), with spec.scheduling of KEP-969"),
    CrdProduct("LeaderWorkerSet", "lws", "v0.10.0 (main of 2026-08-21)"),
    CrdProduct("Trainer", "trainer", "v2.3.0 (master of 2026-08-21)"),
)
# Job and Pod have no CRD. A JobSet contains both.
KUBERNETES = "Kubernetes"
# The pods in those CRDs are of 1.35 and 1.36.
_KUBERNETES_RELEASE = "1.36, with the scheduling fields of 1.35 to 1.37"
# `evictionResponders` came with 1.37.
_SCHEDULING_OF_PODS = ("workloadRef", "schedulingGroup", "evictionResponders")
_SCHEDULING_OF_JOBS = ("scheduling",)
# JobSet has `spec.scheduling` behind the gate JobSetWorkloadAwareSchedulingAPI (KEP-969), and takes policies,
# constraints and modes from the Workload API, whose fields differ with its version.
_GROUP = dict.fromkeys(("schedulingPolicy", "schedulingConstraints", "disruptionMode"))
_JOB_GROUP: Names = {**_GROUP, "resourceClaims": None}
_ENTRY: Names = {**_JOB_GROUP, "targetReplicatedJobs": None, "job": _JOB_GROUP}
_SCHEDULING_OF_JOB_SETS: Names = {**_GROUP, "replicatedJobs": {ITEMS: _ENTRY}}
_JOB = ("spec", "replicatedJobs", ITEMS, "template", "spec")
_POD = (*_JOB, "template", "spec")


def field_lists(crds: Path) -> dict[str, Any]:
    """Return the content of the file."""
    nodes = _Nodes()
    kinds = {
        f"{api.group or 'core'} {api.version} {api.kind} {product}": nodes.index(names)
        for product, api, names in _every_kind(crds)
    }
    releases = {product.name: product.release for product in PRODUCTS} | {KUBERNETES: _KUBERNETES_RELEASE}
    return {"releases": releases, "kinds": kinds, "nodes": nodes.found}


def as_text(lists: Mapping[str, Any]) -> str:
    """Return the file: one line for each kind and for each node, so that a new release shows as a few lines."""
    kinds = ",\n".join(f"  {json.dumps(name)}: {index}" for name, index in lists["kinds"].items())
    nodes = ",\n".join("  " + json.dumps(node, separators=(",", ":")) for node in lists["nodes"])
    releases = json.dumps(lists["releases"])
    return f'{{\n"releases": {releases},\n"kinds": {{\n{kinds}\n}},\n"nodes": [\n{nodes}\n]\n}}\n'


class _Nodes:
    """The nodes of all trees, each once, and those below a node before it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, int]]] = []
        self._index: dict[str, int] = {}

    def index(self, names: Names | None) -> int:
        """Return the number of a node, from 1; 0 where any field is permitted."""
        if names is None:
            return 0
        below = {name: self.index(one) for name, one in sorted(names.items())}
        node = (
            " ".join(name for name, index in below.items() if not index),
            {name: index for name, index in below.items() if index},
        )
        key = json.dumps(node)
        if key not in self._index:
            self.found.append(node)
            self._index[key] = len(self.found)
        return self._index[key]


def _every_kind(crds: Path) -> Iterator[tuple[str, Api, Names]]:
    for product in PRODUCTS:
        for file in sorted((crds / product.folder).glob("*.yaml")):
            for document in read_file(file):
                for api, names in versions_of(document.manifest):
                    if api.kind != "JobSet":
                        yield product.name, api, names
                    else:
                        yield product.name, api, _job_set(names)
                        yield KUBERNETES, Api("batch", "v1", "Job"), _as_object(_job(_at(names, _JOB)))
                        yield KUBERNETES, Api("", "v1", "Pod"), _as_object(_pod(_at(names, _POD)))


def _at(names: Names, path: tuple[str, ...]) -> Names:
    for name in path:
        names = names[name]
    return names


def _pod(spec: Names) -> Names:
    return {**dict.fromkeys(_SCHEDULING_OF_PODS), **spec}


def _job(spec: Names) -> Names:
    template = {**spec["template"], "spec": _pod(spec["template"]["spec"])}
    return {**dict.fromkeys(_SCHEDULING_OF_JOBS), **spec, "template": template}


def _job_set(names: Names) -> Names:
    replicated = _at(names, _JOB[:3])
    template = {**replicated["template"], "spec": {**dict.fromkeys(_SCHEDULING_OF_JOBS), **_at(names, _JOB)}}
    jobs = {ITEMS: {**replicated, "template": template}}
    return {**names, "spec": {**names["spec"], "replicatedJobs": jobs, "scheduling": _SCHEDULING_OF_JOB_SETS}}


def _as_object(spec: Names) -> Names:
    return {"apiVersion": None, "kind": None, "metadata": OBJECT_META, "spec": spec, "status": None}


if __name__ == "__main__":
    LISTS.write_text(as_text(field_lists(Path(sys.argv[1]))), encoding="utf-8")
