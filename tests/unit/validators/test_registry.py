"""Backends of other distributions, by entry point: a real one on the path, and every possible fault."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worlds import gang_pod, request
from webhook import admission
from webhook.backends.registry import installed_backends
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record

BACKEND = """
from webhook.backends.base import Backend, BackendSettings, GangMember, PodChanges


class ToySettings(BackendSettings):
    queue: str = "all"


class ToyBackend(Backend[ToySettings]):
    name = "toy-scheduler"
    settings_model = ToySettings
    capabilities = {}

    def prepare_pod(self, member):
        return PodChanges(self.name, (member.podgang,), labels={"toy/queue": self.settings.queue, "toy/gang":
        member.podgang})

    def gang_objects(self, podgang, record, facts):
        return []


class NoBackend:
    pass
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs a distribution with these entry points: a folder on the path, as a wheel would leave it."""

    def install(entry_points: str) -> None:
        (tmp_path / "toy_rollcall_backend.py").write_text(BACKEND)
        info = tmp_path / "toy_backend-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rollcall.backends]\n{entry_points}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        installed_backends.cache_clear()

    yield install
    installed_backends.cache_clear()
    sys.modules.pop("toy_rollcall_backend", None)


def test_a_profile_with_its_name_enables_a_third_party_backend(distribution: Any) -> None:
    distribution("toy-scheduler = toy_rollcall_backend:ToyBackend")
    document = {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"profiles": [{"name": "toy-scheduler", "config": {"queue": "mine"}}]},
    }
    settings = settings_from(document, "rollcall.yaml")
    facts = ClusterFacts(pod_clique_sets={("default", "demo"): Record("toy-scheduler")})
    patch = admission.mutate(request(gang_pod()), facts, settings).patch
    assert [(op["path"], op["value"]) for op in patch if "toy" in op["path"]] == [
        ("/metadata/labels/toy~1queue", "mine"),
        ("/metadata/labels/toy~1gang", "demo-0"),
    ]


@pytest.mark.parametrize(
    ("entry_points", "why"),
    [
        ("toy-scheduler = toy_rollcall_backend:Missing", "cannot be loaded"),
        ("toy-scheduler = no_such_module:X", "cannot be loaded"),
        ("toy-scheduler = toy_rollcall_backend:NoBackend", "must be a subclass"),
        ("other-name = toy_rollcall_backend:ToyBackend", "its entry point's"),
    ],
)
def test_an_entry_point_that_is_not_a_backend_stops_the_start(distribution: Any, entry_points: str, why: str) -> None:
    distribution(entry_points)
    with pytest.raises(ConfigurationError, match=why):
        installed_backends()


def test_a_built_in_backend_cannot_be_replaced(distribution: Any) -> None:
    distribution("koord-scheduler = webhook.backends.koordinator.backend:KoordinatorBackend")
    with pytest.raises(ConfigurationError, match="already has this name"):
        installed_backends()
