"""Which nodes a pod may use: every operator, and the sound side of what cannot be judged."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.fit.pod_needs import EVERYTHING, Eligibility, Toleration
from webhook.model.nodes import Taint
from webhook.model.reading import Malformed

LABELS = {"pool": "a", "gpus": "8", "odd": "8x", "empty": ""}


def eligible(spec: dict[str, Any], *taints: Taint, stored: bool = True, name: str = "n1", **more: Any) -> bool:
    return Eligibility.from_spec(spec, stored=stored, **more).admits(name, LABELS, taints)


def terms(*found: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(found)}}
    return {"affinity": {"nodeAffinity": required}}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


AFFINITY: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing is required": ({}, True),
    "a selector that holds": ({"nodeSelector": {"pool": "a"}}, True),
    "a selector of another value": ({"nodeSelector": {"pool": "b"}}, False),
    "a selector of a missing label": ({"nodeSelector": {"rack": "r1"}}, False),
    "a selector of the empty value": ({"nodeSelector": {"empty": ""}}, True),
    "a selector and a term": ({"nodeSelector": {"pool": "b"}, **terms(label("pool", "In", "a"))}, False),
    "In": (terms(label("pool", "In", "b", "a")), True),
    "In another": (terms(label("pool", "In", "b")), False),
    "In of a missing label": (terms(label("rack", "In", "r1")), False),
    "In without values": (terms(label("pool", "In")), False),
    "NotIn": (terms(label("pool", "NotIn", "a")), False),
    "NotIn of a missing label": (terms(label("rack", "NotIn", "r1")), True),
    "Exists": (terms(label("pool", "Exists")), True),
    "Exists of a missing label": (terms(label("rack", "Exists")), False),
    "DoesNotExist": (terms(label("pool", "DoesNotExist")), False),
    "DoesNotExist of a missing label": (terms(label("rack", "DoesNotExist")), True),
    "Gt": (terms(label("gpus", "Gt", "7")), True),
    "Gt the same": (terms(label("gpus", "Gt", "8")), False),
    "Lt with a sign": (terms(label("gpus", "Lt", "+9")), True),
    "Lt of a missing label": (terms(label("rack", "Lt", "9")), False),
    "Gt of no number": (terms(label("odd", "Gt", "1")), False),
    "Gt with blanks": (terms(label("gpus", "Gt", " 7")), False),
    "Gt beyond 64 bits": (terms(label("gpus", "Gt", "-9223372036854775809")), False),
    "Gt of two values": (terms(label("gpus", "Gt", "1", "2")), False),
    "an operator of the future": (terms(label("pool", "Near", "z")), True),
    "no terms": (terms(), False),
    "an empty term": (terms({}), False),
    "an empty term beside one that holds": (terms({}, label("pool", "Exists")), True),
    "one of two terms": (terms(label("pool", "In", "b"), label("pool", "In", "a")), True),
    "both of two requirements": (
        terms({"matchExpressions": [*label("pool", "Exists")["matchExpressions"], {"key": "x", "operator": "Exists"}]}),
        False,
    ),
    "the name": (terms(field("In", "n1")), True),
    "another name": (terms(field("In", "n2")), False),
    "not the name": (terms(field("NotIn", "n1")), False),
    "an unknown field": (terms(field("In", "x", key="spec.x")), True),
}


@pytest.mark.parametrize(("spec", "admitted"), AFFINITY.values(), ids=AFFINITY)
def test_a_node_is_admitted_by_its_labels_and_its_name(spec: dict[str, Any], admitted: bool) -> None:
    assert eligible(spec) is admitted


GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
TAINTS: dict[str, tuple[dict[str, str], Taint, bool]] = {
    "the same key, value and effect": (
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        GPU_TAINT,
        True,
    ),
    "no effect means every effect": ({"key": "nvidia.com/gpu", "value": "present"}, GPU_TAINT, True),
    "another effect": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, GPU_TAINT, False),
    "no operator means Equal": ({"key": "nvidia.com/gpu"}, GPU_TAINT, False),
    "Equal of another value": ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "x"}, GPU_TAINT, False),
    "Exists": ({"key": "nvidia.com/gpu", "operator": "Exists"}, GPU_TAINT, True),
    "Exists without a key": ({"operator": "Exists"}, GPU_TAINT, True),
    "another key": ({"key": "amd.com/gpu", "operator": "Exists"}, GPU_TAINT, False),
    "Gt, whose gate may be on": ({"key": "nvidia.com/gpu", "operator": "Gt", "value": "9"}, GPU_TAINT, True),
    "Gt of another key": ({"key": "amd.com/gpu", "operator": "Lt", "value": "9"}, GPU_TAINT, False),
    "an operator of the future": ({"key": "nvidia.com/gpu", "operator": "Near"}, GPU_TAINT, True),
    "an effect of the future": ({"key": "x"}, Taint("a", "", "NoBind"), True),
}


@pytest.mark.parametrize(("toleration", "taint", "admitted"), TAINTS.values(), ids=TAINTS)
def test_a_toleration_matches_as_in_kubernetes(toleration: dict[str, str], taint: Taint, admitted: bool) -> None:
    assert eligible({"tolerations": [toleration]}, taint) is admitted


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/disk-pressure",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/unregistered",
        "startup-taint.cluster-autoscaler.kubernetes.io/driver",
        "ebs.csi.aws.com/agent-not-ready",
    ],
)
def test_a_taint_that_passes_blocks_nothing(key: str) -> None:
    assert eligible({}, Taint(key, "", "NoExecute"))
    assert not eligible({}, Taint("team", "", "NoExecute"))


def test_admission_adds_tolerations_to_a_template_only() -> None:
    assert eligible({}, GPU_TAINT, stored=False, resources=["nvidia.com/gpu"])
    assert not eligible({}, GPU_TAINT, stored=True, resources=["nvidia.com/gpu"])
    assert not eligible({}, Taint("team", "", "NoSchedule"), stored=False, resources=["nvidia.com/gpu"])
    assert eligible({"runtimeClassName": "kata"}, Taint("team", "", "NoSchedule"), stored=False)
    assert not eligible({"runtimeClassName": "kata"}, Taint("team", "", "NoSchedule"), stored=True)


def test_a_node_that_does_not_exist_yet_may_have_any_name_and_any_unknown_label() -> None:
    asked = Eligibility.from_spec(
        {"nodeSelector": {"kubernetes.io/hostname": "n9"}, **terms(field("In", "n9"))}, stored=True
    )
    assert not asked.admits(None, LABELS, ())
    assert asked.admits(None, LABELS, (), frozenset({"kubernetes.io/hostname"}))


def test_the_keys_that_are_read_are_those_of_labels() -> None:
    asked = Eligibility.from_spec(
        {"nodeSelector": {"pool": "a"}, **terms(label("rack", "Exists"), field("In", "n1"))}, stored=True
    )
    assert asked.keys == frozenset({"pool", "rack"})


def test_a_scheduler_without_a_filter_does_not_read_its_part() -> None:
    asked = Eligibility.from_spec({"nodeSelector": {"pool": "b"}, "tolerations": [{"key": "x"}]}, stored=True)
    assert asked.relax(affinity=True, taints=True) == Eligibility(tolerations=(EVERYTHING,))
    assert asked.relax(affinity=True, taints=False) == Eligibility(tolerations=(Toleration("x", "", "", ""),))
    assert asked.relax(affinity=False, taints=True) == Eligibility((("pool", "b"),), tolerations=(EVERYTHING,))


def test_what_is_too_large_to_be_judged_admits_every_node() -> None:
    assert eligible(terms(*(label("pool", "In", f"b{index}") for index in range(65))))
    assert eligible(terms(label("pool", "In", *(f"b{index}" for index in range(5000)))))
    # Each value is looked for on each kind of nodes.
    (term,) = Eligibility.from_spec(terms(label("pool", "In", "a", "b")), stored=True).terms or ()
    assert isinstance(term[0].values, frozenset)
    assert eligible({"tolerations": [{"key": f"k{index}"} for index in range(257)]}, GPU_TAINT)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": ["a"]},
        {"nodeSelector": {"pool": 1}},
        {"affinity": {"nodeAffinity": 3}},
        {"tolerations": {"key": "a"}},
        terms({"matchExpressions": [{"key": "pool", "operator": "In", "values": "a"}]}),
    ],
)
def test_a_field_of_another_type_is_malformed(spec: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        Eligibility.from_spec(spec, stored=True)
