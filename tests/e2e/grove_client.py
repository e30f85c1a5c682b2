"""How the fixtures that play Grove's operator write to the API server, and what they have written."""

from __future__ import annotations

from typing import NamedTuple

import httpx

from tests.e2e.control_plane import OPERATOR, ControlPlane, Manifest

_GROUPS = {"pods": "/api/v1", "podgangs": "/apis/scheduler.grove.io/v1alpha1"}
_MERGE = {"Content-Type": "application/merge-patch+json"}


class Sent(NamedTuple):
    """A write of the operator's, named as the API server names it to a webhook, and the object that it left."""

    operation: str
    resource: str
    name: str
    object: Manifest


class GroveClient:
    """The API of one namespace, as the operator's service account uses it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        # What was written so far, in order.
        self.sent: list[Sent] = []
        self._http = plane.http_as(OPERATOR)

    def path(self, resource: str) -> str:
        """Where the objects of a kind are in the API."""
        return f"{_GROUPS.get(resource, '/apis/grove.io/v1alpha1')}/namespaces/{self.namespace}/{resource}"

    def get(self, resource: str, name: str) -> Manifest:
        """An object as it is stored now."""
        return answered(self._http.get(f"{self.path(resource)}/{name}"))

    def items(self, resource: str, labels: str = "") -> list[Manifest]:
        """The objects of a kind, sorted by name; those with the labels of a selector, if there is one."""
        found = self.plane.items(self.path(resource), **({"labelSelector": labels} if labels else {}))
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    def post(self, resource: str, body: Manifest) -> Manifest:
        """Create an object; it as it is stored."""
        return self._wrote("CREATE", resource, answered(self._http.post(self.path(resource), json=body)))

    def patch(self, resource: str, name: str, body: Manifest) -> Manifest:
        """Change an object, or its status (`pods/status`), by a merge patch; it as it is stored."""
        plural, _, subresource = resource.partition("/")
        path = f"{self.path(plural)}/{name}" + (f"/{subresource}" if subresource else "")
        return self._wrote("UPDATE", resource, answered(self._http.patch(path, json=body, headers=_MERGE)))

    def delete(self, resource: str, name: str) -> None:
        """Delete an object at once; the garbage collector may have done so before."""
        response = self._http.delete(f"{self.path(resource)}/{name}", params={"gracePeriodSeconds": "0"})
        if response.status_code != httpx.codes.NOT_FOUND:
            answered(response)
        self.sent.append(Sent("DELETE", resource, name, {}))

    def _wrote(self, operation: str, resource: str, stored: Manifest) -> Manifest:
        self.sent.append(Sent(operation, resource, stored["metadata"]["name"], stored))
        return stored


def answered(response: httpx.Response) -> Manifest:
    """What the API server answered; raises Refused."""
    if response.is_error:
        raise Refused(response)
    found: Manifest = response.json()
    return found


class Refused(Exception):
    """The API server refused a request of the operator, which would log it and retry."""

    def __init__(self, response: httpx.Response) -> None:
        self.code = response.status_code
        super().__init__(response.json().get("message", response.text))
