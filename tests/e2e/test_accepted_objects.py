"""The scheduler's own API accepts every gang object that Rollcall writes: with strict validation, in the order of
creation, over existing objects, and a second time without a change. A rule refuses each gang that cannot be written;
the table names the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import crd_files, further_crd_files
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gang_writer import applied, path_of, posted, why
from tests.e2e.given_gangs import GROVES, HARD_CASES, RECORDINGS, Hard, member, podgang
from tests.e2e.judged_gangs import (
    KEYS,
    are_as_expected,
    gangs_on,
    known,
    write_case,
    write_recordings,
    write_samples,
)
from tests.e2e.programs import eventually
from tests.unit.worlds import settings_of
from webhook.config.settings import Settings
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.keys import Record

Config = dict[str, Any]

# The ways in which default-scheduler says a gang, as the hard cases call them.
MODES: dict[str, Config] = {
    "auto": {},
    "apart": {"hierarchical": "off", "flat": "allow"},
    # The same as the first where there are no trees to switch off, and so for the newest version only.
    "merged": {"hierarchical": "off"},
}
OTHERS: dict[str, Config] = {
    "koord-scheduler": {"topologyKeyMappings": {KEYS["rack"]: "RackLayer", "rack": "RackLayer"}},
    "volcano": {"topology": "hypernode"},
    "kai-scheduler": {"defaultQueue": "team-a"},
    "scheduler-plugins-scheduler": {},
}

recordings = pytest.mark.skipif(
    not RECORDINGS, reason="ROLLCALL_RECORDINGS does not say where recordings of Grove's operator are"
)


# default-scheduler, in each generation of the Workload API.

# The first Kubernetes that serves it.
WORKLOAD_API = "1.35"

# Of the samples' objects that were accepted, the least for each way, with Grove's samples and without.
LEAST = {"tree": 90, "flat": 16, "apart": 16}
OF_OUR_OWN = {"tree": 12, "flat": 0, "apart": 0}
# Of what was recorded, by folder, and what must be the reason where it is nothing.
PREFERRED, NO_TREE = {"kube/preferred-topology"}, {"kube/topology"}
LEAST_RECORDED: dict[str, dict[str, int | set[str]]] = {
    "tree": {"lifecycle": 16, "mn-disagg": 11, "topology": PREFERRED, "topology, required": 13},
    "flat": {"lifecycle": 3, "mn-disagg": 2, "topology": PREFERRED, "topology, required": NO_TREE},
    "apart": {"lifecycle": 3, "mn-disagg": 2, "topology": PREFERRED, "topology, required": NO_TREE},
}


def default_scheduler(mode: str) -> Settings:
    return settings_of("default-scheduler", {"gangScheduling": True, **MODES[mode]})


def way_of(version: str, mode: str) -> str:
    """How default-scheduler says a gang there, in the words of the hard cases."""
    return "apart" if mode == "apart" else "tree" if (version, mode) == ("1.37", "auto") else "flat"


def judge_samples(plane: ControlPlane, namespace: str, mode: str) -> None:
    way = way_of(plane.version, mode)
    found = write_samples(plane, namespace, default_scheduler(mode))
    assert found.judged >= (LEAST if GROVES else OF_OUR_OWN)[way]
    assert found.unwritten == ({} if way == "tree" else {"kube/topology": 3})
    expected = {"refused/training": {"kube/mnnvl"}}
    if way != "tree":
        expected = {"disaggregated/inference": {"kube/topology"}, "refused/training": {"kube/mnnvl", "kube/topology"}}
    if way == "flat" and GROVES:
        # They scale a clique of several. The PodGang shows nothing of it, and its objects are sound in themselves.
        expected |= {
            "simple1/simple1": {"kube/flat-gang"},
            "simple2-explicit-startup-order/simple2": {"kube/flat-gang"},
            "simple3-explicit-startup-order/simple3": {"kube/flat-gang"},
        }
    assert found.refused == expected


def judge_recordings(plane: ControlPlane, namespace: str, mode: str) -> None:
    found = write_recordings(plane, namespace, default_scheduler(mode))
    are_as_expected(found, LEAST_RECORDED[way_of(plane.version, mode)])


def judge_case(plane: ControlPlane, namespace: str, mode: str, case: Hard) -> None:
    writer = gangs_on(plane, namespace, default_scheduler(mode), known(plane))
    write_case(writer, case, case.refused.get(way_of(plane.version, mode)))


@pytest.mark.every_version(since=WORKLOAD_API, soak=())
@pytest.mark.parametrize("mode", ["auto", "apart"])
def test_the_api_server_accepts_default_scheduler_objects_of_the_samples(
    plane: ControlPlane, namespace: str, mode: str
) -> None:
    judge_samples(plane, namespace, mode)


@recordings
@pytest.mark.every_version(since=WORKLOAD_API, soak=())
@pytest.mark.parametrize("mode", ["auto", "apart"])
def test_the_api_server_accepts_default_scheduler_objects_of_recordings(
    plane: ControlPlane, namespace: str, mode: str
) -> None:
    judge_recordings(plane, namespace, mode)


@pytest.mark.every_version(since=WORKLOAD_API, soak=())
@pytest.mark.parametrize("mode", ["auto", "apart"])
@pytest.mark.parametrize("case", HARD_CASES.values(), ids=HARD_CASES)
def test_the_api_server_accepts_default_scheduler_objects_of_a_hard_case(
    plane: ControlPlane, namespace: str, mode: str, case: Hard
) -> None:
    judge_case(plane, namespace, mode, case)


def test_the_api_server_accepts_flat_default_scheduler_objects_of_the_samples(
    plane: ControlPlane, namespace: str
) -> None:
    judge_samples(plane, namespace, "merged")


@recordings
def test_the_api_server_accepts_flat_default_scheduler_objects_of_recordings(
    plane: ControlPlane, namespace: str
) -> None:
    judge_recordings(plane, namespace, "merged")


@pytest.mark.parametrize("case", HARD_CASES.values(), ids=HARD_CASES)
def test_the_api_server_accepts_flat_default_scheduler_objects_of_a_hard_case(
    plane: ControlPlane, namespace: str, case: Hard
) -> None:
    judge_case(plane, namespace, "merged", case)


@pytest.mark.every_version(since=WORKLOAD_API, soak=())
@pytest.mark.parametrize("mode", ["auto", "apart"])
def test_a_released_gang_keeps_its_minimums(plane: ControlPlane, namespace: str, mode: str) -> None:
    """In part or as a whole: the API server would take a lower one from 1.37 on, and none before."""
    writer = gangs_on(plane, namespace, default_scheduler(mode), known(plane))
    expected = {"flat": [4], "apart": [1, 3], "tree": [1, 3]}[way_of(plane.version, mode)]
    for state in HARD_CASES["a member released, then all, then none"].states:
        stored = writer.write(state, Record("default-scheduler"))
        assert sorted(set(minimums(stored))) == expected


def minimums(found: object) -> list[int]:
    if isinstance(found, list):
        return [minimum for item in found for minimum in minimums(item)]
    if not isinstance(found, dict):
        return []
    own = [found["minCount"]] if isinstance(found.get("minCount"), int) else []
    return own + [minimum for key, value in found.items() if key != "managedFields" for minimum in minimums(value)]


@pytest.mark.every_version(since=WORKLOAD_API, soak=())
def test_a_priority_class_is_accepted_where_groups_have_one(plane: ControlPlane, namespace: str) -> None:
    name = f"high-{namespace}"
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    assert posted(plane, {**head, "value": 1_000_000_000}).is_success
    try:
        writer = gangs_on(plane, namespace, default_scheduler("auto"), known(plane))
        stored = writer.write(
            podgang("demo-0", member("demo-0-lead"), member("demo-0-w", 2)),
            Record("default-scheduler", priority_class=name),
        )
        groups = [found["spec"].get("priority") for found in stored[1:]]
        assert groups == {"1.35": [], "1.36": [1_000_000_000], "1.37": [1_000_000_000] * 3}[plane.version]
    finally:
        plane.http.delete(path_of(head)).raise_for_status()


# The others, whose objects are custom resources. Their APIs are the same whatever Kubernetes serves them.

LEAST_OF_OTHERS = {"koord-scheduler": 45, "volcano": 15, "kai-scheduler": 15, "scheduler-plugins-scheduler": 10}
UNWRITTEN = {
    "koord-scheduler": {"koordinator/scaling-group-topology": 1},
    "volcano": {},
    "kai-scheduler": {},
    "scheduler-plugins-scheduler": {"coscheduling/topology": 3},
}
NO_SUBSETS = {"koordinator/scaling-group-topology", "koordinator/divergent-topology"}
RECORDED_OF_OTHERS: dict[str, dict[str, int | set[str]]] = {
    "koord-scheduler": {"lifecycle": 10, "mn-disagg": 7, "topology": NO_SUBSETS, "topology, required": NO_SUBSETS},
    "volcano": {
        "lifecycle": 3,
        "mn-disagg": 2,
        "topology": {"volcano/preferred-topology"},
        "topology, required": {"volcano/scaling-group-topology"},
    },
    "kai-scheduler": {"lifecycle": 3, "mn-disagg": 2, "topology": 2, "topology, required": 2},
    "scheduler-plugins-scheduler": {
        "lifecycle": 3,
        "mn-disagg": 2,
        "topology": {"coscheduling/topology"},
        "topology, required": {"coscheduling/topology"},
    },
}


def of_another(scheduler: str) -> Settings:
    return settings_of(scheduler, OTHERS[scheduler])


def judge_samples_of(plane: ControlPlane, namespace: str, scheduler: str) -> None:
    found = write_samples(plane, namespace, of_another(scheduler))
    # Each sample of our own asks for topology.
    own = 0 if scheduler == "scheduler-plugins-scheduler" else 3
    assert found.judged >= (LEAST_OF_OTHERS[scheduler] if GROVES else own)
    assert found.unwritten == UNWRITTEN[scheduler]


def judge_recordings_of(plane: ControlPlane, namespace: str, scheduler: str) -> None:
    are_as_expected(write_recordings(plane, namespace, of_another(scheduler)), RECORDED_OF_OTHERS[scheduler])


def judge_case_of(plane: ControlPlane, namespace: str, scheduler: str, case: Hard) -> None:
    writer = gangs_on(plane, namespace, of_another(scheduler), known(plane))
    write_case(writer, case, case.refused.get(scheduler))


@pytest.mark.parametrize("scheduler", OTHERS)
def test_the_api_server_accepts_objects_of_other_schedulers_for_the_samples(
    plane: ControlPlane, namespace: str, scheduler: str
) -> None:
    judge_samples_of(plane, namespace, scheduler)


@recordings
@pytest.mark.parametrize("scheduler", OTHERS)
def test_the_api_server_accepts_objects_of_other_schedulers_for_recordings(
    plane: ControlPlane, namespace: str, scheduler: str
) -> None:
    judge_recordings_of(plane, namespace, scheduler)


@pytest.mark.parametrize("scheduler", OTHERS)
@pytest.mark.parametrize("case", HARD_CASES.values(), ids=HARD_CASES)
def test_the_api_server_accepts_objects_of_other_schedulers_for_a_hard_case(
    plane: ControlPlane, namespace: str, scheduler: str, case: Hard
) -> None:
    judge_case_of(plane, namespace, scheduler, case)


def binding(*keys: str) -> ClusterTopologyBinding:
    levels = [{"domain": f"d{index}", "key": key} for index, key in enumerate(keys)]
    return ClusterTopologyBinding({"metadata": {"name": "dc", "uid": "u-1"}, "spec": {"levels": levels}})


MANY_LEVELS = [f"example.com/level-{index}" for index in range(16)]
BINDINGS = {
    "zone to host": binding(*KEYS.values()),
    "one level": binding("rack"),
    "as many levels as there may be": binding(*MANY_LEVELS),
    "the longest key": binding("x" * 253 + "/" + "y" * 62),
}


def judge_topologies(plane: ControlPlane) -> None:
    backend = of_another("kai-scheduler").profiles["kai-scheduler"].backend
    for name, given in BINDINGS.items():
        (topology,) = backend.topology_objects(given)
        # Dry, for its owner is not there.
        answer = applied(plane, topology, dry=True)
        assert answer.is_success, f"{name}: {why(answer)}"


def test_the_api_server_accepts_the_topology_objects_of_koordinator_and_volcano(plane: ControlPlane) -> None:
    koordinator = of_another("koord-scheduler").profiles["koord-scheduler"].backend
    volcano = of_another("volcano").profiles["volcano"].backend
    for name, given in BINDINGS.items():
        nodes = {f"node-{number}": {level.key or "": f"V_{number}" for level in given.levels} for number in range(2)}
        made = [*koordinator.topology_objects(given), *volcano.node_topology_objects(given, nodes, {}).objects]
        for one in made:
            answer = applied(plane, one, dry=True)
            assert answer.is_success, f"{name}: {why(answer)}"


def test_the_api_server_accepts_the_kai_topology_of_a_binding(plane: ControlPlane) -> None:
    judge_topologies(plane)


@pytest.fixture
def older_kai(plane: ControlPlane) -> Iterator[None]:
    """The definitions of KAI 0.15.2, whose PodGroup takes less, in the place of the newest ones."""
    newest = [path for path in crd_files() if path.name in {found.name for found in further_crd_files("kai/v0.15.2")}]
    gang = {"metadata": {"name": "probe", "namespace": "default"}, "spec": {"minMember": 0}}
    probe = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", **gang}

    def replaced(by: list[Path], code: int) -> None:
        plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in by), check=True)
        eventually(lambda: posted(plane, probe, dry=True).status_code == code, f"PodGroups are those of {by[0].parent}")

    replaced(further_crd_files("kai/v0.15.2"), httpx.codes.UNPROCESSABLE_ENTITY)
    yield
    replaced(newest, httpx.codes.CREATED)


@pytest.mark.usefixtures("older_kai")
def test_the_api_server_with_kai_0_15_2_accepts_all_objects(plane: ControlPlane, namespace: str) -> None:
    judge_topologies(plane)
    judge_samples_of(plane, namespace, "kai-scheduler")
    if RECORDINGS:
        judge_recordings_of(plane, namespace, "kai-scheduler")
    for case in HARD_CASES.values():
        # One after the other over the same PodGroup, which may change as it will.
        judge_case_of(plane, namespace, "kai-scheduler", case)
