"""Objects with owner references, from a workload to its pods: how controllers write and find them."""

from __future__ import annotations

import hashlib
import json

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually

MERGE = {"Content-Type": "application/merge-patch+json"}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}


def path_of(api_version: str, kind: str, namespace: str | None, name: str = "") -> str:
    """Where the API has an object, or without a name those of its kind."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{kind.lower()}s" + (f"/{name}" if name else "")


def found(plane: ControlPlane, api_version: str, kind: str, namespace: str | None, name: str) -> Manifest | None:
    """The stored object, or None if it does not exist."""
    answer = plane.http.get(path_of(api_version, kind, namespace, name))
    return None if answer.status_code == httpx.codes.NOT_FOUND else _answered(answer)


def read(plane: ControlPlane, api_version: str, kind: str, namespace: str | None, name: str) -> Manifest:
    """An object as it is stored, which must be there."""
    stored = found(plane, api_version, kind, namespace, name)
    assert stored is not None, f"there is no {kind} {name}"
    return stored


def created(plane: ControlPlane, manifest: Manifest) -> Manifest:
    """Create an object; as it is stored."""
    path = path_of(manifest["apiVersion"], manifest["kind"], manifest["metadata"].get("namespace"))
    return _answered(plane.http.post(path, json=manifest))


def applied(plane: ControlPlane, manifest: Manifest, manager: str) -> Manifest:
    """Apply an object server-side, by force, as controllers do; as it is stored."""
    metadata = manifest["metadata"]
    path = path_of(manifest["apiVersion"], manifest["kind"], metadata.get("namespace"), metadata["name"])
    params = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
    return _answered(plane.http.patch(path, params=params, content=json.dumps(manifest), headers=_APPLY))


def patched(plane: ControlPlane, stored: Manifest, body: Manifest, subresource: str = "") -> Manifest:
    """Merge a patch into a stored object."""
    metadata = stored["metadata"]
    path = path_of(stored["apiVersion"], stored["kind"], metadata.get("namespace"), metadata["name"])
    return _answered(plane.http.patch(f"{path}{subresource}", json=body, headers=MERGE))


def listed(plane: ControlPlane, api_version: str, kind: str, namespace: str, selector: str = "") -> list[Manifest]:
    """Objects of one kind; each says what it is, which the items of a list do not."""
    items = plane.items(path_of(api_version, kind, namespace), labelSelector=selector)
    return [{"apiVersion": api_version, "kind": kind, **item} for item in items]


def deleted(plane: ControlPlane, stored: Manifest, propagation: str = "Foreground") -> None:
    """Delete an object; in the foreground it stays until all its dependents are deleted."""
    metadata = stored["metadata"]
    path = path_of(stored["apiVersion"], stored["kind"], metadata.get("namespace"), metadata["name"])
    answer = plane.http.delete(path, params={"propagationPolicy": propagation})
    if answer.status_code != httpx.codes.NOT_FOUND:
        _answered(answer)


def controller_reference(owner: Manifest) -> Manifest:
    """The reference to the controller that an owned object has."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_chain(plane: ControlPlane, pod: Manifest) -> list[str]:
    """The controllers of a pod, from the nearest up: `["Job run-node-0", "JobSet run"]`."""
    chain: list[str] = []
    current, namespace = pod, pod["metadata"]["namespace"]
    while references := [one for one in current["metadata"].get("ownerReferences", ()) if one.get("controller")]:
        (reference,) = references
        current = read(plane, reference["apiVersion"], reference["kind"], namespace, reference["name"])
        assert current["metadata"]["uid"] == reference["uid"], f"another {reference['kind']} {reference['name']}"
        chain.append(f"{reference['kind']} {reference['name']}")
    return chain


def until_pods(plane: ControlPlane, namespace: str, selector: str, count: int) -> list[Manifest]:
    """The pods of a selector once they are so many, none of them on its way out; by name."""

    def all_there() -> list[Manifest]:
        pods = listed(plane, "v1", "Pod", namespace, selector)
        names = sorted(pod["metadata"]["name"] for pod in pods)
        assert len(pods) == count, f"{len(pods)} pods {names}"
        assert not [pod for pod in pods if "deletionTimestamp" in pod["metadata"]], f"some of {names} are going"
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    # Not what `eventually` takes for "not yet", where none are wanted.
    return eventually(lambda: (all_there(),), f"{count} pods of {selector}")[0]


def sha1(*parts: str) -> str:
    """The hash by which JobSet and LeaderWorkerSet tell namespaced objects apart."""
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


def _answered(response: httpx.Response) -> Manifest:
    assert response.is_success, response.text
    answer: Manifest = response.json()
    return answer
