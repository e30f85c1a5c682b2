"""What Grove's own webhook refuses, and what the webhooks of other workloads refuse: names, startup order, limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import koordinator, validate
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, job_set, leader_worker_set, pod_clique_set, replicated, scaling_group

EXPLICIT = "CliqueStartupTypeExplicit"
CLIQUES = "spec.template.cliques"


def with_spec(name: str, **spec: Any) -> Manifest:
    found = clique(name)
    return {**found, "spec": {**found["spec"], **spec}}


def explicit(**after: list[str]) -> Manifest:
    cliques = (with_spec(name, startsAfter=others) for name, others in after.items())
    return pod_clique_set(*cliques, cliqueStartupType=EXPLICIT)


def scaled(**limits: int) -> Manifest:
    return with_spec("worker", replicas=4, minAvailable=2, autoScalingConfig=limits)


def named(name: str) -> Manifest:
    return {**pod_clique_set(), "metadata": {"name": name}}


# The workload, and the rules that find something in it with the places.
CASES: dict[str, tuple[Manifest, list[tuple[str, str]]]] = {
    "a clique in capitals": (pod_clique_set(clique("Decode")), [("grove/names", f"{CLIQUES}[0].name")]),
    "a clique with a dot": (pod_clique_set(clique("decode.v1")), []),
    "a scaling group with an underscore": (
        pod_clique_set(clique("worker"), groups=[scaling_group("de_code", "worker")]),
        [("grove/names", "spec.template.podCliqueScalingGroups[0].name")],
    ),
    "a set with a space": (named("my set"), [("grove/names", "metadata.name")]),
    "a set that gets its name at creation": (
        {**pod_clique_set(), "metadata": {"generateName": "demo-"}},
        [],
    ),
    "45 characters": (pod_clique_set(clique("w" * 41)), []),
    "46 characters": (pod_clique_set(clique("w" * 42)), [("grove/name-length", f"{CLIQUES}[0].name")]),
    "46 characters with the scaling group": (
        pod_clique_set(clique("w" * 20), groups=[scaling_group("g" * 22, "w" * 20)]),
        [("grove/name-length", f"{CLIQUES}[0].name")],
    ),
    "two cliques of one role": (
        pod_clique_set(with_spec("a", roleName="x"), with_spec("b", roleName="x")),
        [("grove/role-name", f"{CLIQUES}[1].spec.roleName")],
    ),
    "an unknown startup type": (
        pod_clique_set(cliqueStartupType="Explicit"),
        [("grove/startup-type", "spec.template.cliqueStartupType")],
    ),
    "a good order": (explicit(a=[], b=["a"], c=["a", "b"]), []),
    "after an unknown clique": (explicit(a=["nosuch"]), [("grove/starts-after", f"{CLIQUES}[0].spec.startsAfter[0]")]),
    "after nothing": (explicit(a=[""]), [("grove/starts-after", f"{CLIQUES}[0].spec.startsAfter[0]")]),
    "after itself": (explicit(a=["a"]), [("grove/starts-after", f"{CLIQUES}[0].spec.startsAfter[0]")]),
    "twice after one": (
        explicit(a=[], b=["a", "a"]),
        [("grove/starts-after", f"{CLIQUES}[1].spec.startsAfter[1]")],
    ),
    "a cycle of three": (
        explicit(a=["b"], b=["c"], c=["a"]),
        [("grove/starts-after-cycle", f"{CLIQUES}[0].spec.startsAfter")],
    ),
    "an order that Grove does not read": (
        pod_clique_set(with_spec("a", startsAfter=["nosuch"])),
        [("grove/starts-after-unread", f"{CLIQUES}[0].spec.startsAfter")],
    ),
    "limits within bounds": (pod_clique_set(scaled(minReplicas=2, maxReplicas=4)), []),
    "minReplicas below minAvailable": (
        pod_clique_set(scaled(minReplicas=1, maxReplicas=4)),
        [("grove/scaling-limits", f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas")],
    ),
    "fewer maxReplicas": (
        pod_clique_set(scaled(maxReplicas=3)),
        [("grove/scaling-limits", f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas")],
    ),
    "a clique of a scaling group that scales alone": (
        pod_clique_set(scaled(maxReplicas=8), groups=[scaling_group("decode", "worker")]),
        [("grove/scaling-limits", f"{CLIQUES}[0].spec.autoScalingConfig")],
    ),
    "a scaling group below its minimum": (
        pod_clique_set(
            clique("worker"),
            groups=[scaling_group("decode", "worker", replicas=3, minAvailable=2, scaleConfig={"minReplicas": 1})],
        ),
        [("grove/scaling-limits", "spec.template.podCliqueScalingGroups[0].scaleConfig.minReplicas")],
    ),
    "a LeaderWorkerSet without a leader": (
        leader_worker_set(size=0),
        [("owner/group-size", "spec.leaderWorkerTemplate.size")],
    ),
    "a step that depends on a later one": (
        job_set(replicated("report", 1, dependsOn=[{"name": "node"}]), replicated("node")),
        [("owner/depends-on", "spec.replicatedJobs[0].dependsOn")],
    ),
}


@pytest.mark.parametrize(("workload", "expected"), CASES.values(), ids=CASES)
def test_what_another_webhook_refuses_is_found_at_its_field(
    workload: Manifest, expected: list[tuple[str, str]]
) -> None:
    verdict = validate(workload, settings=koordinator())
    assert [(found.rule, str(found.at)) for found in verdict.findings] == expected


@pytest.mark.parametrize(
    ("order", "offered"),
    [({"a": ["a"], "b": [], "c": []}, "b, c"), ({"a": ["a"]}, "no other clique"), ({"a": [], "b": ["b", "q"]}, ": a")],
    ids=["others", "alone", "two wrong names"],
)
def test_a_clique_is_not_offered_to_itself(order: dict[str, list[str]], offered: str) -> None:
    for one in validate(explicit(**order), settings=koordinator()).findings:
        assert one.remedy.endswith(offered)


def test_the_message_about_a_cycle_names_the_cliques_in_their_order() -> None:
    (found,) = validate(explicit(a=["b"], b=["c"], c=["a"]), settings=koordinator()).findings
    assert '"a after b after c after a"' in found.why


def test_a_cycle_of_ten_thousand_cliques_is_found_and_its_message_is_short() -> None:
    order = {f"c{index}": [f"c{(index + 1) % 10_000}"] for index in range(10_000)}
    found = validate(explicit(**order), settings=koordinator()).findings
    assert [one.rule for one in found] == ["grove/starts-after-cycle"]
    assert len(str(found[0])) < 512
