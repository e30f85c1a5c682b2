"""Preemption on the real kube-schedulers that have disruption modes: gangs of higher priority arrive where there is no
room. With mode `all` no gang that has started is left below its minimum; with `single` some are. Every second is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Started
from tests.e2e.kube_configuration import configuration
from tests.e2e.kubelet import Kubelet
from tests.e2e.preemption import PreemptionWatch, replacing, watched
from tests.e2e.programs import eventually
from tests.e2e.workloads import two_cliques

# Of each gang: a leader and two workers, each with one CPU. Four such pods fill a node, so that gangs share nodes.
PODS, CPU = 3, 4


class Wave(NamedTuple):
    """The gangs of one priority, which arrive at once."""

    name: str
    priority: int
    gangs: int


class Storm(NamedTuple):
    """The gangs that fill the room, and those that come later."""

    room: int
    waves: tuple[Wave, ...]

    @property
    def nodes(self) -> int:
        """How many nodes have just the room."""
        return self.room * PODS // CPU


SMALL = Storm(4, (Wave("low", 10, 4), Wave("high", 1000, 4)))
# 200 gangs, and room for 60, which those of the two higher priorities need.
LARGE = Storm(60, (Wave("low", 10, 140), Wave("middle", 100, 40), Wave("high", 1000, 20)))

Classes = Callable[[Wave], str]


@pytest.fixture
def classes(plane: ControlPlane, namespace: str) -> Iterator[Classes]:
    """Create the PriorityClass of a wave; its name."""
    made: list[str] = []

    def create(wave: Wave) -> str:
        name = f"{wave.name}-{namespace}"
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        plane.apply({**head, "value": wave.priority}, check=True)
        made.append(name)
        return name

    yield create
    for name in made:
        plane.kubectl("delete", "priorityclass", name, check=True)


@pytest.fixture
def storm(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    started: Started,
    classes: Classes,
    kubelet: Kubelet,
) -> Callable[[Storm, str], PreemptionWatch]:
    """Run a storm with a disruption mode; what was seen of it."""
    assert kubelet is not None

    def run(storm: Storm, mode: str) -> PreemptionWatch:
        started("kube", configuration(disruptionMode=mode))
        nodes(storm.nodes, cpu=CPU)
        sets = [grove(_set(wave, namespace, classes(wave))) for wave in storm.waves]
        filling, arriving = sets[0], sets[1:]
        with watched(plane, namespace, PODS) as found, replacing(found, *sets):
            filling.create().lift_gates()
            until_whole(found, storm.waves[0].name, min(storm.room, storm.waves[0].gangs))
            for played in arriving:
                played.create().lift_gates()
            # They fill the room, so all that are left of lower priority are preempted.
            for wave in storm.waves[1:]:
                until_whole(found, wave.name, wave.gangs)
            seen = found.seconds
            eventually(lambda: found.seconds > seen + 2, "two more seconds are counted", timeout=60)
        return found

    return run


def _set(wave: Wave, namespace: str, priority_class: str) -> Manifest:
    found = two_cliques(wave.name, namespace, priorityClassName=priority_class)
    found["spec"]["replicas"] = wave.gangs
    return found


def until_whole(found: PreemptionWatch, name: str, gangs: int) -> None:
    """Wait until so many gangs of a wave run whole."""

    def whole() -> bool:
        assert found.whole(f"{name}-") >= gangs, f"{found.whole(f'{name}-')} of {gangs} gangs {name} run whole: {found}"
        return True

    eventually(whole, f"{gangs} gangs {name} run whole", timeout=300, pause=0.2)


def told(capsys: pytest.CaptureFixture[str], plane: ControlPlane, mode: str, found: PreemptionWatch) -> None:
    """Print the figures of a storm."""
    with capsys.disabled():
        print(f"\nKubernetes {plane.version}, {mode}: {found}")


def test_a_gang_is_preempted_as_a_whole(
    plane: ControlPlane, storm: Callable[[Storm, str], PreemptionWatch], capsys: pytest.CaptureFixture[str]
) -> None:
    found = storm(SMALL, "all")
    told(capsys, plane, "all", found)
    assert found.victims == SMALL.room * PODS
    assert found.left == [], found.history


@pytest.mark.soak
@pytest.mark.every_version(since="1.36")
@pytest.mark.parametrize("mode", ["all", "single"])
def test_a_storm_leaves_no_gang_in_part_unless_its_pods_are_preempted_one_by_one(
    plane: ControlPlane, storm: Callable[[Storm, str], PreemptionWatch], capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    found = storm(LARGE, mode)
    told(capsys, plane, mode, found)
    assert found.victims >= LARGE.room * PODS
    if mode == "all":
        assert found.left == [], found.history
    else:
        assert sum(found.left_at) > 0
