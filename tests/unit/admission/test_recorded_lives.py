"""The recorded lives of sets, replayed as they would be with Rollcall: with the facts of each moment, and with gang
objects that were written when their PodGang came.

The recordings are of a cluster without Rollcall. So an object is sent with the fields that Rollcall gave it at its
creation. The reconciler is not played: the objects of a PodGang whose members are in none yet are put in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.recordings import RECORDINGS
from tests.unit.worlds import settings_of
from webhook import admission
from webhook.admission.decision import request_from
from webhook.cluster.watch import Index
from webhook.config.settings import Settings, Tenancy
from webhook.gangs.object_plan import GangPlan, add_digest, plan
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import GangObjects, living_gang
from webhook.model.grove import PodGang
from webhook.model.keys import Api
from webhook.model.known_objects import TopologyBinding
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, key_of
from webhook.model.reading import Manifest

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="ROLLCALL_RECORDINGS does not name the recordings")

# By scheduler: its configuration, and what names a pod's group.
GANGS = {"gangScheduling": True, "apiGeneration": "v1beta1"}
SCHEDULERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "koord-scheduler": ({}, ("metadata", "labels", "pod-group.scheduling.sigs.k8s.io")),
    "default-scheduler": (GANGS, ("spec", "schedulingGroup", "podGroupName")),
    "kai-scheduler": ({"defaultQueue": "team-a"}, ("metadata", "annotations", "pod-group-name")),
    "volcano": ({}, ("metadata", "annotations", "scheduling.k8s.io/group-name")),
}
LEVELS = ("topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname")
EMPTY = ClusterFacts(
    namespaces={},
    priority_classes={},
    topology_bindings={"dc": TopologyBinding(dict(zip(("zone", "rack", "host"), LEVELS, strict=True)))},
    elastic_quotas={},
    network_topologies={},
    kai_shards={},
    kai_topologies={"dc": LEVELS},
    hyper_nodes={},
)


class Life:
    """A cluster in which the reviews of a folder arrive one after the other. `verdicts` are the answers by review."""

    def __init__(self, scheduler: str) -> None:
        config, self._group = SCHEDULERS[scheduler]
        settings = settings_of(scheduler, config, standalone=False)
        self.settings: Settings = replace(settings, tenancy=Tenancy(grove_operators=("admin",)))
        self._indexes = {one.resource.plural: Index(one) for one in (POD_CLIQUE_SETS, POD_GANGS, POD_GANG_MAPS)}
        self._objects = GangObjects()
        # What Rollcall gave each object at its creation.
        self._given: dict[tuple[str, str], Manifest] = {}
        # The PodClique and the group of each pod, in the order of their creation.
        self.groups: list[tuple[str, str]] = []

    @property
    def facts(self) -> ClusterFacts:
        known: dict[str, Any] = {index.projection.part: index.entries for index in self._indexes.values()}
        return replace(EMPTY, gang_objects=self._objects, **known)

    def play(self, folder: Path) -> Iterator[tuple[str, Verdict, bool]]:
        """The verdict of each review, and whether anything of its object was patched."""
        for path in sorted(folder.glob("[0-9]*.json")):
            review = json.loads(path.read_text())
            asked = review["request"]
            resource, name = asked["resource"]["resource"], _name(asked)
            if asked["operation"] == "UPDATE":
                given = self._given.get((resource, name), {})
                for field in ("object", "oldObject"):
                    _merge(asked[field], given)
            before = deepcopy(asked["object"])
            request = request_from(review)
            patched = bool(admission.mutate(request, self.facts, self.settings).patch)
            verdict = admission.validate(request, self.facts, self.settings)
            if asked["operation"] == "CREATE":
                assert request.object is not None
                self._given[resource, name] = _given(before, request.object)
                if resource == "pods":
                    self.groups.append((name, _at(request.object, self._group)))
            self._store(resource, asked["operation"], request.object, request.old)
            yield path.stem, verdict, patched

    def _store(self, resource: str, operation: str, now: Manifest | None, old: Manifest | None) -> None:
        if (index := self._indexes.get(resource)) is not None:
            if operation == "DELETE":
                assert old is not None
                index.drop(old)
            else:
                assert now is not None
                index.put(now)
        if resource == "podgangs" and operation == "CREATE" and now is not None:
            self._write(PodGang(now))

    def _write(self, podgang: PodGang) -> None:
        if any(self._objects.gangs_of_member(podgang.namespace, member.name) for member in podgang.members):
            return
        planned = plan(podgang, self.facts, self.settings)
        assert isinstance(planned, GangPlan)
        for desired in planned.objects:
            written = add_digest(planned.profile.backend.adopt(desired, None))
            found = living_gang(written)
            assert found is not None
            self._objects[Api("", "", written["kind"]), *key_of(written)] = found


def _name(asked: dict[str, Any]) -> str:
    """The name of an object. Of a pod, which may have none yet, the PodClique: all its pods are given the same."""
    metadata = (asked["object"] or asked["oldObject"])["metadata"]
    return str(metadata["labels"]["grove.io/podclique"] if asked["kind"]["kind"] == "Pod" else metadata["name"])


def _merge(known: Manifest, more: Manifest) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            _merge(known[key], value)
        else:
            known[key] = value


def _given(before: Manifest, after: Manifest) -> Manifest:
    """The fields that are new or another in `after`."""
    found: Manifest = {}
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            if inner := _given(before[key], value):
                found[key] = inner
        elif value != before.get(key):
            found[key] = value
    return found


def _at(manifest: Manifest, path: tuple[str, ...]) -> str:
    found: Any = manifest
    for part in path:
        found = found[part]
    return str(found)


FOLDERS = (
    "grove-operator/mn-disagg",
    "grove-operator/lifecycle",
    "grove-operator-next/lifecycle",
    "grove-operator-next/migration",
)


# Only KAI has all of the topology in the last of them.
LIVES = [(scheduler, folder) for scheduler in SCHEDULERS for folder in FOLDERS]
LIVES.append(("kai-scheduler", "grove-operator/topology"))


@pytest.mark.parametrize(("scheduler", "folder"), LIVES)
def test_each_recorded_request_is_admitted_and_only_new_objects_are_changed(scheduler: str, folder: str) -> None:
    wrong = []
    for name, verdict, patched in Life(scheduler).play(RECORDINGS / folder):
        new = name[4:].startswith(("CREATE-pods-", "CREATE-podcliquesets-"))
        if not verdict.allowed or verdict.findings or patched is not new:
            wrong.append((name, verdict.findings, patched))
    assert wrong == []


# The group of a worker that ran before Grove was upgraded, and of the one that replaced it.
MIGRATED = {
    "koord-scheduler": "demo-0-decode-0-worker",
    "default-scheduler": "demo-0-decode-0-worker",
    "kai-scheduler": "demo-0-8aaf2c3d",
    "volcano": "demo-0",
}


@pytest.mark.parametrize(("scheduler", "group"), MIGRATED.items())
def test_a_pod_that_replaces_one_after_the_migration_joins_the_group_of_its_siblings(
    scheduler: str, group: str
) -> None:
    life = Life(scheduler)
    assert list(life.play(RECORDINGS / "grove-operator-next/migration"))
    assert [found for podclique, found in life.groups if podclique == "demo-0-decode-0-worker"] == [group] * 4
