"""Gangs of default-scheduler without a cluster: the newest release of Kubernetes is assumed, or the one that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.configurations import configuration_of
from tests.unit.cli.runner import run
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.generation import COMPOSITE_BETA, GROUP, RELEASES, Generation, generation, workload_apis
from webhook.backends.kube.settings import KubeSettings
from webhook.cli.options import NEWEST, Release
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api

GANGS = KubeSettings(gangScheduling=True)


def test_the_releases_of_the_option_are_those_that_are_known() -> None:
    assert [release.value for release in Release] == list(RELEASES)
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
