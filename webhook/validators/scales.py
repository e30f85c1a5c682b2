"""Rules about `/scale` of PodCliques and PodCliqueScalingGroups. They only warn: an autoscaler shows nobody a refusal,
and Grove stores what they are about.
"""

from __future__ import annotations

from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.keys import Record, Scalable
from webhook.model.reading import Manifest
from webhook.model.scale import ScaleChange
from webhook.validators.registry import Context, Example, Results, Subject, rule

_AT = SPEC / "replicas"
_LEADER, _WORKER = Scalable("leader", 1), Scalable("worker", 2)
_FACTS = ClusterFacts(
    pod_clique_sets={
        ("default", "demo"): Record(
            "koord-scheduler",
            scalable=(Scalable("router", 2, most=4), Scalable("decode", 2, cliques=(_LEADER, _WORKER))),
        )
    }
)


def _scale(name: str, replicas: int) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


def _example(name: str, old: int, new: int) -> Example:
    return Example(_scale(name, new), _scale(name, old), facts=_FACTS)


@rule(
    "grove/scale-below-minimum",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-router", 4, 2),
    fails=_example("demo-0-router", 4, 1),
)
def below_minimum(scale: ScaleChange, _: Context[Any]) -> Results:
    """The minimum of a gang is fixed when its PodCliqueSet is created. If a PodClique or a PodCliqueScalingGroup is
    scaled below its minAvailable, the gang has too few pods for good: its scheduler cannot start it again as a whole,
    and Grove ends the gang after its terminationDelay.

    Source: ai-dynamo/grove, operator/internal/controller/podclique and podcliquescalinggroup (reconcilestatus.go:
    MinAvailableBreached); operator/internal/webhook/admission/pcs/validation (minAvailable is immutable).
    """
    minimum = scale.target.minimum
    if scale.new < minimum and scale.new < scale.old:
        needed = "replicas of this scaling group" if scale.is_of_group else "of these pods"
        yield Finding(
            at=_AT,
            found=scale.new,
            why=f"the gang needs {minimum} {needed}, so Grove ends it after its terminationDelay",
            remedy=f"keep {minimum} or more, or scale or delete the PodCliqueSet",
            instead=(minimum,),
        )


@rule(
    "grove/scale-of-member",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-decode", 2, 3),
    fails=_example("demo-0-decode-1-worker", 2, 3),
)
def of_member(scale: ScaleChange, _: Context[Any]) -> Results:
    """The replicas of a scaling group are alike. A PodClique that is scaled alone makes one of them different, until
    Grove creates it again from the template. Grove refuses an autoscaler of such a PodClique.

    Source: ai-dynamo/grove, operator/internal/controller/podcliquescalinggroup/components/podclique (keeps the number
    of a PodClique that exists); operator/internal/webhook/admission/pcs/validation (autoScalingConfig).
    """
    if scale.group is not None and scale.new != scale.old:
        yield Finding(
            at=_AT,
            found=scale.new,
            why=f"this PodClique is in the scaling group {scale.group}, so only one replica of the group changes",
            remedy=f"scale podcliquescalinggroup {scale.group}",
        )


@rule(
    "kueue/scale-above-group",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-router", 3, 4),
    fails=_example("demo-0-router", 4, 5),
)
def above_group(scale: ScaleChange, _: Context[Any]) -> Results:
    """A pod group of Kueue has a fixed number of pods. Kueue deletes the pods above it, and Grove creates them again.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`removeExcessPods`).
    """
    most = scale.target.most
    if most is not None and scale.new > max(most, scale.old):
        yield Finding(
            at=_AT,
            found=scale.new,
            why=f"the pods are in a pod group of Kueue with room for {most}, and Kueue deletes those above",
            remedy="make another PodCliqueSet, or take these pods out of the pod group",
        )
