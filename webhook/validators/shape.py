"""The rule for an object that cannot be read, because fields of it have the wrong type. It is run in place of all
others.
"""

from __future__ import annotations

from typing import Any

from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set
from webhook.validators.owner_shape import SHAPES as OF_OWNERS
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.wrong_types import METADATA, POD_SPEC, WORDS, said_of

# The fields that are read, by the type they must have.
_CONSTRAINT: dict[str, Any] = {
    "topologyName": str,
    "packDomain": str,
    "pack": {"required": str, "preferred": str},
}
_PACK: dict[str, Any] = {"packConstraint": {"required": str, "preferred": str}}
_POD_CLIQUE_SET: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicas": int,
        "template": {
            "priorityClassName": str,
            "topologyConstraint": _CONSTRAINT,
            "resourceClaimTemplates": [{}],
            "resourceSharing": [{}],
            "cliques": [
                {
                    "name": str,
                    "labels": WORDS,
                    "annotations": WORDS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [{}],
                    "spec": {"replicas": int, "minAvailable": int, "podSpec": POD_SPEC},
                }
            ],
            "podCliqueScalingGroups": [
                {
                    "name": str,
                    "annotations": WORDS,
                    "cliqueNames": [str],
                    "replicas": int,
                    "minAvailable": int,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [{}],
                }
            ],
        },
    },
}
_POD_GANG: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "topologyConstraint": _PACK,
        "topologyConstraintGroupConfigs": [{"name": str, "topologyConstraint": _PACK}],
        "podgroups": [{"name": str, "minReplicas": int, "podReferences": [{}], "topologyConstraint": _PACK}],
    },
}
_SHAPES: dict[str, Any] = {
    "PodCliqueSet": _POD_CLIQUE_SET,
    "PodGang": _POD_GANG,
    "Pod": {"metadata": METADATA, "spec": POD_SPEC},
}


@rule(
    "grove/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "spec": {"replicas": "one", "template": {"cliques": [{"name": "worker"}]}}}),
)
def shape(manifest: Manifest, _: object) -> Results:
    """A field of the wrong type cannot be judged, and taken for absent it would pass in silence.

    Source: the CRDs of grove.io/v1alpha1 and scheduler.grove.io/v1alpha1; in a cluster the API server refuses such an
    object by its schema, but only after mutation, and nobody does for a file on the command line.
    """
    kind = str(manifest.get("kind"))
    if kind not in OF_OWNERS:
        yield from said_of(manifest, _SHAPES.get(kind, {}))
