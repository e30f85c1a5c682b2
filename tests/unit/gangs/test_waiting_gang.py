"""The shape of a gang that waits: what the answer about it depends on, and the names in the answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gangs.judged_gangs import pod, podgang
from tests.unit.worlds import koordinator
from webhook.fit.verdict import FitFamily, FitScope, Witness
from webhook.gangs.members import GangPod, read_gang_pod, spec_text
from webhook.gangs.pod_reasons import tallies
from webhook.gangs.waiting_gang import WaitingGang, WaitingPodShape, fill_names, pod_shapes, shape_key
from webhook.model.fields import SPEC
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.validators.examples import job_set, replicated
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import gangs_of


def stored(name: str, *, labels: Any = None, annotations: Any = None, **spec: Any) -> GangPod:
    own = {"grove.io/podgang": "demo-0", "grove.io/podclique": "demo-0-worker", **(labels or {})}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": own, "annotations": annotations or {}}
    containers = [{"name": "main", "image": name, "env": [{"name": "A", "value": name}]}]
    return read_gang_pod({"metadata": metadata, "spec": {"containers": containers, **spec}})[1]


def shapes(*pods: GangPod) -> dict[str, WaitingPodShape]:
    return pod_shapes(tallies(PodGang(podgang()), pods))


def test_pods_that_differ_in_names_only_have_one_shape() -> None:
    first = stored("a", labels={"batch.kubernetes.io/job-completion-index": "0", "team": "x"})
    sealed = {"rollcall.dev/seal": "demo-0/demo-0-worker/0123456789ab"}
    second = stored("b", labels={"batch.kubernetes.io/job-completion-index": "1", "team": "x"}, annotations=sealed)
    assert shapes(first, second) == {
        "demo-0-worker": WaitingPodShape('{"containers":[{"name":"main"}]}', (("team", "x"),), ())
    }


def test_equal_pods_share_one_text_and_a_pod_on_a_node_has_none() -> None:
    first, second = stored("a", nodeSelector={"zone": "z"}), stored("b", nodeSelector={"zone": "z"})
    assert first.needs is second.needs
    assert first.needs == '{"containers":[{"name":"main"}],"nodeSelector":{"zone":"z"}}'
    assert stored("c", nodeName="n1").needs is None


@pytest.mark.parametrize(
    "other",
    [
        stored("b", nodeSelector={"zone": "z"}),
        stored("b", labels={"quota.scheduling.koordinator.sh/name": "small"}),
        stored("b", annotations={"gpu-fraction": "0.5"}),
        stored("b", nodeName="n1"),
        stored("b")._replace(cut=frozenset({"labels"})),
    ],
    ids=["spec", "label", "annotation", "on a node", "labels that were shortened"],
)
def test_a_member_whose_pods_differ_or_are_not_known_whole_is_left_out(other: GangPod) -> None:
    assert shapes(stored("a"), other) == {}


def test_a_name_that_a_selector_reads_counts() -> None:
    term = {"labelSelector": {"matchLabels": {"job-name": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = shapes(stored("a", labels={"job-name": "a"}, affinity=affinity))["demo-0-worker"]
    assert found.labels == (("job-name", "a"),)
    assert shapes(stored("a", labels={"job-name": "a"}))["demo-0-worker"].labels == ()


def test_a_spec_that_is_too_long_is_not_kept() -> None:
    assert spec_text({"nodeSelector": {f"key-{index}": "value" for index in range(1000)}}) is None


def gang(name: str, **metadata: Any) -> WaitingGang:
    raw = podgang(**metadata)
    raw["metadata"]["name"] = name
    for group in raw["spec"]["podgroups"]:
        group["name"] = group["name"].replace("demo-0", name)
    seen = PodGang(raw)
    shape = pod_shapes(tallies(PodGang(podgang()), [pod("worker", 0)]))["demo-0-worker"]
    profile = koordinator(standalone=False).profiles["koord-scheduler"]
    pods = {member.name: shape for member in seen.members}
    return WaitingGang(seen, None, profile, Record("koord-scheduler"), pods, dict.fromkeys(pods, 2))


def test_gangs_that_differ_in_names_only_have_one_key() -> None:
    assert shape_key(gang("demo-0")) == shape_key(gang("other-3", labels={"app.kubernetes.io/part-of": "other"}))


@pytest.mark.parametrize(
    "other",
    [
        gang("demo-0", namespace="team-b"),
        gang("demo-0", annotations={"grove.io/topology-name": "racks"}),
        gang("demo-0")._replace(record=Record("koord-scheduler", quota="small")),
        gang("demo-0")._replace(pods={}),
        gang("demo-0")._replace(counts={}),
    ],
    ids=["namespace", "topology", "record", "pods", "number of pods"],
)
def test_gangs_that_differ_in_more_have_keys_of_their_own(other: WaitingGang) -> None:
    assert shape_key(gang("demo-0")) != shape_key(other)


def of_job_set(**annotations: str) -> WaitingGang:
    workers = replicated("worker", 4, replicas=2, metadata={"annotations": annotations})
    (own,) = gangs_of(JobSet(job_set(workers)))
    known = gang("demo-0")
    pods = dict.fromkeys((member.name for member in own.members), next(iter(known.pods.values())))
    return known._replace(podgang=own, pods=pods, counts=dict.fromkeys(pods, 8))


def test_gangs_of_job_sets_whose_jobs_ask_for_another_topology_have_keys_of_their_own() -> None:
    assert shape_key(of_job_set()) == shape_key(of_job_set())
    assert shape_key(of_job_set()) != shape_key(of_job_set(**{"kai.scheduler/topology": "dc"}))


def test_the_names_of_a_gang_are_put_into_the_proof() -> None:
    proof = Witness(
        FitFamily.NODE, FitScope.ON_THESE_NODES, SPEC, 1, "a pod of <1> fits no node", "shrink <1>", "C1", ("<1>",)
    )
    found = fill_names(proof, ["demo-0-leader", "demo-0-worker"])
    assert (found.why, found.remedy, found.members) == (
        "a pod of demo-0-worker fits no node",
        "shrink demo-0-worker",
        ("demo-0-worker",),
    )
