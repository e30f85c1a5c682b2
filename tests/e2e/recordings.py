"""What was recorded of Grove's operator, and what its players sent, in a form in which they can be compared.

Left out is what differs from run to run: uids, times and the random ends of pods' names. Epochs become `<epoch+0>`,
`<epoch+1>` and so on. Hashes are opaque: that of a set's generation becomes `<hash 1>`, `<hash 2>` in the order in
which they come, that of a pod's template is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.grove_client import Sent

RECORDINGS = Path(os.environ.get("ROLLCALL_RECORDINGS", "none"))

# Hashes, and the marks of the mirrored kubectl annotation, are opaque and not imitated.
_NOT_IMITATED = {"grove.io/pod-template-hash"}


class Request(NamedTuple):
    """One request: what it was about, and the object before and after."""

    operation: str
    resource: str
    now: Manifest
    old: Manifest

    @property
    def of_finalizers(self) -> bool:
        """Whether it takes away the last finalizer of an object that is being deleted."""
        return bool(self.old.get("metadata", {}).get("finalizers")) and not self.now["metadata"].get("finalizers")


class Step(NamedTuple):
    """One request without what differs from run to run: a pod has the name of its host, and of an object is told what
    it is to others when it is created, and afterwards what changes of that.
    """

    operation: str
    resource: str
    name: str
    told: Any = None

    @property
    def what(self) -> str:
        """`UPDATE pods demo-0-router-0`."""
        return f"{self.operation} {self.resource} {self.name}"


def recorded(folder: Path, first: int = 1, last: int = 999) -> list[Request]:
    """The recorded requests of a folder from one number to another, in order."""
    found = []
    for path in sorted(folder.glob("*.json")):
        if first <= int(path.name[:3]) <= last:
            request = json.loads(path.read_text())["request"]
            resource = "/".join(filter(None, (request["resource"]["resource"], request.get("subResource"))))
            now, old = request["object"] or {}, request["oldObject"] or {}
            found.append(Request(request["operation"], resource, now, old))
    return found


def played(sent: Iterable[Sent]) -> list[Request]:
    """The same of what a player sent."""
    found: list[Request] = []
    last: dict[tuple[str, str], Manifest] = {}
    for one in sent:
        key = one.resource.partition("/")[0], one.name
        found.append(Request(one.operation, one.resource, one.object, last.get(key, {})))
        last[key] = one.object
    return found


def steps(requests: Iterable[Request]) -> list[Step]:
    """What can be compared of them: not the statuses, and one of several deletions."""
    found: list[Step] = []
    for request in requests:
        if request.resource in {"pods", "podcliques", "podgangs", "podgangmaps"}:
            step = _step(request)
            if step.told != {} and (step.operation != "DELETE" or step not in found):
                found.append(step)
    return found


def _step(request: Request) -> Step:
    operation = "DELETE" if request.operation == "UPDATE" and request.of_finalizers else request.operation
    now = request.old if operation == "DELETE" else request.now
    name = now["spec"]["hostname"] if request.resource == "pods" else now["metadata"]["name"]
    if operation == "DELETE":
        return Step(operation, request.resource, name)
    after = identity(now)
    if operation == "UPDATE":
        before = identity(request.old)
        after["labels"] = _changed(before["labels"], after["labels"])
        before["labels"] = {}
        after = _changed(before, after)
    return Step(operation, request.resource, name, after)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is new or another; None for what is gone."""
    found = {key: value for key, value in after.items() if value != before.get(key)}
    return found | dict.fromkeys(before.keys() - after.keys())


def told(parts: Iterable[Iterable[Request]], namespace: str) -> list[list[Step]]:
    """The steps of each part of the life of a set of one replica, without its epochs, hashes and namespace."""
    found = [steps(part) for part in parts]
    maps = [step.told["entries"] for part in found for step in part if step.resource == "podgangmaps" and step.told]
    text = json.dumps(found).replace(f".{namespace}.svc", ".<namespace>.svc")
    for ordinal in range(3):
        text = text.replace(str(int(maps[0][0]["epoch"]) + ordinal), f"<epoch+{ordinal}>")
    hashes = dict.fromkeys(entry["podCliqueSetGenerationHash"] for entries in maps for entry in entries)
    for ordinal, generation in enumerate(hashes):
        text = text.replace(generation, f"<hash {ordinal + 1}>")
    return [[Step(*step) for step in part] for part in json.loads(text)]


def named(podgang: Manifest, pods: Iterable[Manifest]) -> list[list[str]]:
    """The hosts' names of the pods that a PodGang names, by member."""
    hosts = {pod["metadata"]["name"]: pod["spec"]["hostname"] for pod in pods}
    groups = podgang["spec"]["podgroups"]
    return [sorted(hosts[reference["name"]] for reference in group["podReferences"]) for group in groups]


def identity(raw: Manifest) -> dict[str, Any]:
    """What an object is to others: names, labels, owners, and of each kind what matters of it."""
    metadata, spec = raw["metadata"], raw["spec"]
    found: dict[str, Any] = {
        "name": metadata.get("generateName") or metadata["name"],
        "labels": {key: value for key, value in metadata["labels"].items() if key not in _NOT_IMITATED},
        "owners": [
            (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"])
            for owner in metadata["ownerReferences"]
        ],
    }
    if "podgroups" in spec:
        found["members"] = [(group["name"], group["minReplicas"]) for group in spec["podgroups"]]
    elif "entries" in spec:
        found["replica"], found["entries"] = spec["podCliqueSetReplicaIndex"], spec["entries"]
    elif "podSpec" in spec:
        found["image"] = spec["podSpec"]["containers"][0]["image"]
        found["size"] = (spec["roleName"], spec["replicas"], spec["minAvailable"])
    else:
        found["image"] = spec["containers"][0]["image"]
        for field in ("hostname", "subdomain", "schedulingGates", "schedulerName", "restartPolicy"):
            found[field] = spec.get(field)
        found["env"] = [
            (entry["name"], entry.get("value") or entry["valueFrom"]["fieldRef"]["fieldPath"])
            for entry in spec["containers"][0]["env"]
        ]
    return found
