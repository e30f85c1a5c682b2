"""Helm takes away Services first and kinds that it does not know last, and so would leave an API server that asks
nobody for some seconds. So before anything else goes, these are deleted, by hooks that put nothing in their place:
first the net, which would hold pods that nobody prepares any more, then the webhooks.

Source: helm.sh/helm v3, pkg/releaseutil/kind_sorter.go and pkg/action/hooks.go: what bears the name of a hook is
deleted before the hook is made, and the hook once it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.installation.chart.features import ALWAYS, Feature, configurations, net
from webhook.installation.kustomize import Dump
from webhook.model.reading import Manifest

_HEAD = "# Made and deleted before anything else is, when the release is uninstalled.\n"


def uninstalling(features: Sequence[Feature], dump: Dump) -> str:
    """The template."""
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
