"""Properties of admission for every opted-in workload, with generated ones."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_objects
from tests.unit.admission.opted_in.worlds import (
    EVERY,
    RECORD,
    job_pod,
    job_set_pod,
    known,
    leader_pod,
    mutate,
    worker_pod,
)
from tests.unit.worlds import request
from webhook import admission
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS
from webhook.model.place import membership, place_of
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest
from webhook.testing.strategies import dns_labels
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import gangs_of

_SCHEDULERS = st.sampled_from([*EVERY.profiles, "no-profile"])
_MARKS = st.dictionaries(
    st.sampled_from(["kai.scheduler/queue", "scheduling.x-k8s.io/pod-group", "koordinator.sh/qosClass", RECORD, "app"]),
    st.sampled_from(["demo", "volcano", "LSR"]),
    max_size=3,
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "scheduling.k8s.io/group-name",
            "alpha.jobset.sigs.k8s.io/exclusive-topology",
            "kai.scheduler/batch-min-member",
        ]
    ),
    st.sampled_from(["1", "demo"]),
    max_size=2,
)
_NUMBERS = st.none() | st.integers(0, 5)


@st.composite
def templates(draw: st.DrawFn) -> Manifest:
    """Pod templates."""
    spec = draw(st.sampled_from([{}, {"schedulerName": "default-scheduler"}, {"schedulerName": "volcano"}]))
    metadata = draw(st.fixed_dictionaries({}, optional={"labels": _MARKS, "annotations": _ANNOTATIONS}))
    return pod_template(spec, **metadata)


@st.composite
def workloads(draw: st.DrawFn) -> Manifest:
    """Workloads of the four kinds, most of them opted in."""
    common: dict[str, Any] = {
        "scheduler": draw(st.none() | _SCHEDULERS),
        "labels": draw(st.none() | _MARKS.map(lambda marks: {k: v for k, v in marks.items() if k != RECORD})),
        "annotations": draw(st.none() | _ANNOTATIONS),
    }
    kind = draw(st.sampled_from(["job", "jobset", "lws", "trainjob"]))
    if kind == "job":
        numbers: dict[str, Any] = {"parallelism": draw(_NUMBERS), "completions": draw(_NUMBERS)}
        return job(**common, **numbers, template=draw(templates()), suspend=draw(st.booleans()))
    if kind == "lws":
        leader = draw(st.none() | templates())
        return leader_worker_set(**common, size=draw(st.integers(1, 4)), leader=leader, worker=draw(templates()))
    if kind == "trainjob":
        return train_job(**common, trainer={"numNodes": draw(_NUMBERS)})
    names = draw(st.lists(dns_labels, min_size=1, max_size=3, unique=True))
    jobs = []
    for index, name in enumerate(names):
        after = draw(st.lists(st.sampled_from(names[:index]), max_size=2)) if index else []
        fields: dict[str, Any] = {"dependsOn": [{"name": one} for one in after]} if after else {}
        jobs.append(replicated(name, draw(st.integers(0, 4)), template=draw(templates()), replicas=2, **fields))
    return job_set(*jobs, **common)


@given(workloads(), st.sampled_from([None, "koord-scheduler", "kai-scheduler"]))
def test_mutation_matches_its_patch_and_is_idempotent(manifest: Manifest, namespace: str | None) -> None:
    facts = known(facts=runtimes(), **({} if namespace is None else {"default": namespace}))
    found, verdict = mutate(manifest, facts=facts)
    assert jsonpatch.apply_patch(deepcopy(manifest), list(verdict.patch)) == found
    assert {operation["op"] for operation in verdict.patch} <= {"add", "replace"}
    assert mutate(found, facts=facts)[1].patch == ()
    # And an update by the manifest that made it finds the object as it is.
    again, _ = mutate(manifest, found, facts=facts)
    assert mutate(again, found, facts=facts)[0]["metadata"].get("labels") == again["metadata"].get("labels")


@given(workloads())
def test_a_workload_always_gets_a_verdict_and_an_unchanged_one_is_not_refused(manifest: Manifest) -> None:
    facts = known(facts=runtimes())
    stored, _ = mutate(manifest, facts=facts)
    verdict = admission.validate(request(stored), facts, EVERY)
    assert verdict.allowed is not bool(verdict.denials)
    for finding in verdict.findings:
        assert len(str(finding).encode()) <= 1024
    assert admission.validate(request(stored, stored), facts, EVERY).allowed


@given(workloads(), st.sampled_from([0, 1]), st.sampled_from(list(EVERY.profiles)))
def test_preparing_pods_is_idempotent_for_every_workload(manifest: Manifest, group: int, scheduler: str) -> None:
    manifest["metadata"]["labels"] = {**(manifest["metadata"].get("labels") or {}), RECORD: scheduler}
    facts = known(manifest)
    template = {"metadata": {"labels": {RECORD: scheduler}}}
    kind = manifest["kind"]
    if kind == "Job":
        pods = [job_pod("demo", template)]
    elif kind == "JobSet":
        pods = [job_set_pod("demo", one["name"], group, template) for one in manifest["spec"]["replicatedJobs"]]
    else:
        pods = [leader_pod("demo", group, template), worker_pod("demo", group, 1, template)]
    for pod in pods:
        found, verdict = mutate(pod, facts=facts)
        assert jsonpatch.apply_patch(deepcopy(pod), list(verdict.patch)) == found
        assert mutate(found, facts=facts)[1].patch == ()
        for field in ("containers", "ownerReferences"):
            assert (found["spec"] | found["metadata"])[field] == (pod["spec"] | pod["metadata"])[field]


@given(workloads().filter(lambda manifest: manifest["kind"] == "JobSet"))
def test_every_pod_of_a_jobset_is_a_member_of_exactly_one_of_its_gangs(manifest: Manifest) -> None:
    workload = JobSet(manifest)
    members = [(gang.name, member.name) for gang in gangs_of(workload) for member in gang.members]
    assert len(members) == len(set(members))
    in_turn = workload.sequence_path is not None
    for part in workload.parts:
        place = place_of(Pod(job_set_pod("demo", part.name)))
        assert place is not None
        assert (tuple(membership(place, sequenced=in_turn)) in members) is (part.pods > 0)


_SHAPES = st.sampled_from(
    [job(), job_set(), leader_worker_set(), train_job(), job_pod("demo"), job_set_pod("demo", "a")]
)


@given(_SHAPES, json_objects, json_objects)
def test_no_json_makes_admission_fail(manifest: Manifest, metadata: Any, spec: Any) -> None:
    labels = {RECORD: "koord-scheduler"}
    found = {**manifest, "metadata": {"labels": labels, **metadata}, "spec": {**manifest["spec"], **spec}}
    before = deepcopy(found)
    try:
        mutated, verdict = mutate(found, facts=NO_FACTS)
        assert jsonpatch.apply_patch(before, list(verdict.patch)) == mutated
        judged = admission.validate(request(found), NO_FACTS, EVERY)
        assert judged.allowed is not bool(judged.denials)
        admission.validate(request(found, found), NO_FACTS, EVERY)
    except FactsUnavailable:
        # Of a pod whose workload could not be read.
        assert manifest["kind"] == "Pod"


@given(json_objects)
def test_a_malformed_runtime_is_unknown_and_never_a_trainjob_s_fault(spec: Any) -> None:
    try:
        facts = known(
            {"kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"}, "spec": {"template": {"spec": spec}}}
        )
    except Malformed:
        return
    assert "grove/shape" not in [one.rule for one in admission.validate(request(train_job()), facts, EVERY).findings]
