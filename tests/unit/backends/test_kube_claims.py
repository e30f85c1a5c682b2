"""ResourceClaims that the pods of a group share on kube-scheduler: which groups list them, and what a living gang
keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.backends.kube_gangs import RECORD, TREE, TWO, V1ALPHA1, V1ALPHA2, V1BETA1, backend, made, podgang
from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.kube.groups import example_cluster, member, pod_group, root
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api, PodsClaim, Record, SharedClaim
from webhook.model.pod_groups import TreeGroup
from webhook.model.pod_template import MAX_CLAIMS, claim_names_in
from webhook.model.reading import Manifest
from webhook.model.workload_record import record_of
from webhook.validators.examples import clique, job_set, pod_clique_set, pod_template, replicated, scaling_group
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import gangs_of
from webhook.workloads.pod_clique_set import PodCliqueSet

KEY = "rollcall.dev/group-claims"
GPUS = {"name": "gpus", "resourceClaimTemplateName": "node"}
RACK = {"name": "rack", "resourceClaimName": "rack-1"}
PART_OF = {"app.kubernetes.io/part-of": "demo"}


def pods(*claims: Manifest) -> dict[str, Any]:
    return {"resourceClaims": list(claims)}


def record(asked: str, *cliques: Manifest, **fields: Any) -> Record:
    found = pod_clique_set(*cliques, annotations={KEY: asked}, **fields)
    return record_of(PodCliqueSet(found), "default-scheduler")


def listed(objects: list[Manifest]) -> dict[str, Any]:
    """The claims of each PodGroup."""
    return {one["metadata"]["name"]: one["spec"].get("resourceClaims") for one in objects if one["kind"] == "PodGroup"}


LEAD_AND_WORKERS = (clique("lead", pod=pods(GPUS)), clique("wrk", pod=pods(GPUS, RACK)))
GANGS: dict[str, tuple[frozenset[Api], Record, dict[str, Any]]] = {
    "1.35 has no such field": (V1ALPHA1, record("gpus", *LEAD_AND_WORKERS), {}),
    "1.36, merged": (V1ALPHA2, record("gpus, rack", *LEAD_AND_WORKERS), {"demo-0": [GPUS, RACK]}),
    "1.37, a group for each clique": (
        TREE,
        record("gpus,rack", *LEAD_AND_WORKERS),
        {"demo-0-lead": [GPUS], "demo-0-wrk": [GPUS, RACK]},
    ),
    "only those that are asked for": (
        TREE,
        record("rack", *LEAD_AND_WORKERS),
        {"demo-0-lead": None, "demo-0-wrk": [RACK]},
    ),
    "two sources of one name in a merged group": (
        V1ALPHA2,
        record("gpus", clique("lead", pod=pods({**GPUS, "resourceClaimTemplateName": "one"})), LEAD_AND_WORKERS[1]),
        {"demo-0": None},
    ),
    "nothing is asked for": (TREE, record("", *LEAD_AND_WORKERS), {"demo-0-lead": None, "demo-0-wrk": None}),
}


@pytest.mark.parametrize(("apis", "of_set", "expected"), GANGS.values(), ids=GANGS)
def test_each_group_lists_the_claims_that_its_pods_are_to_share(
    apis: frozenset[Api], of_set: Record, expected: dict[str, Any]
) -> None:
    assert listed(made(podgang(*TWO, labels=PART_OF), apis, of_set)) == expected


def test_templates_list_the_same_claims_as_their_groups() -> None:
    whole, *_ = made(podgang(*TWO, labels=PART_OF), TREE, record("gpus", *LEAD_AND_WORKERS))
    (top,) = whole["spec"]["compositePodGroupTemplates"]
    assert "resourceClaims" not in top
    assert [one["resourceClaims"] for one in top["podGroupTemplates"]] == [[GPUS], [GPUS]]


def test_the_cliques_of_a_scaling_group_are_found_by_their_names() -> None:
    groups = [scaling_group("prefill", "worker", replicas=2)]
    of_set = record("gpus", clique("router"), clique("worker", pod=pods(GPUS)), groups=groups)
    assert of_set.claims == (PodsClaim("prefill-*-worker", SharedClaim("gpus", template="node")),)
    gang = podgang({"name": "demo-0-prefill-11-worker", "minReplicas": 2, "podReferences": []}, labels=PART_OF)
    assert listed(made(gang, TREE, of_set)) == {"demo-0-prefill-11-worker": [GPUS]}


def test_the_parts_of_another_workload_list_their_own_claims() -> None:
    jobs = replicated("leader"), replicated("worker", template=pod_template(pods(RACK)))
    workload = JobSet(job_set(*jobs, scheduler="default-scheduler", annotations={KEY: "rack"}))
    (gang,) = gangs_of(workload)
    assert listed(made(gang, TREE, workload.record)) == {"demo-leader": None, "demo-worker": [RACK]}


@pytest.mark.parametrize("apis", [V1ALPHA2, TREE], ids=["1.36", "1.37"])
def test_a_living_gang_keeps_its_claims(apis: frozenset[Api]) -> None:
    """The field is immutable, and the API server drops it while its gate is off."""
    with_claims = made(podgang(*TWO, labels=PART_OF), apis, record("gpus", *LEAD_AND_WORKERS))
    without = made(podgang(*TWO, labels=PART_OF), apis, RECORD)
    used = backend()
    for desired, live in ((with_claims, without), (without, with_claims)):
        wanted = [used.adopt(one, other) for one, other in zip(desired, live, strict=True)]
        assert wanted == live
        assert used.frozen(wanted, live) is None


def test_names_in_the_annotation_are_read_once_and_within_a_limit() -> None:
    assert claim_names_in({KEY: " a, b ,,a"}) == ["a", "b"]
    assert len(claim_names_in({KEY: ",".join(f"claim-{index}" for index in range(100_000))})) < 500
    names = [f"c{index}" for index in range(MAX_CLAIMS + 3)]
    every = pods(*({"name": name, "resourceClaimName": name} for name in names))
    assert [one.shared.name for one in record(",".join(names), clique("worker", pod=every)).claims] == names[:4]


def test_so_many_cliques_that_their_claims_are_not_kept_share_none() -> None:
    """A part of them would give one gang shared claims and another its own."""
    cliques = [clique(f"c{index}", pod=pods(GPUS)) for index in range(65)]
    assert len(record("gpus", *cliques[:64]).claims) == 64
    assert record("gpus", *cliques).claims == ()
    long = [clique(f"c{index}", pod=pods({**GPUS, "resourceClaimTemplateName": "x" * 250})) for index in range(20)]
    assert record("gpus", *long).claims == ()


JUDGED: dict[str, tuple[Manifest, dict[str, Any], frozenset[Api], list[str]]] = {
    "the name of a claim": (pod_clique_set(*LEAD_AND_WORKERS, annotations={KEY: "gpus"}), {}, TREE, []),
    "no claim of that name": (pod_clique_set(*LEAD_AND_WORKERS, annotations={KEY: "gpu"}), {}, TREE, ["gpu"]),
    "too many": (
        pod_clique_set(clique("w", pod=pods(*({**RACK, "name": n} for n in "abcde"))), annotations={KEY: "a,b,c,d,e"}),
        {},
        TREE,
        ["at most 4"],
    ),
    "in too many templates": (
        pod_clique_set(*(clique(f"c{index}", pod=pods(GPUS)) for index in range(65)), annotations={KEY: "gpus"}),
        {},
        TREE,
        ["too many"],
    ),
    "no gangs": (
        pod_clique_set(*LEAD_AND_WORKERS, annotations={KEY: "gpus"}),
        {"gangScheduling": False},
        TREE,
        ["gangScheduling"],
    ),
    "1.35": (pod_clique_set(*LEAD_AND_WORKERS, annotations={KEY: "gpus"}), {}, V1ALPHA1, ["1.35"]),
    "without the gate": (
        pod_clique_set(*LEAD_AND_WORKERS, annotations={KEY: "gpus"}),
        {"schedulerGates": ["GenericWorkload"]},
        V1BETA1,
        ["DRAWorkloadResourceClaims"],
    ),
    "two sources in a merged group": (
        pod_clique_set(
            clique("lead", pod=pods({**GPUS, "resourceClaimTemplateName": "one"})),
            LEAD_AND_WORKERS[1],
            annotations={KEY: "gpus"},
        ),
        {},
        V1ALPHA2,
        ["merged"],
    ),
}


@pytest.mark.parametrize(("manifest", "config", "apis", "expected"), JUDGED.values(), ids=JUDGED)
def test_the_annotation_is_judged(
    manifest: Manifest, config: dict[str, Any], apis: frozenset[Api], expected: list[str]
) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True, **config})
    verdict = validate(manifest, settings=settings, facts=ClusterFacts(apis=apis))
    found = [finding.why for finding in verdict.findings if finding.rule == "kube/group-claims"]
    assert len(found) == len(expected)
    assert all(word in why for word, why in zip(expected, found, strict=True))


BOTH = {**GPUS, "resourceClaimName": "x"}
REFUSED: dict[str, tuple[Manifest, list[str]]] = {
    "a claim and a template": (pod_group(**pods(GPUS, RACK)), []),
    "neither": (pod_group(**pods({"name": "gpus"})), ["kube/group-claim-fields"]),
    "both": (pod_group(**pods(BOTH)), ["kube/group-claim-fields"]),
    "one name twice": (pod_group(**pods(GPUS, {**RACK, "name": "gpus"})), ["kube/group-claim-fields"] * 2),
    "five": (pod_group(**pods(*({**RACK, "name": name} for name in "abcde"))), ["kube/group-claim-fields"]),
    "the claim of its group": (member(**pods(GPUS)), []),
    "another claim of that name": (
        member(**pods({**GPUS, "resourceClaimTemplateName": "pod"})),
        ["kube/pod-group-claim"],
    ),
    "a claim that its group has not": (member(**pods(RACK)), []),
}


@pytest.mark.parametrize(("manifest", "expected"), REFUSED.values(), ids=REFUSED)
def test_claims_of_groups_and_pods_of_other_programs_are_judged(manifest: Manifest, expected: list[str]) -> None:
    group = TreeGroup(composite=False, minimum=2, claims=(SharedClaim("gpus", template="node"),))
    facts = replace(example_cluster(pod_groups={"worker": group}, composite_pod_groups={"root": root()}))
    verdict = validate(manifest, settings=settings_of("default-scheduler", {"gangScheduling": True}), facts=facts)
    assert [rule for rule in rules(verdict) if "claim" in rule] == expected
