"""The rules for an object that cannot be read because its fields have the wrong type. They run instead of all other
rules.

They check only the fields that are read, with the required type of each. A backend declares the fields that it reads of
its scheduler's own objects (`Backend.shapes`).
"""

from __future__ import annotations

from typing import Any

from webhook.model import grove
from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set
from webhook.validators.opted_in_shape import SHAPES as OF_OPTED_IN_KINDS
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.wrong_types import METADATA, POD_SPEC, WORDS, Unreadable, said_of

_CONSTRAINT: dict[str, Any] = {
    "topologyName": str,
    "packDomain": str,
    "pack": {"required": str, "preferred": str},
}
_SHARING: dict[str, Any] = {
    "name": str,
    "namespace": str,
    "scope": str,
    "filter": {"childCliqueNames": [str], "childScalingGroupNames": [str]},
}
_LIMITS: dict[str, Any] = {"minReplicas": int, "maxReplicas": int}
_PACK: dict[str, Any] = {"packConstraint": {"required": str, "preferred": str}}
_POD_CLIQUE_SET: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicas": int,
        "template": {
            "priorityClassName": str,
            "cliqueStartupType": str,
            "topologyConstraint": _CONSTRAINT,
            "terminationDelay": str,
            "resourceClaimTemplates": [{"name": str, "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}],
            "resourceSharing": [_SHARING],
            "cliques": [
                {
                    "name": str,
                    "labels": WORDS,
                    "annotations": WORDS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [_SHARING],
                    "spec": {
                        "roleName": str,
                        "replicas": int,
                        "minAvailable": int,
                        "startsAfter": [str],
                        "autoScalingConfig": _LIMITS,
                        "podSpec": POD_SPEC,
                    },
                }
            ],
            "podCliqueScalingGroups": [
                {
                    "name": str,
                    "annotations": WORDS,
                    "cliqueNames": [str],
                    "replicas": int,
                    "minAvailable": int,
                    "scaleConfig": _LIMITS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [_SHARING],
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
_SHAPES: dict[tuple[str, str], Any] = {
    (grove.GROUP, "PodCliqueSet"): _POD_CLIQUE_SET,
    (grove.SCHEDULER_GROUP, "PodGang"): _POD_GANG,
    ("", "Pod"): {"metadata": METADATA, "spec": POD_SPEC},
}


def _pod_group(labels: Any) -> Manifest:
    """A PodGroup of Koordinator."""
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    metadata = {"name": "demo", "namespace": "default", "labels": labels}
    return {**head, "metadata": metadata, "spec": {"minMember": 2}}


@rule(
    "grove/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "spec": {"replicas": "one", "template": {"cliques": [{"name": "worker"}]}}}),
)
def shape(found: Unreadable, _: object) -> Results:
    """A field of the wrong type cannot be judged. If it counted as missing, the object would pass without a message.

    Source: the CRDs of grove.io/v1alpha1 and scheduler.grove.io/v1alpha1; in a cluster the API server refuses such an
    object by its schema, but only after mutation. A file on the command line has no such check.
    """
    if found.kind in _SHAPES:
        yield from said_of(found.manifest, _SHAPES[found.kind])


@rule(
    "rollcall/object-shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(_pod_group({"team": "a"})),
    fails=Example(_pod_group(["team-a"])),
)
def object_shape(found: Unreadable, _: object) -> Results:
    """A field of the wrong type in a gang object cannot be judged. If it counted as missing, the object would pass
    without a message.

    Source: the CRDs of Koordinator, KAI and Volcano, and k8s.io/api scheduling; in a cluster the API server refuses
    such an object by its schema. A file on the command line has no such check.
    """
    if found.kind not in _SHAPES and found.kind not in OF_OPTED_IN_KINDS and not found.is_declared:
        yield from said_of(found.manifest, {"metadata": METADATA, "spec": {}, **found.shape})
