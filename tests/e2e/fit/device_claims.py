"""Devices of dynamic resource allocation: a slice for each node, and a claim for each pod or for all pods of a role."""

from __future__ import annotations

from random import Random

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.case import Case
from tests.e2e.fit.placement import NodeDraft, RoleDraft
from tests.e2e.fit.spelling import DEVICES

DRIVER, _CLASS = "fit.example.com", "fit"
_API = "resource.k8s.io/v1"
# The class that all claims name.
DEVICE_CLASS: Manifest = {
    "apiVersion": _API,
    "kind": "DeviceClass",
    "metadata": {"name": _CLASS},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


def add_devices(rng: Random, case: Case, nodes: list[NodeDraft], roles: list[RoleDraft]) -> None:
    """Give nodes the devices that they were drawn with, and the pods of roles their claims."""
    slices = [_slice(index, node.room.get(DEVICES, 0)) for index, node in enumerate(nodes)]
    case.objects[f"/apis/{_API}/resourceslices"] = slices
    for role, member in zip(roles, case.members, strict=True):
        number = role.request.get(DEVICES, 0)
        if not number:
            continue
        shared = rng.random() < 0.12
        name = f"of-{role.name}"
        case.namespaced.append(_claim(name, _request(rng, number), shared=shared))
        field = "resourceClaimName" if shared else "resourceClaimTemplateName"
        member.spec["resourceClaims"] = [{"name": "devices", field: name}]
        member.spec["containers"][0]["resources"]["claims"] = [{"name": "devices"}]


def _slice(index: int, devices: int) -> Manifest:
    name = f"@n{index}"
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{number}"} for number in range(devices)],
    }
    return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": f"@s{index}"}, "spec": spec}


def _request(rng: Random, number: int) -> Manifest:
    exactly = {"deviceClassName": _CLASS, "count": number}
    if rng.random() < 0.15:
        fewer = {"name": "fewer", "deviceClassName": _CLASS, "count": max(number - 1, 1)}
        return {"name": "some", "firstAvailable": [{"name": "all", **exactly}, fewer]}
    if rng.random() < 0.08:
        return {"name": "some", "exactly": {"deviceClassName": _CLASS, "allocationMode": "All"}}
    return {"name": "some", "exactly": exactly}


def _claim(name: str, request: Manifest, *, shared: bool) -> Manifest:
    spec = {"devices": {"requests": [request]}}
    kind = "ResourceClaim" if shared else "ResourceClaimTemplate"
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec if shared else {"spec": spec}}
