"""Gangs of default-scheduler without a cluster: the newest release is assumed, or the one that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import (
    COMPOSITE_BETA,
    GROUP,
    RELEASES,
    Generation,
    KubeSettings,
    generation,
    workload_apis,
)
from webhook.cli.options import NEWEST, KubernetesRelease
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api

GANGS = KubeSettings(gangScheduling=True)


def test_the_releases_of_the_option_are_those_that_are_known() -> None:
    assert [release.value for release in KubernetesRelease] == list(RELEASES)
    assert NEWEST.value in RELEASES


@pytest.mark.parametrize(
    ("kubernetes", "config", "expected"),
    [
        ("1.37", {}, Generation.TREE),
        ("1.36", {}, Generation.V1ALPHA2),
        ("1.35", {}, Generation.V1ALPHA1),
        ("1.38", {}, Generation.TREE),
        (None, {}, None),
        # What the configuration states is known better.
        ("1.37", {"apiGeneration": "v1alpha2"}, Generation.V1ALPHA2),
        ("1.37", {"hierarchical": "off"}, Generation.V1BETA1),
    ],
)
def test_the_generation_of_the_assumed_release_is_used(
    kubernetes: str | None, config: dict[str, str], expected: Generation | None
) -> None:
    settings = KubeSettings.model_validate({"gangScheduling": True, **config})
    facts = ClusterFacts(kubernetes=kubernetes)
    assert generation(settings, workload_apis(settings, facts)) == expected


def test_what_a_cluster_serves_is_known_better_than_an_assumption() -> None:
    served = frozenset(Api(GROUP, "v1alpha2", kind) for kind in ("Workload", "PodGroup"))
    facts = ClusterFacts(apis=served, kubernetes="1.37")
    assert workload_apis(GANGS, facts) == served
    assert KubeBackend(GANGS).assumed(facts) is None
    # A list of CRDs does not show what is built in.
    of_files = ClusterFacts(apis=frozenset({Api("grove.io", "v1alpha1", "PodCliqueSet")}), kubernetes="1.38")
    assert COMPOSITE_BETA in (workload_apis(GANGS, of_files) or ())
    assert KubeBackend(GANGS).assumed(of_files) is not None
    assert KubeBackend(KubeSettings()).assumed(of_files) is None


CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  profiles: [{name: default-scheduler, config: {gangScheduling: true}}]
"""
# Two pods of two CPUs each: their sum does not fit one node of three, whatever the gates of the scheduler are.
JOBS = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml, labels: {rollcall.dev/scheduler: default-scheduler}}
spec:
  replicatedJobs:
  - &job
    name: a
    replicas: 1
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: example.com/main, resources: {requests: {cpu: "2"}}}]
  - {<<: *job, name: b}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: "3", memory: 8Gi, pods: "110"}, capacity: {cpu: "3", memory: 8Gi, pods: "110"}}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    written = {"config": CONFIG, "jobs": JOBS, "node": NODE}
    for name, content in written.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    return {name: str(tmp_path / f"{name}.yaml") for name in written}


def test_render_makes_the_gang_of_the_assumed_release_and_says_so(rollcall: Run, files: dict[str, str]) -> None:
    assumed = rollcall("render", "--config", files["config"], files["jobs"])
    assert (assumed.code, "Kubernetes 1.37" in assumed.err) == (0, True)
    assert "scheduling.k8s.io/v1alpha3" in assumed.out
    stated = rollcall("render", "--config", files["config"], "--kubernetes", "1.38", files["jobs"])
    assert (stated.code, stated.err) == (0, "")
    assert stated.out == assumed.out.replace("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1")
    older = rollcall("render", "--config", files["config"], "--kubernetes", "1.36", files["jobs"])
    assert "scheduling.k8s.io/v1alpha2" in older.out


def test_check_judges_the_workload_api_of_the_assumed_release(rollcall: Run, files: dict[str, str]) -> None:
    judged = rollcall("check", "--config", files["config"], "--strict", files["jobs"])
    assert judged.err.count("Kubernetes 1.37") == 1
    assert "kube/workload-api" not in judged.out


def test_a_sum_that_fits_no_nodes_is_never_whatever_the_gates_are(rollcall: Run, files: dict[str, str]) -> None:
    found = rollcall("fit", "--config", files["config"], "--facts", files["node"], files["jobs"])
    assert (found.code, "never fits" in found.out) == (1, True)


def test_an_unknown_release_is_refused_with_those_that_are_known(rollcall: Run, files: dict[str, str]) -> None:
    refused = rollcall("check", "--kubernetes", "1.30", files["jobs"])
    assert refused.code == 2
    assert all(release in refused.err for release in RELEASES)
