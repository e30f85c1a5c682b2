"""Hypothesis strategies, all in one place: names, JSON, PodCliqueSets and gang pods."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from webhook.validators.examples import clique, pod_clique_set, scaling_group

# DNS labels as Grove admits them: the set's, a scaling group's and a clique's name together have at most 45 characters.
dns_labels = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53)
numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
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
def gang_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods of a gang with all sorts of labels, annotations and fields of their own."""
    own = draw(st.dictionaries(dns_labels, dns_labels, max_size=3))
    labels = {
        **own,
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "demo",
        "grove.io/podclique": draw(dns_labels),
        "grove.io/podgang": draw(dns_labels),
        **draw(st.dictionaries(st.just("koordinator.sh/qosClass"), st.sampled_from(["LS", "BE"]), max_size=1)),
    }
    metadata: dict[str, Any] = {"generateName": "demo-", "namespace": "default", "labels": labels}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.none() | st.dictionaries(dns_labels, words, max_size=3))
    spec: dict[str, Any] = {"containers": [{"name": "main"}], "hostname": "demo-0", "subdomain": "demo"}
    if draw(st.booleans()):
        spec["schedulerName"] = draw(st.sampled_from(["default-scheduler", "koord-scheduler"]))
    if draw(st.booleans()):
        spec["schedulingGates"] = draw(st.lists(dns_labels.map(lambda name: {"name": name}), max_size=2))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


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
