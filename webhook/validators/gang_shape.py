"""The rule that checks each pod of a gang against the members of its PodGang, for every scheduler."""

from __future__ import annotations

from typing import Any

from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import PodGangFacts
from webhook.model.reading import Manifest
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.pod_guard import asks_facts
from webhook.validators.registry import Context, Example, Results, Subject, rule

_KNOWN = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))})


def _pod(podclique: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{podclique}-",
            "namespace": "default",
            "labels": {
                grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
                grove.LABEL_PART_OF: "demo",
                grove.LABEL_PODGANG: "demo-0",
                grove.LABEL_PODCLIQUE: podclique,
            },
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
    }


@rule(
    "grove/pod-outside-gang",
    looks_at=(grove.LABEL_PODGANG,),
    subject=Subject.POD,
    membership=True,
    guard=asks_facts("pod_gangs"),
    passes=Example(_pod("demo-0-worker"), facts=_KNOWN),
    fails=Example(_pod("demo-0-stranger"), facts=_KNOWN),
)
def pod_outside_gang(pod: PodTemplate, context: Context[Any]) -> Results:
    """A pod whose PodClique is not a member of its PodGang has no group in the scheduler's objects, so it waits for a
    group that is never written. An unknown PodGang is not refused, because Grove writes PodGangs and pods at the same
    time.

    Source: ai-dynamo/grove, operator/internal/controller/podcliqueset/components/podgang/syncflow.go (members are named
    when the PodGang is created; only their pods are added later).
    """
    podgang, podclique = pod.labels.get(grove.LABEL_PODGANG), pod.labels.get(grove.LABEL_PODCLIQUE)
    if context.workload is not None or podgang is None or podclique is None:
        return
    known = (context.facts.pod_gangs or {}).get((context.namespace, podgang))
    if known is None:
        return
    if known.cliques is None:
        yield Unjudged(
            pod.labels_path / grove.LABEL_PODCLIQUE, f"the members of PodGang {podgang}, which are too many to keep"
        )
    elif podclique not in known.cliques:
        yield Finding(
            at=pod.labels_path / grove.LABEL_PODCLIQUE,
            found=podclique,
            why=f"the PodGang {podgang} has no such member, so the scheduler has no group for the pod",
            remedy="let Grove create the pods of its PodCliques, or name the PodGang that has this PodClique",
            absent=Needed("pod_gangs", (context.namespace, podgang)),
        )
