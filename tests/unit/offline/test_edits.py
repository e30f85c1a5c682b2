"""The smallest edit: examples by hand, and that every shown edit works."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given

from tests.strategies import pod_clique_sets
from tests.unit.worlds import request, settings_of, three_schedulers, validate
from webhook.admission.opinion import OpinionAnswer
from webhook.model.admission_request import applied
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.known_objects import KaiQueue, Quota
from webhook.model.reading import Manifest
from webhook.offline.explanation import Edit, explain
from webhook.offline.smallest_edit import MAX_CHANGES, candidates, smallest_edit
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

GPU = {"nvidia.com/gpu": "8"}
NVLINK = {"grove.io/mnnvl-group": "train"}
CONSTRAINT = required("rack")
BOTH = {"topologyName": "dc", "pack": {"required": "rack", "preferred": "host"}}
PARENT = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=True)})
CLIQUES = "spec.template.cliques"

Expected = list[tuple[str, Any, Any]]


def edit_for(manifest: Manifest, scheduler: str, facts: ClusterFacts = NO_FACTS) -> Edit | None:
    found = explain(request(manifest), facts, three_schedulers())
    return next(view.edit for view in found.views if view.scheduler == scheduler)


@pytest.mark.parametrize(
    ("scheduler", "manifest", "expected"),
    [
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", requests=GPU), annotations=NVLINK),
            [("metadata.annotations[grove.io/mnnvl-group]", "train", "none")],
        ),
        (
            "koord-scheduler",
            pod_clique_set(annotations={"grove.io/auto-mnnvl": "enabled"}),
            [("metadata.annotations[grove.io/auto-mnnvl]", "enabled", None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker"), groups=[scaling_group("ring", "worker", topologyConstraint=CONSTRAINT)]),
            [("spec.template.podCliqueScalingGroups[0].topologyConstraint", CONSTRAINT, None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("leader"), clique("worker", topologyConstraint=CONSTRAINT)),
            [("spec.template.topologyConstraint", None, CONSTRAINT)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("leader", topologyConstraint=CONSTRAINT), clique("worker")),
            [("spec.template.topologyConstraint", None, CONSTRAINT)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(
                clique("leader", topologyConstraint=CONSTRAINT),
                clique("worker"),
                topologyConstraint=required("block"),
            ),
            [(f"{CLIQUES}[0].topologyConstraint", CONSTRAINT, None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", labels={"koordinator.sh/qosClass": "ls"})),
            [(f"{CLIQUES}[0].labels[koordinator.sh/qosClass]", "ls", "LS")],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", labels={"koordinator.sh/qosClass": "gold"})),
            [(f"{CLIQUES}[0].labels[koordinator.sh/qosClass]", "gold", None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "team-a"}),
            [("metadata.annotations[scheduling.grove.io/koordinator-quota]", "team-a", None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", annotations={"scheduling.k8s.io/group-name": "mine"})),
            [(f"{CLIQUES}[0].annotations[scheduling.k8s.io/group-name]", "mine", None)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", replicas=2, minimum=5)),
            [(f"{CLIQUES}[0].spec.minAvailable", 5, 2)],
        ),
        (
            "koord-scheduler",
            pod_clique_set(clique("worker", replicas=4, minimum=0)),
            [(f"{CLIQUES}[0].spec.minAvailable", 0, 1)],
        ),
        (
            "default-scheduler",
            pod_clique_set(topologyConstraint=BOTH),
            [("spec.template.topologyConstraint.pack.preferred", "host", None)],
        ),
        (
            "default-scheduler",
            pod_clique_set(clique("worker", pod={"priorityClassName": "low"}), priorityClassName="high"),
            [(f"{CLIQUES}[0].spec.podSpec.priorityClassName", "low", None)],
        ),
        ("lpx-scheduler", pod_clique_set(topologyConstraint=BOTH), [("spec.template.topologyConstraint", BOTH, None)]),
    ],
    ids=[
        "an NVLink group", "the older NVLink annotation", "a scaling group's topology", "a clique of its own topology",
        "a clique of none", "a clique beside the set's", "a QoS class in the wrong case", "an unknown QoS class",
        "a parent quota", "another gang's membership", "a minimum too high", "a minimum of none", "a preference alone",
        "two priorities", "topology in two ways",
    ],
)  # fmt: skip
def test_the_smallest_edit_is_found(scheduler: str, manifest: Manifest, expected: Expected) -> None:
    found = edit_for(manifest, scheduler, PARENT)
    assert found is not None
    assert [(str(change.path), change.was, change.value) for change in found.changes] == expected


@pytest.mark.parametrize(
    ("scheduler", "manifest"),
    [
        ("koord-scheduler", pod_clique_set(clique("w", pod={"resourceClaims": [{"name": "gpu"}]}))),
        ("koord-scheduler", pod_clique_set(clique("w", requests={**GPU, "koordinator.sh/gpu-core": "50"}))),
        ("default-scheduler", pod_clique_set(*(clique(f"c{index}") for index in range(9)))),
        ("koord-scheduler", {**pod_clique_set(), "spec": {"replicas": 1, "template": {"cliques": []}}}),
        ("koord-scheduler", pod_clique_set(clique("worker", replicas=0, minimum=0))),
    ],
    ids=["devices", "what containers request", "whole cliques", "nothing there", "no replicas"],
)
def test_harmful_edits_are_not_offered(scheduler: str, manifest: Manifest) -> None:
    found = explain(request(manifest), NO_FACTS, three_schedulers())
    view = next(view for view in found.views if view.scheduler == scheduler)
    if view.opinion.answer is OpinionAnswer.REFUSED:
        assert view.edit is None
        assert all(finding.remedy for finding in view.opinion.denials)


def kai_edit(manifest: Manifest) -> Edit | None:
    facts = ClusterFacts(kai_queues={"team": KaiQueue(None), "team-a": KaiQueue("team"), "team-b": KaiQueue("team")})
    (view,) = (
        view
        for view in explain(request(manifest), facts, settings_of("kai-scheduler")).views
        if view.scheduler == "kai-scheduler"
    )
    return view.edit


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (pod_clique_set(), ("add", "metadata.labels", {"kai.scheduler/queue": "team-a"})),
        (
            pod_clique_set(labels={"team": "x"}),
            ("add", "metadata.labels[kai.scheduler/queue]", "team-a"),
        ),
        (
            pod_clique_set(labels={"kai.scheduler/queue": "team"}),
            ("replace", "metadata.labels[kai.scheduler/queue]", "team-a"),
        ),
    ],
)
def test_an_existing_queue_is_offered_for_a_missing_one(manifest: Manifest, expected: tuple[str, str, object]) -> None:
    edit = kai_edit(manifest)
    assert edit is not None
    assert [(change.op, str(change.path), change.value) for change in edit.changes] == [expected]
    patched = jsonpatch.apply_patch(manifest, [change.as_patch() for change in edit.changes])
    assert patched["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"


def test_the_choice_of_the_scheduler_is_never_edited() -> None:
    workload = PodCliqueSet(pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"}))
    place = FieldPath(("metadata", "labels", "rollcall.dev/scheduler"))
    assert list(candidates(Finding(at=place, value="koord-scheduler", why="x", remedy="y"), workload)) == []
    assert (
        list(candidates(Finding(at=SPEC / "template" / "cliques" / Item(0), value=1, why="x", remedy="y"), workload))
        == []
    )


def test_a_finding_without_a_place_has_no_candidate_edits() -> None:
    nowhere = Finding(at=FieldPath(), value=None, why="x", remedy="y")
    assert list(candidates(nowhere, PodCliqueSet(pod_clique_set()))) == []


def test_an_edit_shows_the_verdict_after_it() -> None:
    found = edit_for(pod_clique_set(clique("a", requests=GPU), annotations=NVLINK), "koord-scheduler")
    assert found is not None
    assert found.then is OpinionAnswer.RUNS
    both = pod_clique_set(clique("a", requests=GPU), clique("b"), annotations=NVLINK, topologyConstraint=CONSTRAINT)
    found = edit_for(both, "lpx-scheduler")
    assert found is not None
    assert found.then is OpinionAnswer.PARTLY


def test_one_change_that_fixes_two_faults_is_preferred_to_two() -> None:
    """A greedy search would take the annotation of the first finding; the one above it is enough for both."""
    workload = PodCliqueSet(pod_clique_set(annotations={"a": "1", "b": "2", "both": "3"}))

    def denials(edited: PodCliqueSet) -> list[Finding]:
        places = {"a", "b", "both"} & set(edited.annotations)
        if "both" not in places or not {"a", "b"} & places:
            return []
        at = FieldPath(("metadata", "annotations"))
        return [Finding(at=at / key, value=key, why="x", remedy="y", rule=f"test/{key}") for key in sorted(places)]

    assert [str(change.path) for change in smallest_edit(workload, denials)] == ["metadata.annotations.both"]


def test_changes_that_are_not_needed_are_left_out() -> None:
    workload = PodCliqueSet(pod_clique_set(annotations={"a": "1", "b": "2"}))

    def denials(edited: PodCliqueSet) -> list[Finding]:
        # Only b is at fault, and the fault first shows at a.
        if "b" not in edited.annotations:
            return []
        key = "a" if "a" in edited.annotations else "b"
        at = FieldPath(("metadata", "annotations", key))
        return [Finding(at=at, value=key, why="x", remedy="y", rule="test/x")]

    assert [str(change.path) for change in smallest_edit(workload, denials)] == ["metadata.annotations.b"]


def test_a_complete_rewrite_is_not_offered_as_an_edit() -> None:
    many = pod_clique_set(
        *(clique(f"c{index}", labels={"koordinator.sh/qosClass": "gold"}) for index in range(MAX_CHANGES + 1))
    )
    assert edit_for(many, "koord-scheduler") is None
    fewer = {**many, "spec": deepcopy(many["spec"])}
    del fewer["spec"]["template"]["cliques"][-1]
    found = edit_for(fewer, "koord-scheduler")
    assert found is not None
    assert len(found.changes) == MAX_CHANGES


def test_the_edit_search_of_a_huge_set_is_bounded() -> None:
    asked = 0
    huge = PodCliqueSet(pod_clique_set(*(clique(f"c{index}") for index in range(5000))))

    def denials(_: PodCliqueSet) -> list[Finding]:
        nonlocal asked
        asked += 1
        return [Finding(at=SPEC / "template" / "priorityClassName", value=None, why="x", remedy="y")]

    assert smallest_edit(huge, denials) == ()
    assert asked <= 2


@given(pod_clique_sets())
def test_every_edit_that_is_shown_makes_the_workload_allowed(manifest: Manifest) -> None:
    every = three_schedulers()
    before = deepcopy(manifest)
    for view in explain(request(manifest), NO_FACTS, every).views:
        if view.edit is None:
            continue
        patch = [change.as_patch() for change in view.edit.changes]
        patched = jsonpatch.apply_patch(deepcopy(manifest), patch)
        # The patch that is printed and the copy that was judged are the same.
        assert patched == applied(manifest, view.edit.changes)
        labelled = {
            **patched,
            "metadata": {**patched["metadata"], "labels": {"rollcall.dev/scheduler": view.scheduler}},
        }
        assert validate(labelled, settings=every).allowed
        for change in view.edit.changes:
            fewer = tuple(other for other in view.edit.changes if other is not change)
            try:
                less = applied(manifest, fewer)
            except (KeyError, IndexError, TypeError):
                continue
            labelled = {**less, "metadata": {**less["metadata"], "labels": {"rollcall.dev/scheduler": view.scheduler}}}
            assert not validate(labelled, settings=every).allowed
    assert manifest == before
