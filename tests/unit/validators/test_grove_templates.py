"""The templates of a PodCliqueSet: what Grove refuses in them, at which field, and what an update may keep."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.worlds import settings_of, validate
from webhook.model.findings import Action
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, scaling_group

LPX = {"rollcall.dev/scheduler": "lpx-scheduler"}
CLIQUE = "spec.template.cliques[0]"
POD = f"{CLIQUE}.spec.podSpec"
TEMPLATES, SHARING = "spec.template.resourceClaimTemplates", "spec.template.resourceSharing"
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
GPU = {"name": "gpu", "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}
SHARED = {"name": "gpu", "scope": "PerReplica"}


def container(*names: Any, name: str = "main") -> Manifest:
    return {"name": name, "image": "example.com/main", "env": [{"name": variable} for variable in names]}


def spec(**fields: Any) -> Manifest:
    found = clique("worker")
    return pod_clique_set({**found, "spec": {**found["spec"], **fields}})


def without(*fields: str, **others: Any) -> Manifest:
    found = spec(**others)
    for field in fields:
        found["spec"]["template"]["cliques"][0]["spec"].pop(field, None)
    return found


# The set, and the errors with their places.
CASES: dict[str, tuple[Manifest, list[tuple[str, str]]]] = {
    "a node": (pod_clique_set(clique("worker", pod={"nodeName": "n1"})), [("grove/pod-template", f"{POD}.nodeName")]),
    "an empty node": (pod_clique_set(clique("worker", pod={"nodeName": ""})), []),
    "spread constraints": (
        pod_clique_set(clique("worker", pod={"topologySpreadConstraints": SPREAD})),
        [("grove/pod-template", f"{POD}.topologySpreadConstraints")],
    ),
    "no spread constraints": (pod_clique_set(clique("worker", pod={"topologySpreadConstraints": []})), []),
    "a variable twice": (
        pod_clique_set(clique("worker", pod={"containers": [container("A", "B", "A")]})),
        [("grove/environment", f"{POD}.containers[0].env[2].name")],
    ),
    "a variable in two containers": (
        pod_clique_set(clique("worker", pod={"containers": [container("A"), container("A", name="b")]})),
        [],
    ),
    "a variable of an init container that begins with a digit": (
        pod_clique_set(clique("worker", pod={"initContainers": [container("1A")]})),
        [("grove/environment", f"{POD}.initContainers[0].env[0].name")],
    ),
    "variables that begin with a digit, and one with another character": (
        pod_clique_set(clique("worker", pod={"containers": [container("9", "A=B", "A1")]})),
        [("grove/environment", f"{POD}.containers[0].env[{index}].name") for index in range(2)],
    ),
    "variables that are odd and allowed": (
        pod_clique_set(clique("worker", pod={"containers": [container("a.b", "-x", "_", ".a")]})),
        [],
    ),
    "variables like folders": (
        pod_clique_set(clique("worker", pod={"containers": [container(".", "..", "..a", "a\n")]})),
        [("grove/environment", f"{POD}.containers[0].env[{index}].name") for index in range(4)],
    ),
    "a variable without a name": (
        pod_clique_set(clique("worker", pod={"containers": [container(None)]})),
        [("grove/environment", f"{POD}.containers[0].env[0].name")],
    ),
    "labels and annotations of any form": (
        pod_clique_set(clique("worker", labels={"a": "", "b.c/D_e": "F.g-1"}, annotations={"B.C/D": "any value!"})),
        [],
    ),
    "a label's value with a space": (
        pod_clique_set(clique("worker", labels={"role": "a worker"})),
        [("grove/clique-labels", f"{CLIQUE}.labels.role")],
    ),
    "a label's value of 64 characters": (
        pod_clique_set(clique("worker", labels={"role": "a" * 64})),
        [("grove/clique-labels", f"{CLIQUE}.labels.role")],
    ),
    "keys that begin with a slash, end with one, or have two": (
        pod_clique_set(clique("worker", labels={"/a": "b", "a/": "b"}, annotations={"a/b/c": "d"})),
        [
            ("grove/clique-labels", f"{CLIQUE}.labels[/a]"),
            ("grove/clique-labels", f"{CLIQUE}.labels[a/]"),
            ("grove/clique-labels", f"{CLIQUE}.annotations[a/b/c]"),
        ],
    ),
    "a delay of zero": (
        pod_clique_set(terminationDelay="0"),
        [("grove/termination-delay", "spec.template.terminationDelay")],
    ),
    "a negative delay": (
        pod_clique_set(terminationDelay="-1h"),
        [("grove/termination-delay", "spec.template.terminationDelay")],
    ),
    "a delay without a unit": (
        pod_clique_set(terminationDelay="30"),
        [("grove/termination-delay", "spec.template.terminationDelay")],
    ),
    "an empty delay": (
        pod_clique_set(terminationDelay=""),
        [("grove/termination-delay", "spec.template.terminationDelay")],
    ),
    "a short delay": (pod_clique_set(terminationDelay="1ns"), []),
    "a delay of the wrong type": (
        pod_clique_set(terminationDelay=30),
        [("grove/shape", "spec.template.terminationDelay")],
    ),
    "a claim template": (pod_clique_set(resourceClaimTemplates=[GPU]), []),
    "a claim template twice": (
        pod_clique_set(resourceClaimTemplates=[GPU, GPU]),
        [("grove/claim-templates", f"{TEMPLATES}[1].name")],
    ),
    "a claim template without name and requests": (
        pod_clique_set(resourceClaimTemplates=[{}]),
        [
            ("grove/claim-templates", f"{TEMPLATES}[0].name"),
            ("grove/claim-templates", f"{TEMPLATES}[0].templateSpec.spec.devices.requests"),
        ],
    ),
    "a claim template of the wrong type": (
        pod_clique_set(resourceClaimTemplates=[{"name": "gpu", "templateSpec": "gpu"}]),
        [("grove/shape", f"{TEMPLATES}[0].templateSpec")],
    ),
    "a shared claim": (pod_clique_set(resourceClaimTemplates=[GPU], resourceSharing=[SHARED]), []),
    "a shared claim of another namespace": (pod_clique_set(resourceSharing=[{**SHARED, "namespace": "lab"}]), []),
    "a shared claim twice": (
        pod_clique_set(resourceSharing=[SHARED, SHARED]),
        [("grove/resource-sharing", f"{SHARING}[1].name")],
    ),
    "a shared claim without a name": (
        pod_clique_set(resourceSharing=[{"scope": "AllReplicas"}]),
        [("grove/resource-sharing", f"{SHARING}[0].name")],
    ),
    "a namespace beside the set's own template": (
        pod_clique_set(resourceClaimTemplates=[GPU], resourceSharing=[{**SHARED, "namespace": "lab"}]),
        [("grove/resource-sharing", f"{SHARING}[0].namespace")],
    ),
    "an unknown scope": (
        pod_clique_set(clique("worker", resourceSharing=[{"name": "gpu", "scope": "perReplica"}])),
        [("grove/resource-sharing", f"{CLIQUE}.resourceSharing[0].scope")],
    ),
    "no scope": (
        pod_clique_set(clique("worker", resourceSharing=[{"name": "gpu"}])),
        [("grove/resource-sharing", f"{CLIQUE}.resourceSharing[0].scope")],
    ),
    "an empty filter": (
        pod_clique_set(resourceSharing=[{**SHARED, "filter": {}}]),
        [("grove/resource-sharing", f"{SHARING}[0].filter")],
    ),
    "a filter for what is not there": (
        pod_clique_set(
            clique("worker"),
            groups=[scaling_group("pool", "worker")],
            resourceSharing=[
                {**SHARED, "filter": {"childCliqueNames": ["pool"], "childScalingGroupNames": ["pool", "worker"]}}
            ],
        ),
        [
            ("grove/resource-sharing", f"{SHARING}[0].filter.childCliqueNames[0]"),
            ("grove/resource-sharing", f"{SHARING}[0].filter.childScalingGroupNames[1]"),
        ],
    ),
    "a filter of a scaling group for a clique outside it": (
        pod_clique_set(
            clique("router"),
            clique("worker"),
            groups=[
                scaling_group(
                    "pool", "worker", resourceSharing=[{**SHARED, "filter": {"childCliqueNames": ["router"]}}]
                )
            ],
        ),
        [
            (
                "grove/resource-sharing",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[0].filter.childCliqueNames[0]",
            )
        ],
    ),
    "a filter of the wrong type": (
        pod_clique_set(resourceSharing=[{**SHARED, "filter": ["worker"]}]),
        [("grove/shape", f"{SHARING}[0].filter")],
    ),
    "neither replicas nor a minimum": (without("replicas"), [("grove/min-available", f"{CLIQUE}.spec.replicas")]),
    "null for the replicas": (spec(replicas=None), [("grove/min-available", f"{CLIQUE}.spec.replicas")]),
    "a minimum without replicas": (without("replicas", minAvailable=1), []),
    "autoscaling without replicas": (
        without("replicas", minAvailable=1, autoScalingConfig={"maxReplicas": 4}),
        [("grove/scaling-limits", f"{CLIQUE}.spec.autoScalingConfig.minReplicas")],
    ),
    "autoscaling without a maximum": (
        spec(autoScalingConfig={"minReplicas": 2}),
        [("grove/scaling-limits", f"{CLIQUE}.spec.autoScalingConfig.maxReplicas")],
    ),
    "one clique without a role": (without("roleName"), []),
}


def two_without_role() -> Manifest:
    found = pod_clique_set(clique("a"), clique("b"), clique("c"))
    for member in found["spec"]["template"]["cliques"][1:]:
        del member["spec"]["roleName"]
    return found


CASES["two cliques without a role"] = (
    two_without_role(),
    [("grove/role-name", "spec.template.cliques[2].spec.roleName")],
)


def errors(new: Manifest, old: Manifest | None = None) -> list[tuple[str, str]]:
    verdict = validate(new, old, settings=settings_of("lpx-scheduler"))
    return [(found.rule, str(found.at)) for found in verdict.findings if found.action is Action.DENY]


@pytest.mark.parametrize(("manifest", "expected"), CASES.values(), ids=CASES)
def test_what_grove_refuses_in_a_template_is_an_error_at_its_field(
    manifest: Manifest, expected: list[tuple[str, str]]
) -> None:
    found = [(rule, place) for rule, place in errors(manifest) if rule.startswith("grove/")]
    assert found == expected


@pytest.mark.parametrize("pod", [{"nodeName": "n1"}, {"containers": [container("A", "A")]}])
def test_an_update_is_not_refused_for_what_was_stored_before(pod: dict[str, Any]) -> None:
    old = pod_clique_set(clique("worker", pod=pod), labels=LPX)
    new = deepcopy(old)
    new["spec"]["replicas"] = 2
    assert errors(new, old) == []


def test_grove_lets_an_update_add_spread_constraints_but_no_pod_can_name_a_node() -> None:
    old = pod_clique_set(labels=LPX)
    assert errors(pod_clique_set(clique("worker", pod={"topologySpreadConstraints": SPREAD}), labels=LPX), old) == []
    assert errors(pod_clique_set(clique("worker", pod={"nodeName": "n1"}), labels=LPX), old) == [
        ("grove/pod-template", f"{POD}.nodeName")
    ]
