"""The parts of the conformance kit: its samples, its patch function, and the setup of a suite."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from webhook.model.capabilities import Capability, capabilities_used
from webhook.model.claims import claims_on
from webhook.model.pod_template import Pod
from webhook.testing import BackendConformance
from webhook.testing.pods import Unapplicable, apply_patch
from webhook.testing.strategies import FOREIGN_CLAIMS, LONG, USES, claimed_pod, leaves, places
from webhook.testing.suite import faults
from webhook.workloads.pod_clique_set import PodCliqueSet

SAMPLES = [(capability, workload) for capability, workloads in USES.items() for workload in workloads]


@pytest.mark.parametrize("capability", list(Capability))
def test_there_is_a_sample_for_each_capability(capability: Capability) -> None:
    assert USES.get(capability)


@pytest.mark.parametrize(("capability", "workload"), SAMPLES, ids=[capability for capability, _ in SAMPLES])
def test_each_sample_uses_its_capability(capability: Capability, workload: Any) -> None:
    assert capability in capabilities_used(PodCliqueSet(deepcopy(workload)))


def test_the_long_samples_use_every_field_that_holds_a_name() -> None:
    asked = {capability for workload in LONG for capability in capabilities_used(PodCliqueSet(deepcopy(workload)))}
    assert asked == set(Capability) - {Capability.SCALE_GANG}


def test_the_claimed_pods_cover_every_key_of_a_claim() -> None:
    marks = {claim.key for sample in FOREIGN_CLAIMS for claim in claims_on(Pod(claimed_pod(*sample)).template)}
    everything = claimed_pod("labels", "x", "y")
    keys: dict[str, str] = dict.fromkeys(
        [
            "scheduling.x-k8s.io/pod-group", "kai.scheduler/subgroup-name", "pod-group.scheduling.sigs.k8s.io",
            "pod-group.scheduling.sigs.k8s.io/name", "scheduling.k8s.io/group-name",
            "scheduling.volcano.sh/group-name", "pod-group-name", "gang.scheduling.koordinator.sh/name",
        ],
        "x",
    )  # fmt: skip
    everything["metadata"] |= {"labels": keys, "annotations": {**keys, "kai.scheduler/skip-podgrouper": "true"}}
    everything["spec"] |= {"schedulingGroup": {"podGroupName": "x"}, "workloadRef": {"name": "x"}}
    # KAI's flag alone names no gang: a pod may have it before preparation writes it.
    assert {claim.key for claim in claims_on(Pod(everything).template)} - marks == {"kai.scheduler/skip-podgrouper"}


ADDED = {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a key without its parent": ({"metadata": {}}, "add the parent first"),
    "a key below null": ({"metadata": {"labels": None}}, "add the parent first"),
    "a map that is there": ({"metadata": {"labels": {"a/b": {"d": "e"}}}}, "replaces a whole map or list"),
}


def test_a_patch_is_applied_to_a_copy() -> None:
    before = {"metadata": {"labels": {"x": "y"}}}
    assert apply_patch(before, [ADDED]) == {"metadata": {"labels": {"x": "y", "a/b": "c"}}}
    assert before == {"metadata": {"labels": {"x": "y"}}}


def test_a_patch_can_append_to_a_list_but_not_insert() -> None:
    item = {"op": "add", "path": "/gates/-", "value": {"name": "mine"}}
    assert apply_patch({"gates": [{"name": "a"}]}, [item]) == {"gates": [{"name": "a"}, {"name": "mine"}]}
    with pytest.raises(Unapplicable, match="only be appended"):
        apply_patch({"gates": [{"name": "a"}]}, [{**item, "path": "/gates/0"}])


@pytest.mark.parametrize(("before", "why"), REFUSED.values(), ids=REFUSED)
def test_a_patch_that_is_too_large_is_refused(before: dict[str, Any], why: str) -> None:
    with pytest.raises(Unapplicable, match=why):
        apply_patch(before, [ADDED])


@pytest.mark.parametrize("operation", [{"op": "replace"}, {"op": "remove"}])
def test_a_patch_cannot_replace_missing_fields_or_remove_fields(operation: dict[str, str]) -> None:
    with pytest.raises(Unapplicable, match="cannot be applied"):
        apply_patch({"metadata": {"labels": {}}}, [{**ADDED, **operation}])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("the scheduler has none", []),
        ("Koordinator has none", []),
        ("GPUs are counted twice", []),
        ("The scheduler has none", ["starts with the capitalised word The"]),
        ("it has none.", ["ends in '.'"]),
        ("please use another!", ["has an exclamation mark or the word please"]),
        ("it has\nnone", ["is not a single line"]),
        ("", ["is empty"]),
    ],
)
def test_a_message_part_must_fit_into_a_sentence(text: str, fault: list[str]) -> None:
    assert list(faults(text, {"koordinator"})) == fault


def test_every_path_of_an_object_is_visited() -> None:
    value = {"a": [{"b": 1}, 2], "c": {}}
    assert list(leaves(value)) == [(("a", 0, "b"), 1), (("a", 1), 2)]
    assert list(places(value)) == [("a",), ("a", 0), ("a", 0, "b"), ("a", 1), ("c",)]


def test_a_suite_without_a_backend_fails_with_a_message() -> None:
    suite = type("TestMine", (BackendConformance,), {})()
    metafunc: Any = SimpleNamespace(fixturenames=["configuration"])
    with pytest.raises(pytest.UsageError, match="TestMine: set `backend`"):
        suite.pytest_generate_tests(metafunc)


def test_without_the_extra_the_import_says_what_to_install() -> None:
    program = """
import sys
for absent in ("pytest", "hypothesis"):
    there = sys.modules.pop(absent, None)
    sys.modules[absent] = None
    try:
        import webhook.testing
    except ImportError as error:
        print(error)
    del sys.modules[absent]
    if there is not None:
        sys.modules[absent] = there
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    to_do = "install it with `pip install 'rollcall[testing]'`"
    assert ran.stdout.splitlines() == [
        f"webhook.testing needs {absent}: {to_do}" for absent in ("pytest", "hypothesis")
    ]
