"""The check of what the configuration says of nodes to come: a gang is called never only where that is true."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.deployments import images
from webhook.doctor.examples import configured, deployment, installed, thing
from webhook.doctor.parts import AUTOSCALER_STATUS, DEPLOYMENTS, NODE_POOLS
from webhook.doctor.snapshot import Snapshot
from webhook.fit.settings import Growth
from webhook.model.projections import key_of
from webhook.model.reading import Manifest

# By the end of an image's name, without its tag.
_AUTOSCALERS = re.compile(r"(^|/)(cluster-autoscaler(-[a-z0-9]+)?|karpenter(/controller)?|karpenter-controller)$")
_IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.37.0"


def _status() -> Manifest:
    found = thing("v1", "ConfigMap", "cluster-autoscaler-status")
    found["metadata"]["namespace"] = "kube-system"
    return found


@check(
    "fit/growth",
    level=Level.WARNING,
    passes=lambda: installed(_status(), deployment("cluster-autoscaler", _IMAGE)),
    fails=lambda: installed(_status(), settings=configured(fit={"nodes": "fixed"})),
)
def growth(snapshot: Snapshot) -> Symptoms:
    """The configuration says that the nodes are fixed only where no autoscaler is seen, and an autoscaler that runs is
    one that Rollcall sees. Otherwise a gang is called never to fit these nodes, although others may come for it.
    Rollcall sees the ConfigMap kube-system/cluster-autoscaler-status, NodePools of Karpenter, and machines of Cluster
    API that are scaled; an autoscaler may write its status elsewhere, or none.

    Source: kubernetes/autoscaler, cluster-autoscaler/clusterstate/utils/status.go; webhook/fit/growth.py.
    """
    fit = snapshot.settings.fit
    if fit.templates or fit.nodes is Growth.MAY_GROW:
        return
    seen = next(_seen(snapshot), None)
    if fit.nodes is Growth.FIXED:
        if (where := seen or next(_running(snapshot), None)) is not None:
            yield _symptom(where, "the configuration says fit.nodes: fixed, and this adds nodes")
    elif seen is None and (where := next(_running(snapshot), None)) is not None:
        yield _symptom(where, "it runs, and neither its status nor a NodePool is found, so the nodes count as fixed")


def _symptom(where: str, found: str) -> Symptom:
    why = "a gang may be called never to fit, although nodes come for it"
    remedy = "set fit.nodes to mayGrow, or list the node groups in fit.templates: then gangs are judged by them"
    return Symptom(where, found, why, remedy)


def _seen(snapshot: Snapshot) -> Iterator[str]:
    """What is seen of autoscalers."""
    yield from (f"ConfigMap {'/'.join(key_of(raw))}" for raw in snapshot.all(AUTOSCALER_STATUS))
    yield from (f"NodePool {key_of(raw)[1]}" for raw in snapshot.all(NODE_POOLS))


def _running(snapshot: Snapshot) -> Iterator[str]:
    """The Deployments of autoscalers."""
    for raw in snapshot.all(DEPLOYMENTS):
        if any(_AUTOSCALERS.search(image) for image, _ in images(raw)):
            yield f"Deployment {'/'.join(key_of(raw))}"
