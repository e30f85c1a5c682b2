"""The known keys of labels and annotations, and what a misspelt key most likely means."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import webhook.backends
import webhook.model
from webhook.model.any_object import KNOWN_KEYS, KeyPlace, MisspeltKeys

LIKELY = {
    "scheduling.grove.io/koordinator-quotas": "scheduling.grove.io/koordinator-quota",
    "scheduling.grove.io/koordinator_quota": "scheduling.grove.io/koordinator-quota",
    "grove.io/koordinator-quota": "scheduling.grove.io/koordinator-quota",
    "rollcall.dev/schedular": "rollcall.dev/scheduler",
    "rollcall.io/scheduler": "rollcall.dev/scheduler",
    "rollcal.dev/scheduler": "rollcall.dev/scheduler",
    "rollcall.dev/enforcment": "rollcall.dev/enforcement",
    "kai.scheduler/queues": "kai.scheduler/queue",
    "grove.io/mnnvl-groups": "grove.io/mnnvl-group",
    "koordinator.sh/qosclass": "koordinator.sh/qosClass",
    "leaderworkerset.sigs.k8s.io/exclusive-topolgy": "leaderworkerset.sigs.k8s.io/exclusive-topology",
}
# Keys of other projects, and keys that a user may well have.
OTHERS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "argocd.argoproj.io/sync-wave",
    "example.com/scheduler",
    "helm.sh/chart",
    "kubectl.kubernetes.io/last-applied-configuration",
    "prometheus.io/scrape",
    "queue",
    "ray.io/cluster",
    "rollout.example.com/stamp",
    "scheduler",
    "sidecar.istio.io/inject",
    "topology.kubernetes.io/zone",
    "kueue.x-k8s.io/something-new",
)


@pytest.mark.parametrize("key", LIKELY)
def test_a_misspelt_key_has_a_likely_name(key: str) -> None:
    assert key not in KNOWN_KEYS
    assert MisspeltKeys().likely(key) == LIKELY[key]


@pytest.mark.parametrize("key", OTHERS)
def test_a_key_of_another_project_means_itself(key: str) -> None:
    assert MisspeltKeys().likely(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/podset-group-name",
        "kueue.x-k8s.io/podset-slice-required-topology",
        "kueue.x-k8s.io/podset-slice-size",
        "scheduling.k8s.io/parent-composite-podgroup",
        "scheduling.k8s.io/parent-compositepodgroup",
        "scheduling.koordinator.sh/gpu-partitions",
    ],
)
def test_a_key_that_resembles_another_key_is_known(key: str) -> None:
    # Each was reported as the misspelt name of another key.
    assert key in KNOWN_KEYS


def test_a_long_key_is_not_compared() -> None:
    assert MisspeltKeys().likely(f"rollcall.dev/{'scheduler' * 1000}") is None
    assert MisspeltKeys().likely(f"{'rollcall' * 1000}.dev/scheduler") is None


def test_only_some_keys_of_one_object_are_compared() -> None:
    misspelt = MisspeltKeys()
    found = [misspelt.likely(f"rollcall.dev/scheduler{number}") for number in range(100)]
    assert found[:16] == ["rollcall.dev/scheduler"] * 16
    assert found[16:] == [None] * 84


def test_every_key_that_the_code_reads_or_writes_is_known() -> None:
    # Keys of Kubernetes, of nodes and of examples.
    others = ("kubernetes.io", "nvidia.com", "karpenter.sh", "example.com")
    unknown = {key for key in _keys() if key not in KNOWN_KEYS}
    assert sorted(key for key in unknown if not key.partition("/")[0].endswith(others)) == []


def test_rollcall_s_choice_is_a_label() -> None:
    assert KNOWN_KEYS["rollcall.dev/scheduler"] is KeyPlace.LABEL
    assert KNOWN_KEYS["rollcall.dev/enforcement"] is KeyPlace.NAMESPACE


def _keys() -> Iterator[str]:
    """Every constant of the models and backends that has the form of a key."""
    for package in (webhook.backends, webhook.model):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                is_key = name.isupper() and isinstance(value, str) and "." in value and "/" in value.rstrip("/")
                if is_key and not value.endswith("/") and not name.startswith("_"):
                    yield value
