"""The webhooks of other projects' controllers, registered by URL for as long as a module needs them.

Each configuration gets one webhook more, which fails a ConfigMap with a label of its own: it shows when the API server
follows the configuration, and when it no longer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import httpx
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.neighbours.systems import System
from tests.e2e.programs import eventually

_LABEL = "tests.rollcall.dev/probe"
# Nothing listens there, so the answer comes at once.
_NOBODY = "https://127.0.0.1:1/"
_ROOT = "/apis/admissionregistration.k8s.io/v1"


def configurations(
    system: System, port: int, bundle: str, prefix: str = "", reinvocation: str = "Never"
) -> list[Manifest]:
    """The webhook configurations of a system's module, narrowed as its Kustomize files do. `prefix` goes before their
    names, which decide the order in which the API server calls mutating webhooks; `reinvocation` is their
    reinvocationPolicy.
    """
    folder = system.manifests
    if folder is None or not system.mutating:
        return []
    found = []
    for one in yaml.safe_load_all((folder / "webhooks.yaml").read_text()):
        name = prefix + (system.mutating if one["kind"].startswith("Mutating") else system.validating)
        hooks = list(_narrowed(system, one["webhooks"], port, bundle))
        if one["kind"].startswith("Mutating"):
            hooks = [{**hook, "reinvocationPolicy": reinvocation} for hook in hooks]
        found.append({**one, "metadata": {"name": name}, "webhooks": [*hooks, _probe(name)]})
    return found


def _narrowed(system: System, hooks: list[Manifest], port: int, bundle: str) -> Iterator[Manifest]:
    for hook in hooks:
        url = f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
        hook["clientConfig"] = {"url": url, "caBundle": bundle}
        if system.name == "kueue" and not any("kueue" in rule["apiGroups"][0] for rule in hook["rules"]):
            outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
            hook["namespaceSelector"] = {"matchExpressions": [{**outside, "values": ["kube-system", "kueue-system"]}]}
        if any(rule["resources"] == ["pods"] for rule in hook["rules"]) and system.pods_with:
            hook["objectSelector"] = {"matchExpressions": [{"key": system.pods_with, "operator": "Exists"}]}
        yield hook


def _probe(name: str) -> Manifest:
    return {
        "name": "probe.tests.example.com",
        "clientConfig": {"url": _NOBODY},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {_LABEL: name[:63]}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def register(plane: ControlPlane, wanted: list[Manifest]) -> None:
    """Have the API server call the webhooks; it does when this returns."""
    for one in wanted:
        plane.http.post(_path(one), json=one).raise_for_status()
    for one in wanted:
        eventually(partial(_followed, plane, one), f"the API server follows {one['metadata']['name']}")


def unregister(plane: ControlPlane, registered: list[Manifest]) -> None:
    """Have it call them no more; it does not when this returns."""
    for one in registered:
        answer = plane.http.delete(f"{_path(one)}/{one['metadata']['name']}")
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()
    for one in registered:
        eventually(partial(_forgotten, plane, one), f"the API server forgets {one['metadata']['name']}")


def _path(configuration: Manifest) -> str:
    return f"{_ROOT}/{configuration['kind'].lower()}s"


def _followed(plane: ControlPlane, configuration: Manifest) -> bool:
    metadata = {"generateName": "probe-", "labels": {_LABEL: configuration["metadata"]["name"][:63]}}
    answer = plane.http.post(
        "/api/v1/namespaces/default/configmaps", params={"dryRun": "All"}, json={"metadata": metadata}
    )
    assert answer.is_success or "probe.tests.example.com" in answer.text, answer.text
    return not answer.is_success


def _forgotten(plane: ControlPlane, configuration: Manifest) -> bool:
    return not _followed(plane, configuration)
