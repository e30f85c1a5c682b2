"""A pod of the maximum size that the API server allows: it is cached, and counts like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.reconciler.gated_pods import GATED, OURS, Opened, pod
from tests.unit.reconciler.grove import put_pods
from tests.unit.reconciler.running_reconciler import podgang, running, settled, world
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.gangs.escapes import Escape, Escapes
from webhook.gangs.members import POD_BYTES, read_gang_pod, read_opted_in_pod
from webhook.model.bounds import weight
from webhook.model.facts import NO_FACTS
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import prepare_pod

# What the API server takes of the annotations of one object, in all.
ANNOTATIONS_BYTES = 256 * 1024
QUEUE = "example.com/queue"
KAI = settings_of("kai-scheduler", {"queueLabelKey": QUEUE}, standalone=False)
RECORD = Record("kai-scheduler", queues=((QUEUE, "research"),))
# Keys of a tenant, which come before those that are read in whatever order these are looked at.
NOISE = {f"a.example.com/{index}": "x" * 60 for index in range(ANNOTATIONS_BYTES // 80)}


def large(found: dict[str, Any]) -> dict[str, Any]:
    """The pod with all that its author may add."""
    metadata, spec = found["metadata"], found["spec"]
    # The API server sorts keys.
    metadata["labels"] = {**NOISE, **metadata["labels"]}
    metadata["annotations"] = {**NOISE, **metadata.get("annotations", {})}
    spec["readinessGates"] = [{"conditionType": key} for key in NOISE]
    return found


async def test_pods_with_the_largest_tenant_metadata_complete_their_gang() -> None:
    cluster = world("demo-0-a")
    opened = Opened(cluster)
    put_pods(cluster, large(pod("p", OURS)), large(pod("q", OURS)))
    async with running(cluster, settings=GATED) as found:
        await until(lambda: sorted(opened.order) == ["p", "q"])
        assert [watch.index.left_out for kind, watch in found.following._pods.watches() if kind == "Pod"] == [set()]


async def test_a_pod_with_many_gates_blocks_its_gang_until_only_ours_is_left() -> None:
    others = [f"a.example.com/{index}" for index in range(20)]

    cluster = world("demo-0-a")
    opened = Opened(cluster)
    put_pods(cluster, pod("p", *others, OURS), pod("q", OURS))
    async with running(cluster, settings=GATED) as found:
        await settled(found)
        assert opened.order == []
        for gate in others:
            opened.free("p", gate)
        await until(lambda: sorted(opened.order) == ["p", "q"])
    _, read = read_gang_pod(pod("p", *others, OURS))
    assert (read.gate, len(read.gates)) == (20, 8)
    assert read_gang_pod(pod("p", *others))[1].gate is None


def test_the_cached_part_of_any_pod_is_complete_and_bounded() -> None:
    raw = large(pod("p", *(f"{index}{'a' * 300}" for index in range(100)), OURS))
    raw["metadata"]["labels"] |= {"batch.kubernetes.io/job-name": "j" * 63}
    raw["metadata"]["annotations"] |= {"rollcall.dev/stamp": "x" * 100_000, "pod-group-name": "y" * 100_000}
    raw["spec"] |= {"schedulerName": "s" * 100_000, "resourceClaims": [{"name": key} for key in NOISE]}
    condition = {"type": "PodScheduled", "status": "False", "reason": "r" * 5000, "message": "m" * 100_000}
    raw["status"] = {"conditions": [condition]}
    key, read = read_gang_pod(raw)
    assert weight((key, read), 2 * POD_BYTES) <= POD_BYTES
    assert read.cut == {"labels", "annotations", "spec"}
    # A text that is too long to be a name equals no other.
    stamp, group = (str(read.annotations[key]) for key in ("rollcall.dev/stamp", "pod-group-name"))
    assert (len(stamp) < 120, len(group) < 120, stamp != group) == (True, True, True)
    assert (read.podgang, read.podclique, read.gate) == ("demo-0", "demo-0-a", 100)
    assert read.labels["batch.kubernetes.io/job-name"] == "j" * 63


def test_an_ordinary_pod_is_cached_without_its_unused_fields() -> None:
    raw = pod("p", "a")
    raw["metadata"]["annotations"] = {
        "example.com/status": "x" * 5000,
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    raw["spec"] |= {"containers": [{"name": "main"}], "restartPolicy": "Always", "example": {"of": "a backend"}}
    _, read = read_gang_pod(raw)
    assert read.annotations == {"example.com/status": "x" * 5000}
    assert read.spec == {"restartPolicy": "Always", "example": {"of": "a backend"}}
    assert (read.labels, read.cut) == (raw["metadata"]["labels"], frozenset())


def test_an_impossible_controller_reference_creates_no_gang() -> None:
    raw = pod("p")
    name = "n" * 100_000
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    raw["metadata"]["ownerReferences"] = [controller]
    key, read = read_opted_in_pod(raw)
    assert (read.kind, read.workload, read.controller) == ("", "", None)
    assert weight((key, read)) <= POD_BYTES


def escape_of(change: Callable[[Manifest], object]) -> Escape | None:
    """How a large pod escaped that the webhook prepared for KAI and its author then changed."""
    profile = KAI.profiles["kai-scheduler"]
    raw = pod("p")
    prepare_pod(Pod(raw), profile, profile.member("team-a", "demo-0", "demo-0-a", RECORD, NO_FACTS))
    change(large(raw))
    found = Escapes(PodGang(podgang("demo-0-a")), profile, RECORD, NO_FACTS).find_escape(read_gang_pod(raw)[1])
    return None if found is None else found.escape


def test_the_escape_of_a_large_pod_is_judged_by_fields_that_are_always_cached() -> None:
    assert escape_of(lambda _: None) is None
    # A key of an administrator's own choice may be among what is not kept.
    assert escape_of(lambda raw: raw["metadata"]["labels"].pop(QUEUE)) is None
    assert escape_of(lambda raw: raw["metadata"]["labels"].pop("kai.scheduler/subgroup-name")) is Escape.STALE
    assert escape_of(lambda raw: raw["metadata"]["annotations"].pop("rollcall.dev/stamp")) is Escape.UNMUTATED
    assert escape_of(lambda raw: raw["spec"].pop("schedulerName")) is Escape.STALE
    assert escape_of(lambda raw: raw["metadata"]["annotations"].update({"pod-group-name": "other"})) is Escape.FOREIGN
