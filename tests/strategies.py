"""Hypothesis strategies of our own tests: JSON, reviews and PodCliqueSets. Names and pods of gangs are drawn by the
conformance kit (`webhook.testing.strategies`).
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from webhook.testing.strategies import dns_labels, words
from webhook.validators.examples import clique, pod_clique_set, scaling_group

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53)
numbers = st.floats(allow_nan=False, allow_infinity=False)
# Keys that rules and views look for, so that broken values land where they are read.
_KEYS = st.sampled_from(
    [
        "metadata", "name", "namespace", "labels", "annotations", "spec", "template", "cliques", "podSpec",
        "containers", "initContainers", "resources", "requests", "limits", "nvidia.com/gpu", "cpu",
        "replicas", "minAvailable", "podCliqueScalingGroups", "cliqueNames",
        "topologyConstraint", "pack", "required", "preferred", "packDomain",
        "resourceClaims", "schedulerName", "schedulingGates", "priorityClassName", "priority", "deletionTimestamp",
        "grove.io/mnnvl-group", "rollcall.dev/scheduler", "koordinator.sh/qosClass", "grove.io/podgang",
        "grove.io/podclique", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "podgroups", "podReferences",
    ]
)  # fmt: skip
_VALUES = st.sampled_from(["grove-operator", "koord-scheduler", "demo", "LSR", "none", "enabled", "1500m", "0"])
json_values = st.recursive(
    scalars | numbers | words | _VALUES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(_KEYS | words, below, max_size=6),
    max_leaves=30,
)
json_objects = st.dictionaries(_KEYS | words, json_values, max_size=8)


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """AdmissionReviews whose objects are anything."""
    kind = draw(
        st.sampled_from(
            [
                {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
                {"group": "", "version": "v1", "kind": "Pod"},
                {"group": "apps", "version": "v1", "kind": "Deployment"},
            ]
        )
    )
    return {
        "apiVersion": draw(st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])),
        "kind": "AdmissionReview",
        "request": {
            "uid": draw(st.uuids().map(str)),
            "kind": kind,
            "operation": draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"])),
            "namespace": draw(dns_labels),
            "object": draw(st.none() | json_objects),
            "oldObject": draw(st.none() | json_objects),
        },
    }


@st.composite
def pod_clique_sets(draw: st.DrawFn) -> dict[str, Any]:
    """PodCliqueSets that Grove would admit, some of which ask for what Koordinator cannot do."""
    names = draw(st.lists(dns_labels, min_size=1, max_size=4, unique=True))
    nvlink = st.dictionaries(st.just("grove.io/mnnvl-group"), st.sampled_from(["train", "none"]), max_size=1)
    topology = st.none() | st.sampled_from(["block", "host"]).map(lambda domain: {"pack": {"required": domain}})
    cliques = [
        clique(
            name,
            replicas=draw(st.integers(1, 5)),
            requests=draw(st.sampled_from([None, {"nvidia.com/gpu": "8"}])),
            annotations=draw(nvlink),
            topologyConstraint=draw(topology),
        )
        for name in names
    ]
    grouped = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    groups = [scaling_group("group", *grouped, topologyConstraint=draw(topology))] if grouped else []
    return pod_clique_set(*cliques, groups=groups, annotations=draw(nvlink))
