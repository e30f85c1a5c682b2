"""`/scale` of PodCliques and PodCliqueScalingGroups, as `kubectl scale` and autoscalers write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import koordinator, settings_of
from webhook.admission import decision
from webhook.admission.decision import request_from
from webhook.cluster.watch import Index
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Record
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set

LABEL = "rollcall.dev/scheduler"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
GROVE = "system:serviceaccount:grove-system:grove-operator"
QUEUED: dict[str, Any] = {
    "labels": {"kueue.x-k8s.io/queue-name": "team"},
    "annotations": {"kueue.x-k8s.io/pod-group-name": "demo", "kueue.x-k8s.io/pod-group-total-count": "3"},
}


def demo(name: str = "demo", scheduler: str = "koord-scheduler") -> Manifest:
    """A set of a router, of a clique that Kueue admits as a group, and of a scaling group."""
    return pod_clique_set(
        clique("router", replicas=4, minimum=2),
        clique("queued", replicas=3, minimum=1, **QUEUED),
        clique("leader", replicas=1),
        clique("worker", replicas=4, minimum=3),
        labels={LABEL: scheduler},
        podCliqueScalingGroups=[
            {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 3, "minAvailable": 2}
        ],
    ) | {"metadata": {"name": name, "namespace": "default", "labels": {LABEL: scheduler}}}


def facts(*sets: Manifest) -> ClusterFacts:
    index = Index(POD_CLIQUE_SETS)
    for one in sets or (demo(),):
        index.put(one)
    return ClusterFacts(pod_clique_sets=index.entries)


def record_of(manifest: Manifest) -> Record:
    ((_, record),) = (facts(manifest).pod_clique_sets or {}).items()
    return record


def review(name: str, old: int, new: int, plural: str = "podcliques", user: str = HPA) -> Manifest:
    """The review of a scale. An API server leaves 0 replicas out."""

    def scale(replicas: int) -> Manifest:
        metadata = {"name": name, "namespace": "default", "uid": "1", "resourceVersion": "7"}
        spec = {"replicas": replicas} if replicas else {}
        status = {"replicas": old, "selector": ""}
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }

    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "resource": {"group": "grove.io", "version": "v1alpha1", "resource": plural},
            "subResource": "scale",
            "name": name,
            "namespace": "default",
            "operation": "UPDATE",
            "userInfo": {"username": user},
            "object": scale(new),
            "oldObject": scale(old),
        },
    }


def judged(*args: Any, known: ClusterFacts | None = None, settings: Any = None, **fields: Any) -> Verdict:
    request = request_from(review(*args, **fields))
    chosen = settings or koordinator(standalone=False)
    assert decision.mutate(request, known or facts(), chosen).patch == ()
    return decision.validate(request, known or facts(), chosen)


def found(verdict: Verdict) -> list[tuple[str, str, object]]:
    return [(finding.rule, str(finding.at), finding.value) for finding in verdict.findings]


BELOW, MEMBER, ABOVE = "grove/scale-below-minimum", "grove/scale-of-member", "kueue/scale-above-group"
GROUP = "podcliquescalinggroups"
CASES: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "to the minimum": (("demo-0-router", 4, 2), []),
    "below the minimum": (("demo-0-router", 4, 1), [BELOW]),
    "to nothing": (("demo-7-router", 4, 0), [BELOW]),
    "up, and still below": (("demo-0-router", 0, 1), []),
    "up": (("demo-0-router", 4, 40), []),
    "a group to its minimum": (("demo-0-decode", 3, 2, GROUP), []),
    "a group below its minimum": (("demo-0-decode", 3, 1, GROUP), [BELOW]),
    "a group up": (("demo-0-decode", 3, 9, GROUP), []),
    "a member": (("demo-0-decode-2-worker", 4, 5), [MEMBER]),
    "a member below its minimum": (("demo-0-decode-2-worker", 4, 2), [BELOW, MEMBER]),
    "above a pod group of Kueue": (("demo-0-queued", 3, 4), [ABOVE]),
    "within a pod group of Kueue": (("demo-0-queued", 1, 3), []),
    "no such clique": (("demo-0-evaluator", 4, 0), []),
    "no such set": (("other-0-router", 4, 0), []),
    "a clique's name as a group": (("demo-0-router", 4, 0, GROUP), []),
}


@pytest.mark.parametrize(("args", "rules"), CASES.values(), ids=CASES)
def test_a_scale_is_judged_by_what_its_gang_needs(args: tuple[Any, ...], rules: list[str]) -> None:
    verdict = judged(*args)
    assert verdict.allowed
    assert found(verdict) == [(rule, "spec.replicas", args[2]) for rule in rules]
    assert {finding.action for finding in verdict.findings} <= {Action.WARN}


def test_grove_s_operator_may_scale_as_it_likes() -> None:
    assert judged("demo-0-router", 4, 0, user=GROVE) == Verdict()


def test_a_name_that_may_mean_two_things_is_not_judged() -> None:
    twice = demo("demo-0")
    twice["spec"]["template"]["cliques"][0]["name"] = "router"
    deeper = demo("demo")
    deeper["spec"]["template"]["cliques"][0]["name"] = "1-router"
    known = facts(twice, deeper)
    # The clique `1-router` of `demo`, or `router` of `demo-0`.
    assert judged("demo-0-1-router", 4, 0, known=known).findings == ()
    assert found(judged("demo-0-1-router", 4, 0, known=facts(twice))) == [(BELOW, "spec.replicas", 0)]


def test_a_set_that_predates_rollcall_and_one_of_another_profile_are_left_alone() -> None:
    older = demo()
    del older["metadata"]["labels"]
    for known in (facts(older), facts(demo(scheduler="gone"))):
        assert judged("demo-0-router", 4, 0, known=known) == Verdict()


def test_a_configured_refusal_refuses() -> None:
    settings = settings_of("koord-scheduler", enforcement={"rules": {BELOW: "deny"}}, standalone=False)
    assert not judged("demo-0-router", 4, 1, settings=settings).allowed
    assert judged("demo-0-router", 4, 2, settings=settings).allowed


def test_without_the_sets_a_scale_is_not_judged() -> None:
    verdict = judged("demo-0-router", 4, 0, known=ClusterFacts())
    assert (verdict.allowed, {missing.part for missing in verdict.unjudged}) == (True, {"pod_clique_sets"})
    assert [missing.rule for missing in verdict.unjudged] == sorted({BELOW, MEMBER, ABOVE})


@pytest.mark.parametrize("wrong", [None, 5, "scale", {"replicas": "many"}, {"replicas": -1}, {"replicas": 1.5}])
def test_a_scale_of_another_shape_ends_no_review(wrong: object) -> None:
    body = review("demo-0-router", 4, 1)
    body["request"]["object"]["spec"] = wrong
    assert decision.validate(request_from(body), facts(), koordinator(standalone=False)).allowed


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "CONNECT"])
def test_only_an_update_scales(operation: str) -> None:
    body = review("demo-0-router", 4, 1)
    body["request"]["operation"] = operation
    assert decision.validate(request_from(body), facts(), koordinator(standalone=False)) == Verdict()


@pytest.mark.parametrize("resource", [None, 5, {}, {"resource": 7}, {"resource": "x" * 5000}])
def test_a_review_that_does_not_say_what_is_scaled_is_judged_by_the_name(resource: object) -> None:
    body = review("demo-0-router", 4, 1)
    body["request"]["resource"] = resource
    verdict = decision.validate(request_from(body), facts(), koordinator(standalone=False))
    assert found(verdict) == [(BELOW, "spec.replicas", 1)]


def test_a_set_with_too_many_cliques_is_kept_without_them() -> None:
    many = demo()
    many["spec"]["template"]["cliques"] = [clique(f"clique-{index}") for index in range(100)]
    record = record_of(many)
    assert record.scalable == ()


def of_cliques(count: int, **annotations: str) -> Manifest:
    many = demo()
    many["metadata"]["annotations"] = annotations
    many["spec"]["template"] = {"cliques": [clique(f"clique-{index}") for index in range(count)]}
    return many


@pytest.mark.parametrize(("count", "kept"), [(64, 64), (65, 0)])
def test_each_clique_counts_once(count: int, kept: int) -> None:
    record = record_of(of_cliques(count))
    assert len(record.scalable) == kept


def test_a_record_that_grows_too_large_is_kept_without_them() -> None:
    queues = {f"example.com/queue-{index}": str(index) * 100 for index in range(40)}
    index = Index(POD_CLIQUE_SETS)
    index.put(of_cliques(64, **queues))
    (record,) = index.entries.values()
    assert (record.scalable, record.scheduler, len(record.queues), index.left_out) == ((), "koord-scheduler", 40, set())


def test_a_set_that_changes_gives_its_new_minimum() -> None:
    changed, index = demo(), Index(POD_CLIQUE_SETS)
    index.put(demo())
    changed["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3
    index.put(changed)
    verdict = judged("demo-0-router", 4, 2, known=ClusterFacts(pod_clique_sets=index.entries))
    assert found(verdict) == [(BELOW, "spec.replicas", 2)]
    assert [finding.instead for finding in verdict.findings] == [(3,)]


def test_what_may_be_scaled_changes_no_hash() -> None:
    record = record_of(demo())
    other = replace(record, scalable=())
    assert (hash(record), record == other) == (hash(other), False)
