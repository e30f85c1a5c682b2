"""Numbers that are negative or overflow prove nothing, and taints have their names."""

from __future__ import annotations

import pytest

from tests.unit.fit.trap_world import GPU, may_start, of, pods
from tests.unit.fit.trap_world import node as plain_node
from tests.unit.fit.workload_fits import NO_LIMITS, entry, job, node, verdict
from webhook.errors import InputError
from webhook.fit.verdict import FitAnswer

BIG = "cpu: '8', memory: 64Gi, pods: '110', nvidia.com/gpu: '8'"
QUOTA = (
    "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: team}}, spec: {{hard: {{{hard}}}}}}}\n---\n"
    "{{apiVersion: v1, kind: LimitRangeList, items: []}}\n---\n"
)
RANGE = (
    "{{apiVersion: v1, kind: LimitRange, metadata: {{name: r, namespace: team}}, "
    "spec: {{limits: [{{type: Container, max: {{{most}}}}}]}}}}\n---\n"
    "{{apiVersion: v1, kind: ResourceQuotaList, items: []}}\n---\n"
)
UNSURE: dict[str, str] = {
    "a negative request": NO_LIMITS + job("cpu: '-1'"),
    "a negative request that makes a sum smaller": NO_LIMITS + job("cpu: '-9', memory: 1Gi"),
    "a request that overflows": NO_LIMITS + job("memory: 10E"),
    "a negative request for GPUs": NO_LIMITS + job("nvidia.com/gpu: '-1'"),
    "more pods than a scheduler counts": NO_LIMITS + job(pods=2**31),
}


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE)
@pytest.mark.parametrize("scheduler", ["coscheduling", "koordinator", "kai", "volcano"])
def test_nothing_is_said_of_such_a_gang(text: str, scheduler: str) -> None:
    assert verdict(f"{node(BIG)}{text}", scheduler).answer is FitAnswer.UNKNOWN


PROVES_NOTHING: dict[str, str] = {
    "a negative quota": QUOTA.format(hard="requests.cpu: '-1'") + job(),
    "a quota that overflows": QUOTA.format(hard="requests.cpu: 99E") + job(),
    "a request that overflows against a quota": QUOTA.format(hard="requests.memory: 1Gi") + job("memory: 10E"),
    "a negative maximum of a LimitRange": RANGE.format(most="cpu: '-1'") + job(),
    "a negative request below a LimitRange": RANGE.format(most="cpu: '1'") + job("cpu: '-2'"),
    "a port that no pod can have": NO_LIMITS
    + job().replace("name: c,", "name: c, ports: [{containerPort: 1, hostPort: 70000}],"),
}


@pytest.mark.parametrize("text", PROVES_NOTHING.values(), ids=PROVES_NOTHING)
def test_such_a_number_proves_nothing(text: str) -> None:
    assert verdict(f"{node(BIG)}{text}").answer is not FitAnswer.NEVER


@pytest.mark.parametrize("amount", ["'-1'", "99E", "'9223372036854775808'"])
def test_a_node_that_no_cluster_has_cannot_be_read(amount: str) -> None:
    with pytest.raises(InputError):
        entry(f"{node(f'cpu: {amount}, pods: 110')}{job()}")


def test_a_negative_number_of_pods_is_not_judged() -> None:
    may_start(of(pods(-3, {"cpu": "1"})), plain_node())
    may_start(of(pods(2**31, {"cpu": "1"})), plain_node())


TAINT = "{{key: {key}, value: gpu, effect: NoSchedule}}"


def tainted(key: str, pod: str = "", asks: str = "nvidia.com/gpu: '1'") -> str:
    return f"{node(BIG, taints=TAINT.format(key=key))}{NO_LIMITS}{job(asks, pod=pod)}"


def test_a_taint_that_keeps_pods_off_all_nodes_is_named() -> None:
    found = verdict(tainted("dedicated")).witness
    assert found is not None
    assert "dedicated=gpu:NoSchedule" in found.why
    # Two pools with a taint each.
    two = node(BIG, "n2", TAINT.format(key="team")) + tainted("dedicated")
    both = verdict(two).witness
    assert both is not None
    assert all(f"{key}=gpu:NoSchedule" in both.why for key in ("dedicated", "team"))
    # A node selector excludes the nodes: their taints are not why.
    other = verdict(tainted("dedicated", "nodeSelector: {a: b},")).witness
    assert other is not None
    assert "dedicated" not in other.why
    long = verdict(tainted("example.com/" + "d" * 63)).witness
    assert long is not None
    assert len(long.why) < 160


RELIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "on ExtendedResourceToleration": (tainted(GPU), ("ExtendedResourceToleration", f"{GPU}=gpu:NoSchedule")),
    "on its RuntimeClass": (
        tainted("dedicated", "runtimeClassName: kata, overhead: {cpu: '1'},"),
        ("kata", "dedicated"),
    ),
    "on nothing, as it tolerates the taint": (tainted(GPU, f"tolerations: [{{key: {GPU}, operator: Exists}}],"), ()),
    "on nothing, as another node is free": (
        node(BIG, "a0") + tainted(GPU).replace("parallelism: 2", "parallelism: 1"),
        (),
    ),
}


@pytest.mark.parametrize(("text", "words"), RELIES.values(), ids=RELIES)
def test_a_placement_says_which_added_tolerations_it_relies_on(text: str, words: tuple[str, ...]) -> None:
    found = entry(text)
    assert found is not None
    assert found.verdict.answer is FitAnswer.FITS, found.verdict
    assert bool(found.relies_on) is bool(words)
    assert all(word in " ".join(found.relies_on) for word in words)
    assert set(found.relies_on) <= set(found.as_json()["assumptions"])
