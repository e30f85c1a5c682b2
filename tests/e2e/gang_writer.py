"""Writes gang objects like a reconciler: by server-side apply, in the order of creation, over existing objects.

Strictly: a field that the API server does not know is a failure here, and so is a second apply that changes anything.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from webhook.config.settings import Profile
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record

_STRICT = {"fieldValidation": "Strict"}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}
# What the API server gives an object. A recorded one brings that of another cluster, and an owner that is not here.
_OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")


def path_of(manifest: Manifest, *, named: bool = True) -> str:
    """Where the API has the object, or without a name the objects of its kind."""
    kind = manifest["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    space, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
    place = f"/namespaces/{space}" if space else ""
    return f"/apis/{manifest['apiVersion']}{place}/{plural}{f'/{name}' if named else ''}"


def applied(plane: ControlPlane, manifest: Manifest, *, manager: str = "rollcall", dry: bool = False) -> httpx.Response:
    """The answer to a server-side apply."""
    params = {"fieldManager": manager, "force": "true", **_STRICT, **({"dryRun": "All"} if dry else {})}
    return plane.http.patch(path_of(manifest), params=params, content=json.dumps(manifest), headers=_APPLY)


def posted(plane: ControlPlane, manifest: Manifest, *, dry: bool = False) -> httpx.Response:
    """The answer to a creation: a field that is unknown is a 400 then, and with server-side apply a 500."""
    params = {**_STRICT, **({"dryRun": "All"} if dry else {})}
    return plane.http.post(path_of(manifest, named=False), params=params, json=manifest)


def live(plane: ControlPlane, manifest: Manifest) -> Manifest | None:
    """The stored object, or None if it does not exist."""
    answer = plane.http.get(path_of(manifest))
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    assert answer.is_success, answer.text
    found: Manifest = answer.json()
    return found


def served(plane: ControlPlane) -> frozenset[Api]:
    """The kinds that the API server serves, as its discovery shows them."""
    document = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = plane.http.get("/apis", headers={"Accept": document})
    assert answer.is_success, answer.text
    return frozenset(
        Api(group["metadata"]["name"], version["version"], resource["responseKind"]["kind"])
        for group in answer.json()["items"]
        for version in group["versions"]
        for resource in version["resources"]
    )


class GangWriter:
    """The way of PodGangs into one namespace, for one profile. `judged` counts the objects that were accepted."""

    def __init__(self, plane: ControlPlane, namespace: str, profile: Profile, facts: ClusterFacts) -> None:
        self.plane = plane
        self.namespace = namespace
        self.profile = profile
        self.facts = facts
        self.judged = 0
        self._desired: dict[str, list[Manifest]] = {}
        self._written: dict[str, list[Manifest]] = {}

    def stored(self, podgang: Manifest) -> PodGang:
        """The PodGang, stored for real: its objects name it as their owner, and would be collected without it."""
        manifest = deepcopy(podgang)
        metadata = manifest["metadata"]
        for field in _OF_THE_SERVER:
            metadata.pop(field, None)
        metadata["namespace"] = self.namespace
        manifest.pop("status", None)
        for group in manifest["spec"]["podgroups"]:
            group["podReferences"] = [{**found, "namespace": self.namespace} for found in group["podReferences"]]
        answer = applied(self.plane, manifest, manager="grove-operator")
        assert answer.is_success, f"the PodGang itself: {answer.text}"
        return PodGang(answer.json())

    def write(self, podgang: Manifest, record: Record) -> list[Manifest]:
        """Write the objects of `podgang`, and once more; what is stored then. Raises `Inexpressible`."""
        gang = self.stored(podgang)
        desired = self.profile.backend.gang_objects(gang, record, self.facts)
        # A state that says nothing new has been judged.
        if self._desired.get(gang.name) != desired:
            self._written[gang.name] = [self._apply(found, live(self.plane, found)) for found in desired]
            for found, written in zip(desired, self._written[gang.name], strict=True):
                self._apply_again(found, written)
            self._desired[gang.name] = desired
        return self._written[gang.name]

    def _apply(self, desired: Manifest, before: Manifest | None) -> Manifest:
        answer = applied(self.plane, self.profile.backend.adopt(desired, before))
        assert answer.is_success, f"{_title(desired)} is refused: {why(answer)}\n{desired}"
        self.judged += 1
        found: Manifest = answer.json()
        return found

    def _apply_again(self, desired: Manifest, written: Manifest) -> None:
        seen = [written]

        def unchanged() -> bool:
            before = seen.pop()
            answer = applied(self.plane, self.profile.backend.adopt(desired, before))
            assert answer.is_success, f"{_title(desired)} is refused: {why(answer)}"
            seen.append(answer.json())
            return _version(before) == _version(seen[0])

        # A controller of the cluster's own may put a finalizer on it in between, and that once.
        eventually(unchanged, f"a second apply of {_title(desired)} changes nothing", timeout=5, pause=0.02)


def _title(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"]["resourceVersion"])


def why(answer: httpx.Response) -> str:
    """What the API server says of a request, for a person."""
    found: Any = answer.json()
    return f"{answer.status_code} {found.get('reason')}: {found.get('message')}"
