"""Several clients at once, against a real API server and a judging server: valid objects are never refused, in any
order and at any speed, and faults that no cache can know yet are found later.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Reconcilers, Rollcall
from tests.e2e.gang_writer import path_of, why
from tests.e2e.judged_objects import branch, composite, leaf, member, of, pod_group, workload
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess, forget_lease
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.schedulers import SECOND_NAME
from tests.e2e.test_judged_objects import CONFIG, api_path, placed, send

pytestmark = pytest.mark.soak

CLIENTS = 8
WARNED_OF = {"kube/workload-missing", "kube/parent-missing", "kube/pod-group-missing"}


@pytest.fixture
def asked(plane: ControlPlane, rollcall: Rollcall) -> RollcallServer:
    return rollcall(plane, CONFIG)


def branched(name: str) -> Manifest:
    return branch(name, 4, *(leaf(f"{name}-{index}") for index in range(4)))


def tree() -> list[Manifest]:
    """A tree of three levels: a root, two composites, eight PodGroups, and their sixteen pods."""
    halves = {"compositePodGroupTemplates": [branched("left"), branched("right")]}
    root = {**branch("root", 2), **halves}
    del root["podGroupTemplates"]
    found = [workload(root), composite("demo-root", count=2)]
    for half in ("left", "right"):
        found.append(composite(f"demo-{half}", "demo-root", template=half, count=4))
        for index in range(4):
            name = f"demo-{half}-{index}"
            found.append(pod_group(name, f"demo-{half}", **of(f"{half}-{index}")))
            found += [member(name, name=f"{name}-{number}") for number in range(2)]
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_eight_clients_can_create_a_tree_in_any_order(
    plane: ControlPlane, asked: RollcallServer, namespace: str, seed: int
) -> None:
    objects = [placed(one, plane, namespace, "demo") for one in tree()]
    random.Random(seed).shuffle(objects)  # noqa: S311 - an order, and no secret
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda one: send(plane, one), objects))
    for answer in answers:
        assert answer.is_success, why(answer)
        told = answer.headers.get("warning", "")
        assert told.count("kube/") == sum(told.count(rule) for rule in WARNED_OF), told
    # Created once more, there are no warnings: every object exists and is known.
    for one in objects:
        again = {**one, "metadata": {**one["metadata"], "name": f"{one['metadata']['name']}-x"}}

        def no_warning(again: Manifest = again) -> bool:
            answer = send(plane, again, dry=True)
            assert answer.is_success, why(answer)
            assert "kube/" not in answer.headers.get("warning", "")
            return True

        eventually(no_warning, f"all that {one['metadata']['name']} needs is known")


# Of so many pairs some are created in the same millisecond, and most are not.
PAIRS = 24


@pytest.fixture
def following(plane: ControlPlane, reconciler: Reconcilers, namespace: str) -> ReconcilerProcess:
    """A reconciler for the test's own namespace: other tests leave circles behind on purpose."""
    forget_lease(plane)
    found = reconciler(CONFIG, f"--namespace={namespace}")
    found.until_leading()
    return found


def create_in_pairs(plane: ControlPlane, namespace: str) -> tuple[list[tuple[str, str]], int]:
    """Two clients, and PAIRS times each creates a group below the other's: the names in those pairs of which both are
    stored, and the number of the others, of which one was refused.
    """
    together = Barrier(2)

    def created(manifest: Manifest) -> httpx.Response:
        together.wait(timeout=30)
        return send(plane, manifest)

    circles, refusals = [], 0
    with ThreadPoolExecutor(2) as clients:
        for pair in range(PAIRS):
            names = f"demo-{pair}-a", f"demo-{pair}-b"
            two = [composite(*names), composite(*reversed(names))]
            answers = list(clients.map(created, [placed(one, plane, namespace, "demo") for one in two]))
            refused = [answer for answer in answers if not answer.is_success]
            assert len(refused) <= 1, "neither could be created"
            refusals += len(refused)
            for answer in refused:
                assert "kube/tree-cycle" in answer.json()["message"]
            if not refused:
                circles.append(names)
    return circles, refusals


def circle_events(plane: ControlPlane, namespace: str) -> list[str]:
    """The uids of the CompositePodGroups with an event about a circle, in order."""
    found = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    circled = [event for event in found if event["reason"] == "GroupCircle"]
    assert {event["regarding"]["kind"] for event in circled} <= {"CompositePodGroup"}
    return sorted(event["regarding"]["uid"] for event in circled)


def uids(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Of each CompositePodGroup that is stored."""
    found = plane.items(f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{namespace}/compositepodgroups")
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def test_a_circle_that_two_clients_close_is_always_reported(
    plane: ControlPlane, asked: RollcallServer, following: ReconcilerProcess, namespace: str
) -> None:
    """The second reads the first live, and is refused. Two that are judged before either is stored cannot know of each
    other: then there is a circle, and both groups get an event, and a user who creates a group below it a warning.
    """
    circles, refusals = create_in_pairs(plane, namespace)
    assert len(circles) + refusals == PAIRS
    stored = uids(plane, namespace)
    in_circles = sorted(stored[name] for circle in circles for name in circle)

    def all_have_events() -> bool:
        assert circle_events(plane, namespace) == in_circles
        assert following.metric("rollcall_group_circles") == len(circles)
        return True

    eventually(
        all_have_events, "both groups of each circle are told, no others are, and the circles counted", timeout=20
    )
    for name, _ in circles:
        below = placed(pod_group(f"{name}-worker", name), plane, namespace, "demo")

        def told(below: Manifest = below) -> bool:
            answer = send(plane, below, dry=True)
            assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
            assert "kube/tree-cycle" in answer.json()["message"]
            return True

        eventually(told, "a group below the circle is refused", timeout=10)


def test_recreating_one_group_without_a_parent_ends_a_circle(
    plane: ControlPlane, asked: RollcallServer, following: ReconcilerProcess, namespace: str
) -> None:
    """Closed without a webhook, so that there is one. Its event says what to do, and doing that helps."""
    root = placed(composite("demo-a"), plane, namespace, "demo")
    asked.unregister()
    try:
        for names in (("demo-a", "demo-b"), ("demo-b", "demo-a")):
            half = placed(composite(*names), plane, namespace, "demo")

            def created(half: Manifest = half) -> bool:
                answer = send(plane, half)
                assert answer.is_success, why(answer)
                return True

            eventually(created, "the webhook is no longer called")
    finally:
        asked.register()
    both = sorted(uids(plane, namespace).values())

    def told() -> bool:
        assert circle_events(plane, namespace) == both
        return True

    eventually(told, "both are told")
    assert following.metric("rollcall_group_circles") == 1
    described = plane.kubectl("describe", "compositepodgroup", "demo-b", "-n", namespace).out
    assert "GroupCircle" in described
    assert "demo-a and demo-b are parents of each other" in described
    plane.http.delete(path_of(root)).raise_for_status()

    def allowed() -> bool:
        answer = send(plane, root)
        assert answer.is_success, why(answer)
        return True

    eventually(allowed, "the root is recreated without a parent")
    eventually(lambda: following.metric("rollcall_group_circles") == 0, "no circle is counted any more")
    assert circle_events(plane, namespace) == both


def test_the_creator_of_a_pod_below_an_undetected_circle_is_warned(
    plane: ControlPlane, asked: RollcallServer, namespace: str
) -> None:
    """The groups came first, and the circle without a webhook: by deleting a root, and creating it below."""
    group = pod_group("demo-worker", "demo-a")
    for one in (composite("demo-a"), composite("demo-b", "demo-a"), group):
        assert send(plane, placed(one, plane, namespace, "demo")).is_success
    root = placed(composite("demo-a", "demo-b"), plane, namespace, "demo")
    asked.unregister()
    try:
        plane.http.delete(path_of(root)).raise_for_status()

        def created() -> bool:
            answer = send(plane, root)
            assert answer.is_success, why(answer)
            return True

        eventually(created, "the webhook is no longer called")
    finally:
        asked.register()

    def told() -> bool:
        ran = plane.apply(placed(member(), plane, namespace, "demo"), options=["--dry-run=server"])
        assert ran.code, ran.out
        assert "kube/pod-cycle" in ran.err
        return True

    eventually(told, "kubectl shows why the pod would wait for ever")


def test_under_strict_order_two_clients_cannot_close_a_circle(
    plane: ControlPlane, asked: RollcallServer, namespace: str
) -> None:
    """Each names a group that must be there first, and so neither can be created."""
    labels = {"metadata": {"labels": {"rollcall.dev/creation-order": "strict"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=labels, headers=headers).raise_for_status()
    first, second = (
        placed(one, plane, namespace, "demo") for one in (composite("demo-a", "demo-b"), composite("demo-b", "demo-a"))
    )

    def strict() -> bool:
        assert send(plane, first, dry=True).status_code == httpx.codes.UNPROCESSABLE_ENTITY
        return True

    eventually(strict, "the server knows of the label")
    with ThreadPoolExecutor(2) as clients:
        answers = list(clients.map(lambda one: send(plane, one), [first, second]))
    assert {answer.status_code for answer in answers} == {httpx.codes.UNPROCESSABLE_ENTITY}


def test_a_deleted_or_bound_pod_causes_no_warning_for_other_pods(
    plane: ControlPlane, asked: RollcallServer, namespace: str
) -> None:
    """The cache may lag; the other pod is read live before a refusal."""
    first = placed(member(name="demo-first", schedulerName=SECOND_NAME), plane, namespace, "demo")
    odd = placed(member(), plane, namespace, "demo")
    assert send(plane, placed(pod_group(), plane, namespace, "demo")).is_success
    for leaves in (deleted, bound):
        stored = send(plane, first)
        assert stored.is_success, why(stored)

        def refused() -> bool:
            answer = send(plane, odd, dry=True)
            assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
            told = answer.json()["message"]
            assert "kube/pod-schedulers at spec.schedulerName" in told
            assert "demo-first of its group waits for batch-scheduler" in told
            return True

        eventually(refused, "the first pod is known", timeout=10)
        leaves(plane, first)
        answer = send(plane, odd, dry=True)
        assert answer.is_success, f"{leaves.__name__}: {why(answer)}"


def deleted(plane: ControlPlane, pod: Manifest) -> None:
    """The pod is gone at once: it is on no node."""
    plane.http.delete(api_path(pod)).raise_for_status()


def bound(plane: ControlPlane, pod: Manifest) -> None:
    """The pod is given a node, as schedulers do it."""
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    plane.http.post(f"{api_path(pod)}/binding", json=binding).raise_for_status()


def test_of_two_pods_created_at_once_for_two_schedulers_at_least_one_gets_a_warning(
    plane: ControlPlane, asked: RollcallServer, namespace: str
) -> None:
    """Two pods that are judged before either is stored cannot know each other; the next pod gets the warning."""
    together = Barrier(2)

    def created(manifest: Manifest) -> httpx.Response:
        together.wait(timeout=30)
        return send(plane, manifest)

    pairs = []
    with ThreadPoolExecutor(2) as clients:
        for pair in range(PAIRS):
            name = f"demo-{pair}"
            assert send(plane, placed(pod_group(name), plane, namespace, "demo")).is_success
            two = [member(name, f"{name}-a"), member(name, f"{name}-b", schedulerName=SECOND_NAME)]
            answers = list(clients.map(created, [placed(one, plane, namespace, "demo") for one in two]))
            refused = [answer for answer in answers if not answer.is_success]
            assert len(refused) <= 1, "neither could be created"
            for answer in refused:
                assert "kube/pod-schedulers" in answer.json()["message"]
            if not refused:
                pairs.append(name)
    for name in pairs:
        third = placed(member(name, f"{name}-c"), plane, namespace, "demo")

        def told(third: Manifest = third) -> bool:
            answer = send(plane, third, dry=True)
            assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
            assert "kube/pod-schedulers" in answer.json()["message"]
            return True

        eventually(told, "the next pod of the group is refused", timeout=10)
