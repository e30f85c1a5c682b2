"""The rule about the creator of a pod that has Grove's labels. Anyone can write these labels."""

from __future__ import annotations

from typing import Any

from webhook.model import grove
from webhook.model.findings import Action, Finding, shown
from webhook.model.reading import Manifest
from webhook.model.users import service_account
from webhook.validators.registry import Context, Example, PodCreation, Results, Subject, rule

_POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "stranger",
        "namespace": "default",
        "labels": {
            grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
            grove.LABEL_PART_OF: "demo",
            grove.LABEL_PODGANG: "demo-0",
            grove.LABEL_PODCLIQUE: "demo-0-worker",
        },
    },
    "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
}


@rule(
    "grove/foreign-pod",
    subject=Subject.POD_CREATION,
    default=Action.WARN,
    membership=True,
    passes=Example(_POD, user=service_account("grove-system", "grove-operator")),
    fails=Example(_POD, user="alice"),
)
def foreign_pod(creation: PodCreation, _: Context[Any]) -> Results:
    """A pod with Grove's labels is prepared for the gang in these labels, and schedulers count it. Grove's operator
    creates all pods of a gang, so a pod of another user takes a place in the gang or blocks it. The rule only warns,
    because the labels give the author no new right: a user who may create pods may also write a scheduler's labels. If
    the creator is unknown, as for a file, the rule reports nothing.

    Source: ai-dynamo/grove, operator/internal/controller/podclique/components/pod (creates the pods of a PodClique),
    operator/charts/values.yaml (`serviceAccount.name`).
    """
    podgang, podclique = (creation.pod.labels.get(key) for key in (grove.LABEL_PODGANG, grove.LABEL_PODCLIQUE))
    if podgang is None or podclique is None:
        return
    yield Finding(
        at=creation.pod.labels_path / grove.LABEL_PODGANG,
        found=podgang,
        why=f"{shown(creation.user)} created this pod, and not Grove's operator",
        remedy="remove Grove's labels, or add that user to tenancy.groveOperators",
    )
