"""Gangs that an upgrade of Grove has stranded under a release up to 0.3.0, whose objects went with their PodGangs: what
Rollcall repairs, and what it says is to be done by hand.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Leader, Nodes, PlayNext, Rollcall, Scheduler
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.kube_configuration import configuration
from tests.e2e.living_sets import PODS, anchor_and_tail, until_alive, until_bound
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.rollcall_server import rollcall as command
from tests.e2e.stored_gangs import StoredGangs

pytestmark = pytest.mark.soak

LABEL = "pod-group.scheduling.sigs.k8s.io"
SET = {("PodCliqueSet", "demo")}


def gangs_of(plane: ControlPlane, server: RollcallServer, namespace: str) -> dict[str, dict[str, Any]]:
    """What `rollcall gangs` says of each gang, by name."""
    printed = command(
        "gangs", "-n", namespace, "-o", "json", f"--config={server.config}", f"--kubeconfig={plane.kubeconfig}"
    )
    return {one["name"]: one for one in json.loads(printed)["gangs"]}


def pod_of(made: NextPlayed, podclique: str) -> Manifest:
    """The only pod of a PodClique."""
    (found,) = (pod for pod in made.pods() if pod["metadata"]["labels"]["grove.io/podclique"] == podclique)
    return found


def touch(made: NextPlayed) -> None:
    """Change the running pods a little, as their kubelets do now and then."""
    for name in made.bound():
        made.patch("pods", name, {"metadata": {"annotations": {"example.com/touched": "yes"}}})


def second_objects(objects: dict[str, Manifest], made: NextPlayed) -> list[Manifest]:
    """The PodGroups that releases up to 0.3.0 wrote again, under the names of the new PodGangs."""
    found = []
    for name, first in zip(made.podgangs, ("demo-0", "demo-0-decode-0"), strict=True):
        mine = [one for one in objects.values() if one["metadata"]["labels"]["grove.io/podgang"] == first]
        names = {one["metadata"]["labels"]["grove.io/podclique"]: one["metadata"]["name"] for one in mine}
        groups = json.dumps([f"{made.namespace}/{name}-{clique}" for clique in names])
        for one in mine:
            metadata = one["metadata"]
            podclique = metadata["labels"]["grove.io/podclique"]
            owner = metadata["ownerReferences"][0] | {"name": name, "uid": made.podgang(name)["metadata"]["uid"]}
            again = {
                "name": f"{name}-{podclique}",
                "namespace": made.namespace,
                "labels": metadata["labels"] | {"grove.io/podgang": name},
                "annotations": metadata["annotations"] | {"gang.scheduling.koordinator.sh/groups": groups},
                "ownerReferences": [owner],
            }
            found.append({**{key: one[key] for key in ("apiVersion", "kind", "spec")}, "metadata": again})
    return found


def test_a_gang_with_second_objects_gets_its_first_ones_back_and_its_stray_pod_is_named(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    leader: Leader,
    namespace: str,
    nodes: Nodes,
    grove: Grove,
    play_next: PlayNext,
) -> None:
    scheduler(plane, "koordinator")
    nodes(2, cpu=PODS)
    server, stored = rollcall(plane, KOORDINATOR), StoredGangs(plane, "koordinator", namespace)
    workload = anchor_and_tail("demo", namespace)
    old = grove(workload).create()
    stored.write_as_released(old)
    until_alive([old])
    first = stored.objects()
    made = play_next(workload).migrate()
    eventually(lambda: stored.objects() == {}, "the objects went with their PodGangs")
    again = second_objects(first, made)
    stored.write(*again)
    anchor, tail = made.podgangs

    def joins_the_second() -> bool:
        made.delete_pod(pod_of(made, "demo-0-router")["metadata"]["name"])
        labels: Manifest = pod_of(made, "demo-0-router")["metadata"]["labels"]
        return bool(labels[LABEL] == f"{anchor}-demo-0-router")

    # The webhook hears of the second objects a moment later.
    eventually(joins_the_second, "the replacement joins the second gang")
    stray = pod_of(made, "demo-0-router")["metadata"]["name"]
    living = {pod["metadata"]["uid"] for pod in made.pods() if pod["metadata"]["name"] != stray}

    leader(KOORDINATOR)
    eventually(lambda: stored.objects().keys() == first.keys(), "the first objects are back, and no others exist")
    assert stored.controllers() == SET
    # koord-scheduler forgets the pods of a PodGroup that was deleted until each of them changes, or until it restarts.
    touch(made)
    # A gang without a stray pod is whole.
    made.delete_pod(pod_of(made, "demo-0-decode-1-worker")["metadata"]["name"])
    eventually(lambda: len(made.bound()) == PODS - 1, "the replaced pod starts", timeout=30)
    told = gangs_of(plane, server, namespace)
    assert told[tail]["state"] == "started"
    assert told[anchor]["state"] == "inPart"
    assert [(one["pod"], one["escape"]) for one in told[anchor]["escaped"]] == [(stray, "foreign")]
    ((why, remedy),) = (
        (one["why"], one["remedy"]) for one in told[anchor]["reasons"] if one["reason"] == "GangPodsEscaped"
    )
    assert why == f"1 pod ({stray}) marked for another gang or another gang scheduler"
    assert f"kubectl delete pod {stray} -n {namespace}" in remedy

    made.delete_pod(stray)
    until_bound([made], PODS)
    assert {gang["state"] for gang in gangs_of(plane, server, namespace).values()} == {"started"}
    assert len(living & {pod["metadata"]["uid"] for pod in made.pods()}) == PODS - 2


def test_on_kube_scheduler_it_is_said_how_leaving_pod_groups_are_freed(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    leader: Leader,
    namespace: str,
    nodes: Nodes,
    grove: Grove,
    play_next: PlayNext,
) -> None:
    """PodGroups stay while their pods run, so they cannot be written again under the same names."""
    scheduler(plane, "kube")
    nodes(2, cpu=PODS)
    server, stored = rollcall(plane, configuration()), StoredGangs(plane, "kube", namespace)
    workload = anchor_and_tail("demo", namespace)
    old = grove(workload).create()
    stored.write_as_released(old)
    until_alive([old])
    first = {name for name in stored.objects() if name.startswith("podgroups/")}
    made = play_next(workload).migrate()
    eventually(lambda: stored.leaving() == first == stored.objects().keys(), "the PodGroups are being deleted")
    leader(configuration())
    anchor, _ = made.podgangs
    living = {pod["metadata"]["uid"] for pod in made.pods()}
    made.delete_pod(pod_of(made, "demo-0-router")["metadata"]["name"])
    living &= {pod["metadata"]["uid"] for pod in made.pods()}

    told = gangs_of(plane, server, namespace)[anchor]
    assert told["state"] == "inPart"
    remedies = [one["remedy"] for one in told["reasons"] if one["reason"] == "GangObjectLeaving"]
    assert len(remedies) >= 2
    for remedy in remedies:
        plane.kubectl(*shlex.split(remedy.partition(": kubectl ")[2]), check=True)
    until_bound([made], PODS)
    assert gangs_of(plane, server, namespace)[anchor]["state"] == "started"
    assert living < {pod["metadata"]["uid"] for pod in made.pods()}
