"""What a pod requests, by the arithmetic of each scheduler. The table is that of PodRequests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.fit.gangs import single
from webhook.fit.packing import COSCHEDULING, KAI, KOORDINATOR, KUBE, VOLCANO, FitSettings, PodReading, needs_of
from webhook.fit.resource_requests import GPU_MEMORY, GPU_PARTS, is_best_effort, requests_of
from webhook.model.fields import SPEC
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Malformed
from webhook.workloads.opted_in_workload import TemplatePlace

GPU = "nvidia.com/gpu"
GI = 1024**3


def template(spec: dict[str, Any], **annotations: Any) -> PodTemplate:
    noted = {key.replace("_", "-"): value for key, value in annotations.items()}
    return PodTemplate({"annotations": noted}, spec, TemplatePlace(SPEC))


def asks(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}, **more}


def sidecar(requests: dict[str, Any]) -> dict[str, Any]:
    return asks(requests, restartPolicy="Always")


def requested(
    spec: dict[str, Any], reading: PodReading = KUBE, *, stored: bool = False, **noted: Any
) -> dict[str, int]:
    found, _ = requests_of(template(spec, **noted), reading.requests, stored=stored)
    assert found.pop("pods") == 1
    return found


GOLDEN: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "no request": ({"containers": [{}]}, {}),
    "the sum of containers": (
        {"containers": [asks({"cpu": "1500m", "memory": "1Gi"}), asks({"cpu": "1"})]},
        {"cpu": 2500, "memory": GI},
    ),
    "an init container that needs more": (
        {"containers": [asks({"cpu": "1"})], "initContainers": [asks({"cpu": "3"}), asks({"cpu": "2"})]},
        {"cpu": 3000},
    ),
    "an init container that needs less": (
        {"containers": [asks({"cpu": "2"})], "initContainers": [asks({"cpu": "1", "memory": "1"})]},
        {"cpu": 2000, "memory": 1},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [asks({"cpu": "1"})], "initContainers": [sidecar({"cpu": "1"})]},
        {"cpu": 2000},
    ),
    "a sidecar runs beside later init containers only": (
        {
            "containers": [asks({"cpu": "1"})],
            "initContainers": [
                asks({"cpu": "4"}),
                sidecar({"cpu": "1"}),
                asks({"cpu": "3500m"}),
                sidecar({"cpu": "1"}),
            ],
        },
        {"cpu": 4500},
    ),
    "two sidecars before an init container": (
        {
            "containers": [asks({"cpu": "1"})],
            "initContainers": [sidecar({"cpu": "1"}), sidecar({"cpu": "2"}), asks({"cpu": "2"})],
        },
        {"cpu": 5000},
    ),
    "overhead is added to all": (
        {"containers": [asks({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "120Mi"}},
        {"cpu": 1250, "memory": 120 * 1024**2},
    ),
    "the pod's own request replaces the sum": (
        {"containers": [asks({"cpu": "1", "memory": "1Gi"})], **asks({"cpu": "4"}), "overhead": {"cpu": "1"}},
        {"cpu": 5000, "memory": GI},
    ),
    "the pod's own request counts for cpu, memory and huge pages only": (
        {"containers": [asks({GPU: "1"})], **asks({GPU: "8", "hugepages-2Mi": "4Mi"})},
        {GPU: 1, "hugepages-2Mi": 4 * 1024**2},
    ),
    "a limit without a request": ({"containers": [asks(None, {"cpu": "2", GPU: "8"})]}, {"cpu": 2000, GPU: 8}),
    "a request below its limit": ({"containers": [asks({"cpu": "1"}, {"cpu": "2"})]}, {"cpu": 1000}),
    "a limit of the pod proves nothing": ({"containers": [{}], **asks(None, {"cpu": "4"})}, {}),
    "rounded up once, for the sum": (
        {"containers": [asks({"memory": "500m"}), asks({"memory": "500m"})]},
        {"memory": 1},
    ),
    "cpu is in milli": ({"containers": [asks({"cpu": "0.0001"})]}, {"cpu": 1}),
    "quantities of every form": (
        {"containers": [asks({"cpu": "1e1", "memory": "1.5Gi", "ephemeral-storage": "2G", GPU: 2})]},
        {"cpu": 10_000, "memory": 3 * GI // 2, "ephemeral-storage": 2_000_000_000, GPU: 2},
    ),
    "zero is not compared": ({"containers": [asks({"cpu": "0", GPU: "0"})]}, {}),
    "a name that is no resource of nodes is not compared": ({"containers": [asks({"disk": "1", "pods": "9"})]}, {}),
    "null is 0, which no limit replaces": ({"containers": [asks({"cpu": None}, {"cpu": "1"})], "overhead": None}, {}),
}


@pytest.mark.parametrize(("spec", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_requests_are_added_as_kubernetes_does(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert requested(spec) == expected
    assert requested(spec, COSCHEDULING) == expected
    assert requested(spec, KOORDINATOR) == expected


# For 10E bytes and for 1e16 cores Go's Value() and MilliValue() return 0, and for 9300T cores a number below 0
# (apimachinery 0.37). So a scheduler starts such pods.
@pytest.mark.parametrize("said", ["10E", "1e19", "1e99", "16Ei", "1e16", "9300T"])
def test_nothing_is_claimed_of_a_request_that_overflows(said: str) -> None:
    for reading in (KUBE, KOORDINATOR, COSCHEDULING, VOLCANO, KAI):
        for resource in ("cpu", "memory", GPU):
            asked = {"containers": [asks({resource: said, "ephemeral-storage": "1"})]}
            found, unjudged = requests_of(template(asked), reading.requests, stored=False)
            assert found == {"pods": 1, "ephemeral-storage": 1}
            assert any("more than schedulers" in why for why in unjudged)


def test_two_requests_that_overflow_together_are_not_judged() -> None:
    half = asks({"memory": "5E"})
    found, unjudged = requests_of(template({"containers": [half, half]}), KUBE.requests, stored=True)
    assert found == {"pods": 1}
    assert "memory" in single(unjudged)


def test_of_a_pod_with_very_many_resources_the_others_are_not_compared() -> None:
    asked = {"cpu": "1", **{f"hugepages-{number}Ki": "1" for number in range(1, 5000)}}
    found, unjudged = requests_of(template({"containers": [asks(asked)]}), KUBE.requests, stored=False)
    assert len(found) == 33
    assert "above 32" in single(unjudged)


def test_a_stored_pod_has_its_requests_already() -> None:
    assert requested({"containers": [asks(None, {"cpu": "2"})]}, stored=True) == {}


def test_what_cannot_be_read_is_left_out_and_said() -> None:
    spec = {"containers": [asks({"cpu": "lots", "memory": "1"}), asks({"cpu": "1"})]}
    assert requests_of(template(spec), KUBE.requests, stored=False) == (
        {"memory": 1, "pods": 1},
        ('containers[0].resources.requests[cpu] "lots" is not a quantity',),
    )


def test_a_negative_request_lowers_nothing_below_zero() -> None:
    assert requested({"containers": [asks({"cpu": "-1", "memory": "1"})]}) == {"memory": 1}


def test_ignored_resources_and_groups_are_left_out() -> None:
    reading = KUBE.restrict(FitSettings(ignored_resources=frozenset({GPU}), ignored_groups=frozenset({"example.com"})))
    spec = {"containers": [asks({GPU: "1", "example.com/fpga": "1", "example.org/fpga": "1"})]}
    assert requested(spec, reading) == {"example.org/fpga": 1}


@pytest.mark.parametrize(
    ("reading", "resource"),
    [
        (KUBE, "deviceclass.resource.kubernetes.io/gpus"),
        (KOORDINATOR, "kubernetes.io/batch-cpu"),
        (KOORDINATOR, "kubernetes.io/mid-memory"),
        (KOORDINATOR, "koordinator.sh/batch-cpu"),
        (KOORDINATOR, "koordinator.sh/gpu-core"),
        (VOLCANO, "volcano.sh/vgpu-number"),
        (VOLCANO, "huawei.com/Ascend910"),
    ],
)
def test_nothing_is_claimed_of_what_a_scheduler_places_in_its_own_way(reading: PodReading, resource: str) -> None:
    found, unjudged = requests_of(template({"containers": [asks({resource: "5"})]}), reading.requests, stored=False)
    assert (found, len(unjudged)) == ({"pods": 1}, 1)


def test_volcano_compares_thousandths_so_a_part_is_rounded_down() -> None:
    assert requested({"containers": [asks({"ephemeral-storage": "1500m"})]}, VOLCANO) == {"ephemeral-storage": 1}
    assert requested({"containers": [asks({"ephemeral-storage": "1500m"})]}) == {"ephemeral-storage": 2}


ONE_GPU = {"containers": [asks({GPU: "1"})]}
OF_KAI: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "whole GPUs": ({"containers": [asks({GPU: "2"})]}, {}, {GPU: 2, GPU_PARTS: 2000}),
    "GPUs of AMD are the same pool": ({"containers": [asks({"amd.com/gpu": "2"})]}, {}, {GPU: 2, GPU_PARTS: 2000}),
    "other names that end in gpu vanish": (
        {"containers": [asks({"example.com/gpu": "2", "cpu": "1"})]},
        {},
        {"cpu": 1000},
    ),
    "half a GPU": ({"containers": [{}]}, {"gpu_fraction": "0.5"}, {GPU_PARTS: 500}),
    "more than half takes one alone": ({"containers": [{}]}, {"gpu_fraction": "0.6"}, {GPU: 1, GPU_PARTS: 600}),
    "a little more than half may be rounded": ({"containers": [{}]}, {"gpu_fraction": "0.504"}, {GPU_PARTS: 500}),
    "parts of several GPUs": (
        {"containers": [{}]},
        {"gpu_fraction": "0.8", "gpu_fraction_num_devices": "3"},
        {GPU: 3, GPU_PARTS: 2400},
    ),
    "a part replaces whole GPUs": (ONE_GPU, {"gpu_fraction": "0.25"}, {GPU_PARTS: 250}),
    "a part above one is none": (ONE_GPU, {"gpu_fraction": "1.5"}, {GPU: 1, GPU_PARTS: 1000}),
    "a part of zero is none": (ONE_GPU, {"gpu_fraction": "0"}, {GPU: 1, GPU_PARTS: 1000}),
    "a part in a form that Go may read": (ONE_GPU, {"gpu_fraction": "0x1p-1"}, {}),
    "memory": ({"containers": [{}]}, {"gpu_memory": "4096", "gpu_fraction_num_devices": "2"}, {GPU_MEMORY: 8192}),
    "memory that is no number": (ONE_GPU, {"gpu_memory": "4Gi"}, {GPU: 1, GPU_PARTS: 1000}),
    "a MIG annotation replaces all": (ONE_GPU, {"nvidia.com/mig-1g.5gb": "1"}, {}),
    "GPUs of two names are one sum": (
        {"containers": [asks({GPU: "2", "amd.com/gpu": "1"})]},
        {},
        {GPU: 3, GPU_PARTS: 3000},
    ),
    "none of another name may leave one": (
        {"containers": [asks({GPU: "4", "amd.com/gpu": "0"})]},
        {},
        {GPU: 1, GPU_PARTS: 1000},
    ),
    "GPUs of containers and sidecars": (
        {"containers": [asks({GPU: "1"}), asks({GPU: "0"})], "initContainers": [sidecar({GPU: "2"})]},
        {},
        {GPU: 3, GPU_PARTS: 3000},
    ),
    "GPUs of a sidecar beside none": (
        {"containers": [asks({}, {GPU: "0"})], "initContainers": [sidecar({GPU: "4"})]},
        {},
        {},
    ),
    "no GPU of a sidecar beside some": (
        {"containers": [asks({GPU: "4"})], "initContainers": [sidecar({GPU: "0"})]},
        {},
        {GPU: 4, GPU_PARTS: 4000},
    ),
    "GPUs of a second sidecar beside none": (
        {"containers": [{}], "initContainers": [sidecar({GPU: "0"}), sidecar({GPU: "4"})]},
        {},
        {},
    ),
    "GPUs of a sidecar before an init container with none": (
        {"containers": [{}], "initContainers": [sidecar({GPU: "4"}), asks({GPU: "0"})]},
        {},
        {GPU: 4, GPU_PARTS: 4000},
    ),
    "GPUs of an init container beside none": (
        {"containers": [asks({GPU: "0"})], "initContainers": [asks({GPU: "4"})]},
        {},
        {GPU: 4, GPU_PARTS: 4000},
    ),
    "an init container with sidecars that are lost beside none": (
        {"containers": [asks({GPU: "0"})], "initContainers": [sidecar({GPU: "2"}), asks({GPU: "3"})]},
        {},
        {GPU: 5, GPU_PARTS: 5000},
    ),
    "GPUs that are no number": ({"containers": [asks({GPU: "some", "cpu": "1"})]}, {}, {"cpu": 1000}),
    "no requests of the pod itself": ({"containers": [asks({"cpu": "1"})], **asks({"cpu": "4"})}, {}, {"cpu": 1000}),
}


@pytest.mark.parametrize(("spec", "noted", "expected"), OF_KAI.values(), ids=OF_KAI)
def test_kai_counts_gpus_in_its_own_way(spec: dict[str, Any], noted: dict[str, Any], expected: dict[str, int]) -> None:
    assert requested(spec, KAI, **noted) == expected


def test_a_pod_that_requests_nothing_that_is_known_is_best_effort() -> None:
    assert is_best_effort({"pods": 1})
    assert not is_best_effort({"pods": 1, "cpu": 1})
    assert not is_best_effort({"pods": 1}, ("something else",))


def test_a_pod_that_names_its_node_needs_no_scheduler() -> None:
    one = template({"nodeName": "n1", "containers": [asks({"cpu": "99"})]})
    found = needs_of(one, KUBE, {"a": one}, stored=False, namespace="team")
    assert (found.request, found.eligibility.node_name) == ({}, None)
    assert "spec.nodeName" in single(found.unjudged)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": {"a": 1}},
        {"containers": ["a"]},
        {"containers": [asks([])]},  # type: ignore[arg-type]
        {"initContainers": [{"resources": "x"}]},
        {"overhead": ["cpu"]},
        {"resources": [1]},
    ],
)
def test_a_field_of_another_type_is_malformed(spec: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        requests_of(template(spec), KUBE.requests, stored=False)
