"""What pictures say about a pod: its devices and claims."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.fields import FieldPath
from webhook.model.grove import GroveGeneration
from webhook.offline.gang_tree import device_words, gang_tree
from webhook.validators.examples import clique, pod_clique_set
from webhook.workloads.opted_in_workload import template_at
from webhook.workloads.pod_clique_set import PodCliqueSet


def container(**amounts: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {name.replace("__", "/"): amounts[name] for name in amounts}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container(cpu="4", memory="1Gi")]}, []),
        ({"containers": [container(cpu="4", amd__gpu="8")]}, ["8 amd/gpu"]),
        ({"containers": [container(amd__gpu="2"), container(amd__gpu="2")]}, ["4 amd/gpu"]),
        ({"containers": [container(amd__gpu="0")]}, []),
        ({"containers": [container(amd__gpu="many")]}, []),
        (
            {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "nvl"}, {"name": "b"}]},
            ["claim nvl", "claim b"],
        ),
        (
            {"containers": [container(a__x="1", b__x="2", c__x="3", d__x="4", e__x="5000")]},
            ["1 a/x", "2 b/x", "3 c/x", "2 more devices"],
        ),
        ({"containers": 3, "resourceClaims": [{"name": "a"}]}, []),
    ],
)
def test_devices_and_claims_of_a_pod(spec: dict[str, Any], expected: list[str]) -> None:
    template = template_at({"spec": spec}, FieldPath())
    assert list(device_words(template)) == expected


def test_a_clique_carries_what_its_pods_request() -> None:
    set_of_two = pod_clique_set(clique("front"), clique("worker", requests={"nvidia.com/gpu": "8"}))
    front, worker = gang_tree(PodCliqueSet(set_of_two), GroveGeneration.LEGACY).below[0].below
    assert (front.carries, worker.carries) == ((), ("8 nvidia.com/gpu",))
    assert worker.as_json()["carries"] == ["8 nvidia.com/gpu"]
