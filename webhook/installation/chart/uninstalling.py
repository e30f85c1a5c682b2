"""Deletes the net and the webhooks before an uninstall.

Helm deletes Services first and unknown kinds last. For some seconds the API server would call missing servers. So
pre-delete hooks with the names of these objects remove them before everything else: first the net, which would hold
pods that are no longer prepared, then the webhooks.

Source: helm.sh/helm v3, pkg/releaseutil/kind_sorter.go and pkg/action/hooks.go: an object with the name of a hook is
deleted before the hook is created, and the hook after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.installation.chart.features import ALWAYS, Feature, configurations, net
from webhook.installation.kustomize import Dump
from webhook.model.reading import Manifest

_HEAD = "# Made and deleted before anything else is, when the release is uninstalled.\n"


def uninstalling(features: Sequence[Feature], dump: Dump) -> str:
    """The text of the template."""
    (always,) = (feature for feature in features if feature.name == ALWAYS)
    return _HEAD + "".join(f"---\n{dump(hook)}" for hook in _hooks(always))


def _hooks(feature: Feature) -> Iterator[Manifest]:
    for manifest in (*net(feature.settings), *configurations(feature.settings)):
        if manifest["kind"].endswith("WebhookConfiguration"):
            yield _hook(manifest, 1, webhooks=[])
        elif manifest["kind"].endswith("PolicyBinding"):
            spec = manifest["spec"]
            yield _hook(manifest, 0, spec={"policyName": spec["policyName"], "validationActions": ["Audit"]})


def _hook(manifest: Manifest, weight: int, **content: object) -> Manifest:
    annotations = {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    metadata = {**manifest["metadata"], "annotations": annotations}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata, **content}
