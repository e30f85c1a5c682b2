"""The creator of a pod that has Grove's labels. Anyone can write these labels."""

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
    passes=Example(_POD, user=service_account("grove-system", "grove-operator")),
    fails=Example(_POD, user="alice"),
)
def foreign_pod(creation: PodCreation, _: Context[Any]) -> Results:
    """A pod with Grove's labels is prepared for the gang that they name, and schedulers count it. Grove's operator
    creates all pods of a gang; one of another user takes a place in the gang, or holds it up. It is a warning, because
    it has no right that its author lacks: whoever may create pods may write a scheduler's labels, too. Where nobody is
    known to have created the pod, as in a file, nothing is said.

    Source: ai-dynamo/grove, operator/internal/controller/podclique/components/pod (creates the pods of a PodClique),
    operator/charts/values.yaml (`serviceAccount.name`).
    """
    podgang, podclique = (creation.pod.labels.get(key) for key in (grove.LABEL_PODGANG, grove.LABEL_PODCLIQUE))
    if podgang is None or podclique is None:
        return
    yield Finding(
        at=creation.pod.labels_path / grove.LABEL_PODGANG,
        found=podgang,
        why=f"Grove's operator did not create this pod, {shown(creation.user)} did",
        remedy="remove Grove's labels, or name that user in tenancy.groveOperators",
    )
