"""The topology of a PodCliqueSet: what Grove refuses, what is not known, and what an edit may change."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import koordinator, settings_of, validate
from webhook.model.admission_request import Kind
from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import KindFields
from webhook.model.findings import Action
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import TopologyBinding
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge
from webhook.validators.examples import clique, pod_clique_set, scaling_group

LEVELS = {"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"}
SET = Api("grove.io", "v1alpha1", "PodCliqueSet")
FACTS = ClusterFacts(topology_bindings={"dc": TopologyBinding(LEVELS), "lab": TopologyBinding({"rack": "lab/rack"})})
WITH_CRD = replace(FACTS, field_names={SET: KindFields({"pack": None, "packDomain": None}, "a CRD")})
TOPOLOGY = "spec.template.topologyConstraint"
FIRST, SECOND = "spec.template.cliques[0].topologyConstraint", "spec.template.cliques[1].topologyConstraint"
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint"


def constraint(required: str | None = None, preferred: str | None = None, name: str | None = None) -> Manifest:
    pack = {key: domain for key, domain in (("required", required), ("preferred", preferred)) if domain is not None}
    return {"pack": pack} if name is None else {"topologyName": name, "pack": pack}


def grouped(of_set: Manifest | None, of_group: Manifest | None, of_clique: Manifest | None) -> Manifest:
    member = clique("worker") if of_clique is None else clique("worker", topologyConstraint=of_clique)
    group = scaling_group("pool", "worker", **({} if of_group is None else {"topologyConstraint": of_group}))
    whole = {} if of_set is None else {"topologyConstraint": of_set}
    return pod_clique_set(member, clique("router"), groups=[group], **whole)


def said(manifest: Manifest, facts: ClusterFacts = FACTS, **request: Any) -> list[tuple[str, str]]:
    """What the rules about Grove's topology find, and where."""
    verdict = validate(manifest, facts=facts, settings=koordinator(), **request)
    return [
        (found.rule, str(found.at))
        for found in verdict.findings
        if found.rule.startswith("grove/") and found.action is Action.DENY
    ]


NAME, DOMAIN, HIERARCHY, PACK = (f"grove/topology-{end}" for end in ("name", "domain", "hierarchy", "pack"))
# The manifest, and what is refused at which place.
CASES: dict[str, tuple[Manifest, list[tuple[str, str]]]] = {
    "a set": (pod_clique_set(topologyConstraint=constraint("rack", name="dc")), []),
    "a preference without a name": (
        pod_clique_set(topologyConstraint=constraint(None, "rack")),
        [(NAME, f"{TOPOLOGY}.topologyName")],
    ),
    "an empty name": (
        pod_clique_set(topologyConstraint=constraint("rack", name="")),
        [(NAME, f"{TOPOLOGY}.topologyName")],
    ),
    "a scaling group without a name": (
        grouped(None, constraint("rack"), None),
        [(NAME, f"{GROUP}.topologyName")],
    ),
    "a name that only another clique has": (
        pod_clique_set(
            clique("a", topologyConstraint=constraint("rack", name="dc")),
            clique("b", topologyConstraint=constraint("rack")),
        ),
        [(NAME, f"{SECOND}.topologyName")],
    ),
    "names from the set": (grouped(constraint("zone", name="dc"), constraint("block"), constraint("rack")), []),
    "a name from the scaling group": (grouped(None, constraint("block", name="dc"), constraint("rack")), []),
    "another name in the scaling group": (
        grouped(constraint("rack", name="dc"), constraint("rack", name="lab"), None),
        [(NAME, f"{GROUP}.topologyName")],
    ),
    "another name in a clique": (
        grouped(None, constraint("rack", name="dc"), constraint("rack", name="lab")),
        [(NAME, f"{FIRST}.topologyName")],
    ),
    "a binding that is not there": (
        pod_clique_set(topologyConstraint=constraint("rack", name="moon")),
        [(DOMAIN, f"{TOPOLOGY}.topologyName")],
    ),
    "domains that are not there": (
        pod_clique_set(topologyConstraint=constraint("row", "shelf", name="dc")),
        [(DOMAIN, f"{TOPOLOGY}.pack.required"), (DOMAIN, f"{TOPOLOGY}.pack.preferred")],
    ),
    "a node label key for a domain": (
        pod_clique_set(topologyConstraint=constraint("example.com/rack", name="dc")),
        [(DOMAIN, f"{TOPOLOGY}.pack.required"), (PACK, f"{TOPOLOGY}.pack.required")],
    ),
    "a clique that is wider than the set": (
        grouped(constraint("rack", name="dc"), None, constraint("zone")),
        [(HIERARCHY, f"{FIRST}.pack.required")],
    ),
    "a scaling group that is wider than the set": (
        grouped(constraint("block", name="dc"), constraint("zone"), None),
        [(HIERARCHY, f"{GROUP}.pack.required")],
    ),
    "a clique that prefers wider than its scaling group": (
        grouped(None, constraint("zone", "rack", name="dc"), constraint("zone", "block")),
        [(HIERARCHY, f"{FIRST}.pack.preferred")],
    ),
    "a clique that is wider than the set across its scaling group": (
        grouped(constraint("rack", name="dc"), constraint(None, "rack"), constraint("block")),
        [(HIERARCHY, f"{FIRST}.pack.required")],
    ),
    "a requirement wider than a preference above": (
        grouped(constraint(None, "rack", name="dc"), None, constraint("zone")),
        [],
    ),
    "the same domain above and below": (grouped(constraint("rack", name="dc"), None, constraint("rack")), []),
    "an empty constraint": (pod_clique_set(topologyConstraint={}), [(PACK, f"{TOPOLOGY}.pack")]),
    "an empty pack": (
        pod_clique_set(topologyConstraint={"topologyName": "dc", "pack": {}}),
        [(PACK, f"{TOPOLOGY}.pack")],
    ),
    "a pack of nothing but null": (
        grouped(None, {"topologyName": "dc", "pack": {"required": None}}, None),
        [(PACK, f"{GROUP}.pack")],
    ),
    "both spellings": (
        pod_clique_set(topologyConstraint={"topologyName": "dc", "pack": {"required": "rack"}, "packDomain": "rack"}),
        [(PACK, f"{TOPOLOGY}.packDomain")],
    ),
    "an empty domain": (
        pod_clique_set(topologyConstraint={"topologyName": "dc", "pack": {"required": ""}}),
        [(PACK, f"{TOPOLOGY}.pack.required")],
    ),
    "null for a constraint": (pod_clique_set(topologyConstraint=None), []),
}


@pytest.mark.parametrize(("manifest", "expected"), CASES.values(), ids=CASES)
def test_grove_s_refusals_are_found_at_their_fields(manifest: Manifest, expected: list[tuple[str, str]]) -> None:
    assert said(manifest) == expected


@pytest.mark.parametrize("scheduler", ["kai-scheduler", "volcano", "default-scheduler", "lpx-scheduler"])
def test_every_scheduler_says_the_same(scheduler: str) -> None:
    asked = pod_clique_set(topologyConstraint=constraint("rack"))
    verdict = validate(asked, facts=FACTS, settings=settings_of(scheduler))
    assert NAME in [found.rule for found in verdict.denials]


def test_without_bindings_nothing_is_refused_and_it_is_said() -> None:
    asked = grouped(constraint("rack", name="dc"), None, constraint("zone"))
    verdict = validate(asked, facts=ClusterFacts(), settings=settings_of("kai-scheduler", {"defaultQueue": "q"}))
    assert [found.rule for found in verdict.findings if found.rule.startswith("grove/")] == []
    (missing,) = [one for one in verdict.unjudged if one.rule == DOMAIN]
    assert (missing.part, str(missing.at)) == ("topology_bindings", f"{TOPOLOGY}.topologyName")


def test_a_binding_that_may_exist_is_not_judged() -> None:
    asked = pod_clique_set(topologyConstraint=constraint("rack", name="moon"))
    verdict = validate(asked, facts=replace(FACTS, partial=frozenset({"topology_bindings"})), settings=koordinator())
    assert DOMAIN in [missing.rule for missing in verdict.unjudged]
    assert verdict.allowed


@pytest.mark.parametrize("domain", ["row", "zone"])
def test_a_refusal_for_a_binding_reads_it_again(domain: str) -> None:
    asked = grouped(constraint("rack", name="dc"), None, constraint(domain))
    (found,) = [
        one for one in validate(asked, facts=FACTS, settings=koordinator()).denials if one.rule in {DOMAIN, HIERARCHY}
    ]
    assert found.absent == Needed("topology_bindings", "dc")


def test_a_stored_set_whose_binding_changed_may_still_be_updated() -> None:
    old = pod_clique_set(
        clique("worker", topologyConstraint=constraint("row", name="dc")),
        labels={"rollcall.dev/scheduler": "koord-scheduler"},
    )
    new = deepcopy(old)
    new["spec"]["replicas"] = 2
    verdict = validate(new, old, facts=FACTS, settings=koordinator())
    assert [found.action for found in verdict.findings if found.rule == DOMAIN] == [Action.WARN]


@pytest.mark.parametrize(
    ("facts", "uid", "expected"),
    [
        (WITH_CRD, None, [("grove/pack-domain", f"{TOPOLOGY}.packDomain")]),
        (WITH_CRD, "7c1c5bd2", []),
        (replace(FACTS, field_names={SET: KindFields({"packDomain": None}, "a CRD")}), None, []),
        (FACTS, None, []),
    ],
    ids=["a new set in a file", "a stored set in a file", "the CRD of an older release", "a webhook"],
)
def test_pack_domain_is_refused_only_in_a_file_with_a_new_set(
    facts: ClusterFacts, uid: str | None, expected: list[tuple[str, str]]
) -> None:
    asked = pod_clique_set(topologyConstraint={"topologyName": "dc", "packDomain": "rack"})
    asked["metadata"] |= {} if uid is None else {"uid": uid}
    assert said(asked, facts) == expected


def test_pack_domain_in_a_recorded_review_has_passed_the_crd() -> None:
    asked = pod_clique_set(topologyConstraint={"topologyName": "dc", "packDomain": "rack"})
    assert said(asked, WITH_CRD, user="ada") == []


def test_a_constraint_of_the_first_releases_is_left_to_them() -> None:
    assert said(pod_clique_set(topologyConstraint={"packDomain": "rack"})) == []


def binding(levels: Any, **spec: Any) -> Manifest:
    api = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding"}
    return {**api, "metadata": {"name": "dc"}, "spec": {"levels": levels, **spec}}


def level(domain: Any, key: Any) -> Mapping[str, Any]:
    return {"domain": domain, "key": key}


BINDINGS: dict[str, tuple[Manifest, list[str]]] = {
    "two levels": (binding([level("zone", "a"), level("rack", "b")]), []),
    "a domain twice": (binding([level("rack", "a"), level("rack", "b")]), ["spec.levels[1].domain"]),
    "a key twice": (binding([level("zone", "a"), level("rack", "a")]), ["spec.levels[1].key"]),
    "a scheduler twice": (
        binding(
            [level("zone", "a")],
            schedulerTopologyBindings=[{"schedulerName": "kai-scheduler", "topologyReference": one} for one in "ab"],
        ),
        ["spec.schedulerTopologyBindings[1].schedulerName"],
    ),
    "no levels": (binding([]), ["spec.levels"]),
    "a level without a key": (binding([{"domain": "zone"}]), ["spec.levels[0].key"]),
    "a domain of the wrong type": (binding([level(7, "a")]), ["spec.levels[0].domain"]),
    "levels of the wrong type": (binding("zone"), ["spec.levels"]),
    "no spec": ({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding"}, ["spec.levels"]),
}


@pytest.mark.parametrize(("manifest", "expected"), BINDINGS.values(), ids=BINDINGS)
def test_a_binding_that_grove_refuses_is_an_error(manifest: Manifest, expected: list[str]) -> None:
    found = [one for judgement in judge(manifest, ClusterFacts(), koordinator()) for one in judgement.verdict.findings]
    assert [str(one.at) for one in found if one.rule == "grove/topology-levels"] == expected
    assert all(one.action is Action.DENY for one in found)
    assert AnyObject(Kind("grove.io", "v1alpha1", "ClusterTopologyBinding"), manifest).unknown_fields == ()
