"""The fixture that plays the operator of Grove's next generation, compared with recorded requests of that operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate, pairwise

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, PlayNext
from tests.e2e.grove_next_operator import MIGRATING, NextPlayed
from tests.e2e.grove_operator import Played, defaulted
from tests.e2e.recordings import RECORDINGS, Step, named, played, recorded, told

FOLDER = RECORDINGS / "grove-operator-next"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ROLLCALL_RECORDINGS does not name the recordings")


def recorded_set(recording: str, namespace: str) -> Manifest:
    """The set that was recorded, as a user writes it."""
    metadata = recorded(FOLDER / recording, 1, 1)[0].now["metadata"]
    found = defaulted(json.loads(metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]))
    found["metadata"]["namespace"] = namespace
    return found


def bind(made: Played) -> None:
    """Bind the pods that have no gate, as a scheduler does."""
    for pod in made.pods():
        if not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": "somewhere"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            made.plane.http.post(f"{made.path('pods')}/{name}/binding", json=body).raise_for_status()


def start(made: Played) -> None:
    """Have its pods bound, anchor first."""
    for _ in range(2):
        made.lift_gates()
        bind(made)


# The parts of the recorded life of a set: the numbers of the requests, and what the player does.
LIFE: dict[str, tuple[int, int, Callable[[NextPlayed], object]]] = {
    "create": (1, 45, lambda made: start(made.create())),
    "scale out": (46, 62, lambda made: bind(made.scale("decode", 3))),
    "delete a pod": (63, 70, lambda made: made.delete_pod(pod_at(made, "demo-0-router-0"))),
    "roll": (71, 92, lambda made: made.roll("router", "x:2", lambda: bind(made))),
    "scale in": (93, 135, lambda made: made.scale("decode", 1)),
}


def pod_at(made: Played, host: str) -> str:
    """The name of the pod with a host's name."""
    (found,) = (pod["metadata"]["name"] for pod in made.pods() if pod["spec"]["hostname"] == host)
    return str(found)


def recorded_life() -> dict[str, list[Step]]:
    parts = [recorded(FOLDER / "lifecycle", first, last) for first, last, _ in LIFE.values()]
    return dict(zip(LIFE, told(parts, "default"), strict=True))


@pytest.fixture
def life(namespace: str, play_next: PlayNext) -> dict[str, list[Step]]:
    """What the player sends in each part of the recorded life."""
    made = play_next(recorded_set("lifecycle", namespace))
    ends = [0]
    for _, _, happens in LIFE.values():
        happens(made)
        ends.append(len(made.sent))
    requests = played(made.sent)
    parts = [requests[begin:end] for begin, end in pairwise(ends)]
    return dict(zip(LIFE, told(parts, namespace), strict=True))


def unordered(found: list[Step]) -> list[str]:
    return sorted(json.dumps(step) for step in found)


def test_the_stand_in_sends_what_was_recorded_in_each_part_of_a_life(life: dict[str, list[Step]]) -> None:
    for part, recording in recorded_life().items():
        assert unordered(life[part]) == unordered(recording), part


def order(found: list[Step], *prefixes: str) -> list[int]:
    """For each of these beginnings of a step, where the first step with it is."""
    return [next(place for place, step in enumerate(found) if step.what.startswith(prefix)) for prefix in prefixes]


# What came before what, in every part in which both came.
ORDER = (
    ("create", "CREATE podgangmaps", "CREATE podcliques"),
    ("create", "CREATE podcliques demo-0-router", "CREATE pods demo-0-router"),
    ("create", "CREATE podcliques demo-0-decode-1-worker", "CREATE pods demo-0-decode-1-worker"),
    ("create", "CREATE podgangs demo-0-<epoch+0>", "CREATE podgangs demo-0-<epoch+1>-decode-1"),
    ("create", "CREATE podgangs demo-0-<epoch+1>-decode-1", "UPDATE pods"),
    ("create", "UPDATE pods demo-0-router", "UPDATE pods demo-0-decode-1"),
    ("create", "UPDATE pods demo-0-decode-0", "UPDATE pods demo-0-decode-1"),
    ("scale out", "CREATE podcliques", "UPDATE podgangmaps"),
    ("scale out", "UPDATE podgangmaps", "CREATE pods"),
    ("scale out", "CREATE pods", "CREATE podgangs"),
    ("scale out", "CREATE podgangs", "UPDATE pods"),
    ("delete a pod", "DELETE pods demo-0-router-0", "CREATE pods demo-0-router-0"),
    ("delete a pod", "CREATE pods demo-0-router-0", "UPDATE pods demo-0-router-0"),
    ("roll", "UPDATE podgangmaps", "DELETE pods"),
    ("roll", "DELETE pods demo-0-router-1", "CREATE pods demo-0-router-1"),
    ("roll", "UPDATE pods demo-0-router-1", "DELETE pods demo-0-router-0"),
    ("roll", "DELETE pods demo-0-router-0", "CREATE pods demo-0-router-0"),
    ("scale in", "UPDATE podgangmaps", "DELETE podgangs"),
    ("scale in", "DELETE podgangs", "DELETE podcliques"),
    ("scale in", "DELETE podcliques", "DELETE pods"),
)


def test_the_stand_in_keeps_the_recorded_order(life: dict[str, list[Step]]) -> None:
    for told_by in (recorded_life(), life):
        for part, earlier, later in ORDER:
            first, second = order(told_by[part], earlier, later)
            assert first < second, (part, earlier, later)


def test_the_stand_in_names_the_recorded_pods_in_each_podgang(namespace: str, play_next: PlayNext) -> None:
    made = play_next(recorded_set("lifecycle", namespace)).create()
    anchor, tail = (named(made.podgang(name), made.pods()) for name in made.podgangs)
    requests = recorded(FOLDER / "lifecycle", 1, 45)
    pods = [request.now for request in requests if (request.operation, request.resource) == ("CREATE", "pods")]
    last = {request.now["metadata"]["name"]: request.now for request in requests if request.resource == "podgangs"}
    assert [named(podgang, pods) for _, podgang in sorted(last.items())] == [anchor, tail]
    assert tail == [["demo-0-decode-1-leader-0"], [f"demo-0-decode-1-worker-{index}" for index in range(3)]]


def migrated(namespace: str, grove: Grove, play_next: PlayNext) -> tuple[NextPlayed, list[list[Step]]]:
    """A living set of the generation before, migrated; then a pod is deleted."""
    workload = recorded_set("migration", namespace)
    old = grove(workload).create()
    old.lift_gates()
    old.lift_gates("demo-0-decode-0")
    bind(old)
    made = play_next(workload).migrate()
    done = len(made.sent)
    made.delete_pod(pod_at(made, "demo-0-decode-0-worker-2"))
    requests = played([*old.sent, *made.sent])
    begun = len(old.sent)
    return made, told([requests[:begun], requests[begun : begun + done], requests[begun + done :]], namespace)


def test_the_stand_in_migrates_a_living_set_in_the_recorded_order(
    namespace: str, grove: Grove, play_next: PlayNext
) -> None:
    made, (before, migration, after) = migrated(namespace, grove, play_next)
    parts = [recorded(FOLDER / "migration", first, last) for first, last in ((1, 43), (44, 63), (64, 71))]
    recorded_before, recorded_migration, recorded_after = told(parts, "default")
    assert by_host(migration) == by_host(recorded_migration)
    assert after == recorded_after
    # The old player's PodCliques have other owners.
    assert unordered(of("podgangs", before)) == unordered(of("podgangs", recorded_before))
    assert unordered(of("pods", before)) == unordered(of("pods", recorded_before))
    for name in made.podgangs:
        own = [pod for pod in made.pods() if pod["metadata"]["labels"]["grove.io/podgang"] == name]
        hosts = [host for group in named(made.podgang(name), made.pods()) for host in group]
        assert sorted(hosts) == sorted(pod["spec"]["hostname"] for pod in own)


def of(resource: str, found: list[Step]) -> list[Step]:
    return [step for step in found if step.resource == resource]


def by_host(found: list[Step]) -> list[Step]:
    """The same with the pods between two other objects sorted: they come in the order of their random names."""
    places = accumulate(step.resource != "pods" for step in found)
    return [step for _, step in sorted(zip(places, found, strict=True), key=lambda placed: (placed[0], placed[1][:3]))]


def test_the_set_is_marked_while_the_stand_in_migrates(
    plane: ControlPlane, namespace: str, grove: Grove, play_next: PlayNext
) -> None:
    workload = recorded_set("migration", namespace)
    grove(workload).create()
    made, seen = play_next(workload), []
    for step in made.migration():
        stored = made.get("podcliquesets", made.name).get("status", {}).get("conditions", [])
        seen.append((step.split()[1], [one["status"] for one in stored if one["type"] == MIGRATING]))
    assert seen[0] == ("podcliquesets/status", ["True"])
    assert seen[-1] == ("podcliquesets/status", [])
    assert {marked for _, (marked,) in seen[:-1]} == {"True"}


def test_a_migration_that_was_interrupted_goes_on_where_it_was(
    namespace: str, grove: Grove, play_next: PlayNext
) -> None:
    workload = recorded_set("migration", namespace)
    grove(workload).create()
    interrupted, sent = play_next(workload).migration(), []
    # The mark, the map, a PodClique and its pod, another PodClique and the first of its pods.
    for step in interrupted:
        sent.append(step)
        if len(sent) == 6:
            break
    made = play_next(workload).migrate()
    assert made.podgangs == [podgang["metadata"]["name"] for podgang in made.items("podgangs", made.selector)]
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in made.pods()} == set(made.podgangs)
    again = [f"{one.operation} {one.resource} {one.name}" for one in made.sent]
    assert set(again) & set(sent) == {"UPDATE podcliquesets/status demo"}
