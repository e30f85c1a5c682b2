"""Rules about fields that the kind of an object does not have. They judge files only: an API server drops such fields
before it calls a webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model import grove
from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.field_names import ITEMS, OBJECT_META, KindFields
from webhook.model.findings import Action, Finding
from webhook.model.keys import Api
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

_POD_SPEC = {"containers": None, "schedulerName": None}
_CLIQUE = {"name": None, "spec": {"roleName": None, "replicas": None, "minAvailable": None, "podSpec": _POD_SPEC}}
_SET = {"replicas": None, "template": {"cliques": {ITEMS: _CLIQUE}}}
_NAMES = {"apiVersion": None, "kind": None, "metadata": OBJECT_META, "spec": _SET}
# Part of the fields of a PodCliqueSet.
_FACTS = ClusterFacts(
    field_names={Api(grove.GROUP, "v1alpha1", "PodCliqueSet"): KindFields(_NAMES, "Grove v0.1.0-alpha.12-rc1")}
)


def _misspelt() -> dict[str, Any]:
    found = clique("worker")
    found["spec"]["minAvailabe"] = 2
    return found


# What does the work of a field that a later release has no more: by group, the field above it, and its name.
_REMOVED: Mapping[tuple[str, ...], str] = {
    # Up to v2.1 of Trainer (TorchMLPolicySource).
    ("trainer.kubeflow.org", "torch", "numProcPerNode"): (
        "remove it, as Trainer has done in v2.2, and set spec.trainer.numProcPerNode in the TrainJob"
    ),
}


@rule(
    "fields/unknown",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", minimum=2)), facts=_FACTS),
    fails=Example(pod_clique_set(_misspelt()), facts=_FACTS),
)
def unknown_field(found: AnyObject, _: Context[Any]) -> Results:
    """The API server drops a field that the kind does not have, or refuses the object if the client asks for strict
    validation. A dropped field has no effect, and its default applies instead.

    Source: pruning of structural schemas (k8s.io/apiextensions-apiserver); `kubectl apply --validate`. The field names
    are those of a CRD in `--schemas` or `--facts`, else those of known releases (webhook/sources/field_lists.json).
    """
    for field in found.unknown_fields:
        if field.belongs is None:
            meant = f"did you mean {field.likely}? rename it" if field.likely else "remove it, or correct its name"
            meant = _REMOVED.get((found.kind.group, *map(str, field.at.parts[-2:])), meant)
            yield Finding(at=field.at, found=field.value, why=_why(found.fields or found.pod_fields), remedy=meant)


@rule(
    "fields/misplaced",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod={"schedulerName": "koord-scheduler"})), facts=_FACTS),
    fails=Example(pod_clique_set(schedulerName="koord-scheduler"), facts=_FACTS),
)
def misplaced_field(found: AnyObject, _: Context[Any]) -> Results:
    """The kind has a field of that name, but at another place. Where it is written, the API server drops it or refuses
    the object.

    Source: pruning of structural schemas (k8s.io/apiextensions-apiserver), as for `fields/unknown`.
    """
    for field in found.unknown_fields:
        if field.belongs is not None:
            meant = f"did you mean {field.belongs}? move it there"
            yield Finding(at=field.at, found=field.value, why=_why(found.fields or found.pod_fields), remedy=meant)


def _why(fields: KindFields | None) -> str:
    origin = "its kind" if fields is None else fields.origin
    return f"{origin} has no such field here, so the API server drops it or refuses the object"
