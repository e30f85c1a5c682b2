"""Workloads and pods of kinds without a declaration."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, known, validate
from tests.unit.workloads.workloads import RECORD, declared, pod_of, ray_cluster, template, with_shapes, workload
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge

OPTED_IN = known(default="koord-scheduler")
FOR = {"group": "example.com", "kind": "Farm", "plural": "farms", "versions": ["v1"]}
FARM = declared({"for": FOR, "parts": [{"template": "$.spec.template", "pods": 2}]})


def _pod(api_version: str = "example.com/v1", kind: str = "Farm", **changed: Any) -> Manifest:
    pod = pod_of(workload(api_version, kind, {}), {})
    del pod["metadata"]["labels"]
    pod["metadata"] |= {key: value for key, value in changed.items() if key == "labels"}
    pod["spec"] |= {key: value for key, value in changed.items() if key != "labels"}
    return pod


@pytest.mark.parametrize(
    ("pod", "facts"),
    [
        (_pod(), OPTED_IN),
        (_pod(schedulerName="koord-scheduler"), known()),
        (_pod(labels={RECORD: "koord-scheduler"}), known()),
        (_pod("batch.example.com/v1", "Job"), OPTED_IN),
    ],
    ids=["in an opted-in namespace", "names a gang scheduler", "has the label", "a known name in another group"],
)
def test_a_pod_of_an_unknown_kind_is_a_warning(pod: Manifest, facts: ClusterFacts) -> None:
    verdict = validate(pod, facts=facts)
    assert verdict.allowed
    (found,) = verdict.findings
    kind = pod["metadata"]["ownerReferences"][0]["kind"]
    assert (found.rule, str(found.at), found.value) == ("owner/unknown-kind", "metadata.ownerReferences", kind)
    assert f"`rollcall shapes init {kind} --from-crd FILE`" in (found.remedy or "")


@pytest.mark.parametrize(
    ("pod", "facts"),
    [
        (_pod(), known()),
        (_pod(), NO_FACTS),
        (_pod(schedulerName="another-scheduler"), known()),
        *((_pod("apps/v1", kind), OPTED_IN) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet")),
        (_pod("v1", "ReplicationController"), OPTED_IN),
        (_pod("v1", "Node"), OPTED_IN),
        (_pod("grove.io/v1alpha1", "PodClique"), OPTED_IN),
        (_pod("ray.io/v1", "RayCluster"), OPTED_IN),
    ],
)
def test_other_pods_are_none(pod: Manifest, facts: ClusterFacts) -> None:
    assert validate(pod, facts=facts).findings == ()


def test_a_pod_without_a_controller_is_none() -> None:
    pod = _pod()
    del pod["metadata"]["ownerReferences"]
    assert validate(pod, facts=OPTED_IN).findings == ()


def test_a_declared_kind_is_known() -> None:
    assert validate(_pod(), facts=OPTED_IN, settings=with_shapes(FARM)).findings == ()


def _said(manifest: Manifest, facts: ClusterFacts) -> list[tuple[str, str]]:
    return [
        (finding.rule, str(finding.at))
        for one in judge(deepcopy(manifest), facts, EVERY)
        for finding in one.verdict.findings
    ]


def test_a_workload_of_an_unknown_kind_in_an_opted_in_namespace_is_a_warning() -> None:
    farm = workload("example.com/v1", "Farm", {"template": template()})
    assert _said(farm, OPTED_IN) == [("kinds/no-gangs", "kind")]
    assert _said(farm, known()) == []
    assert _said(workload("example.com/v1", "Farm", {}), OPTED_IN) == [], "it has no pods"
    assert _said(workload("apps/v1", "DaemonSet", {"template": template()}), OPTED_IN) == []
    assert ("kinds/no-gangs", "kind") not in _said(ray_cluster(scheduler=None), OPTED_IN)


def test_the_hooks_for_unknown_kinds_fail_open_and_know_the_declared_kinds() -> None:
    settings = with_shapes(FARM)
    _, validating = webhook_configurations(settings, Address("a", "b"), "rollcall-system", None)
    hooks = {hook["name"]: hook for hook in validating["webhooks"]}
    for name in ("unknown-kinds-of-namespaces", "unknown-kinds"):
        hook = hooks[f"{name}.validate.rollcall.dev"]
        assert hook["failurePolicy"] == "Ignore"
        conditions = {one["name"]: one["expression"] for one in hook["matchConditions"]}
        for kind in ("Farm.example.com", "RayCluster.ray.io", "ReplicaSet.apps", "Job.batch", "PodClique.grove.io"):
            assert f'"{kind}"' in conditions["unknown-kind"]
    named = {one["name"]: one["expression"] for one in hooks["unknown-kinds.validate.rollcall.dev"]["matchConditions"]}
    assert named["names-a-gang-scheduler"] == (
        'object.spec.schedulerName in ["kai-scheduler", "koord-scheduler", "volcano"]'
    )
