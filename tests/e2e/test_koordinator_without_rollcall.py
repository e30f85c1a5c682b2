"""The real koord-scheduler without Rollcall, with faulty gang objects: it waits without a message, or it starts a part.
A rule refuses each case: see `koordinator_gangs`.

Nothing is waited for that might not happen: a pod without a gang is created last, and when that one is bound the
scheduler has seen the others, too.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Scheduler
from tests.e2e.gang_writer import why
from tests.e2e.koordinator_gangs import ANNOTATION, LABEL, MINIMUM, WRONG, created, moved
from tests.e2e.programs import eventually
from webhook.backends.koordinator.gang_groups import gather, pod, pod_group

pytestmark = [pytest.mark.beside, pytest.mark.soak]
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Story(NamedTuple):
    """Objects, which of their pods are bound, what the others hear, and the case for which Rollcall refuses them."""

    objects: tuple[Manifest, ...]
    bound: tuple[str, ...]
    hears: str
    case: str


def member(name: str, gang: str) -> Manifest:
    """A pod of the newer way."""
    return named(name, pod(labels={LABEL: gang}))


def named(name: str, manifest: Manifest) -> Manifest:
    """The same under another name."""
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def annotated(name: str, minimum: str) -> Manifest:
    """A pod of the older way."""
    return named(name, pod(annotations={ANNOTATION: "worker", MINIMUM: minimum}))


def listing(name: str, groups: str) -> Manifest:
    """A PodGroup with this as its list."""
    return pod_group(name, settings={"groups": groups})


LEADERS = (member("leader-0", "leader"), member("leader-1", "leader"))
WORKERS = (member("worker-0", "worker"), member("worker-1", "worker"))
NOTHING = ""

STORIES: dict[str, Story] = {
    # basicGangRequirementsCheck looks "worker" up by namespace and name, and never finds it: PreEnqueue rejects every
    # pod, which leaves no event and no condition.
    "a member without a namespace is waited for for ever": Story(
        (listing("leader", '["default/leader","worker"]'), pod_group("worker"), *LEADERS), (), NOTHING,
        "a member without a namespace",
    ),
    # Go keeps what it could read of a list of mixed types, with "" in place of the number.
    "a member that is no string is waited for for ever": Story(
        (listing("leader", '["default/leader",1]'), *LEADERS), (), NOTHING, "a member that is a number"
    ),
    # The gang is never initialised, and its pods are held like those of a gang that is not there.
    "a minimum that is no whole number holds the pods": Story(
        (annotated("worker-0", "2.0"), annotated("worker-1", "2.0")), (), NOTHING, "a minimum with a point"
    ),
    # The label wins: the gang of the annotation lacks a pod, whatever the annotation says.
    "of two names only the label's counts": Story(
        (
            pod_group("leader"), pod_group("worker"), LEADERS[0], WORKERS[0],
            named("both", pod(labels={LABEL: "worker"}, annotations={ANNOTATION: "leader"})),
        ),
        ("both", "worker-0"), NOTHING, "a label and an annotation that disagree",
    ),
    # No tree of domains is there, so the topology of no gang can be planned.
    "without a ClusterNetworkTopology every pod of a gang with a topology fails": Story(
        (
            pod_group("leader", settings=gather({"layer": "SpineLayer", "strategy": "MustGather"})), *LEADERS,
        ),
        (), "topology", "a topology without a ClusterNetworkTopology",
    ),
    # What is no JSON array is a line in the scheduler's log, and the list is the gang itself.
    "a list that is no JSON starts a gang without the others": Story(
        (
            listing("leader", "default/leader,default/worker"), pod_group("worker", "leader", "worker"),
            *LEADERS, WORKERS[0],
        ),
        ("leader-0", "leader-1"), NOTHING, "a list that is no JSON",
    ),
    # Each pod asks its own list only: the workers' says nothing of the leader.
    "a member that lists only itself starts without the others": Story(
        (pod_group("leader", "leader", "worker"), pod_group("worker", "worker"), LEADERS[0], *WORKERS),
        ("worker-0", "worker-1"), NOTHING, "a member that lists only itself",
    ),
    # The multiple is quoted, so nothing of the topology is read: it starts where there is none.
    "one value of a wrong type drops the whole topology": Story(
        (
            pod_group(
                "leader", settings=gather({"layer": "SpineLayer", "strategy": "MustGather", "podCountMultiple": "2"})
            ),
            *LEADERS,
        ),
        ("leader-0", "leader-1"), NOTHING, "a multiple that is a string",
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_without_rollcall_koord_scheduler_behaves_as_the_rules_say(
    plane: ControlPlane,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    story: Story,
) -> None:
    assert "v-rollcall" not in [hook["metadata"]["name"] for hook in plane.items(HOOKS)]
    assert WRONG[story.case].refused
    scheduler(plane, "koordinator")
    # Room for all of them.
    nodes(1, cpu=64)
    for manifest in (*story.objects, named("last", pod())):
        answer = created(plane, moved(manifest, namespace))
        assert answer.is_success, why(answer)

    def as_told() -> bool:
        assert bound(plane, namespace) == {*story.bound, "last"}
        return True

    eventually(as_told, f"{story.bound} and the last pod are bound")
    waiting = {manifest["metadata"]["name"] for manifest in story.objects if manifest["kind"] == "Pod"} - {*story.bound}

    def heard() -> bool:
        assert any(story.hears in message for message in messages(plane, namespace, waiting))
        return True

    if story.hears:
        eventually(heard, f"an event says {story.hears}")
    else:
        assert messages(plane, namespace, waiting) == []
    as_told()


def bound(plane: ControlPlane, namespace: str) -> set[str]:
    """The pods that are on a node."""
    pods = plane.items(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def messages(plane: ControlPlane, namespace: str, pods: set[str]) -> list[str]:
    """What the events of these pods say."""
    events = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [event["note"] for event in events if event["regarding"]["name"] in pods]
