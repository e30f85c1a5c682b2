"""`spec.scheduling` of a JobSet, from which its own controller makes groups: for all pods, for some of its replicated
Jobs, or for each Job of one.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import known, schedulers, validate
from webhook.model.admission_request import Verdict
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.offline.fact_files import known_fields
from webhook.validators.examples import job, job_set, pod_template, replicated
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import levels_of_own_gang

GANG: Manifest = {"schedulingPolicy": {"gang": {}}}
RACK: Manifest = {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}
CLAIM: Manifest = {"resourceClaims": [{"name": "imex", "resourceClaimTemplateName": "channel"}]}
GROUPED: Manifest = {"podGroupName": "mine"}
EVERY_GATE = [
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "DRAWorkloadResourceClaims",
]


def entry(*targets: str, **fields: Any) -> Manifest:
    return {"targetReplicatedJobs": list(targets), **fields}


def jobs(*entries: Manifest, pod: Manifest | None = None, jobs: int = 2, **fields: Any) -> Manifest:
    """A JobSet of a driver with one pod, and of some Jobs of two workers."""
    parts = (
        replicated("driver", 1, template=pod_template(pod)),
        replicated("workers", 2, template=pod_template(pod), replicas=jobs),
    )
    scheduling = {"replicatedJobs": list(entries), **fields} if entries else fields
    return job_set(*parts, scheduler="default-scheduler", scheduling=scheduling)


def judged(manifest: Manifest, gates: list[str] | None = None) -> Verdict:
    config: dict[str, Any] = {"gangScheduling": True, "apiGeneration": "v1beta1"}
    if gates is not None:
        config["schedulerGates"] = gates
    settings = schedulers({"name": "default-scheduler", "config": config})
    return validate(manifest, facts=known(), settings=settings)


def places(verdict: Verdict, rule: str) -> list[tuple[str, object]]:
    return [(str(finding.at), finding.value) for finding in verdict.findings if finding.rule == rule]


BOTH = (entry("driver", schedulingPolicy={"basic": {}}), entry("workers", **GANG, **RACK, **CLAIM))
EACH = (entry("driver"), entry("workers", job={**GANG, **RACK, **CLAIM}))
ACCEPTED = {
    "nothing stated": jobs(),
    "one gang": jobs(**GANG, **RACK, disruptionMode={"all": {}}),
    "a gang of some groups": jobs(schedulingPolicy={"gang": {"minGroupCount": 1}}),
    "a group for each": jobs(*BOTH, pod=CLAIM),
    "a group for each Job": jobs(*EACH, pod=CLAIM),
    "one group for both": jobs(entry("driver", "workers", schedulingPolicy={"gang": {"minCount": 5}})),
}


@pytest.mark.parametrize("manifest", ACCEPTED.values(), ids=ACCEPTED)
def test_what_jobset_accepts_is_accepted_and_its_fields_are_known(manifest: Manifest) -> None:
    assert judged(manifest, EVERY_GATE).findings == ()
    fields = known_fields()[Api("jobset.x-k8s.io", "v1alpha2", "JobSet")]
    assert list(fields.unknown(manifest)) == []


def test_a_misspelt_field_is_unknown() -> None:
    fields = known_fields()[Api("jobset.x-k8s.io", "v1alpha2", "JobSet")]
    manifest = jobs({"targetReplicatedJob": ["driver"]})
    (field,) = fields.unknown(manifest)
    assert (str(field.at), field.likely) == (
        "spec.scheduling.replicatedJobs[0].targetReplicatedJob",
        "targetReplicatedJobs",
    )


ENTRIES = "spec.scheduling.replicatedJobs"
REFUSED: dict[str, tuple[Manifest, list[tuple[str, object]]]] = {
    "a group in the templates": (
        jobs(**GANG, pod={"schedulingGroup": GROUPED}),
        [(f"spec.replicatedJobs[{index}].template.spec.template.spec.schedulingGroup", GROUPED) for index in (0, 1)],
    ),
    "a Job with its own": (
        job_set(replicated("node", job={"scheduling": GANG}), scheduler="default-scheduler", scheduling=GANG),
        [("spec.replicatedJobs[0].template.spec.scheduling", GANG)],
    ),
    "a level above": (jobs(*EACH, **GANG), [("spec.scheduling.schedulingPolicy", GANG["schedulingPolicy"])]),
    "no such replicated Job": (
        jobs(*BOTH, entry("evaluator")),
        [(f"{ENTRIES}[2].targetReplicatedJobs[0]", "evaluator")],
    ),
    "two groups": (jobs(*BOTH, entry("driver")), [(f"{ENTRIES}[2].targetReplicatedJobs[0]", "driver")]),
    "no group": (jobs(entry("driver")), [("spec.replicatedJobs[1].name", "workers")]),
    "one Job's group for two": (
        jobs(entry("driver", "workers", job={})),
        [(f"{ENTRIES}[0].targetReplicatedJobs", ["driver", "workers"])],
    ),
    "a group for all beside one for each": (
        jobs(entry("driver"), entry("workers", job={}, **RACK)),
        [(f"{ENTRIES}[1].schedulingConstraints", RACK["schedulingConstraints"])],
    ),
    "nine groups": (jobs(*EACH, pod=CLAIM, jobs=8), [(ENTRIES, 9)]),
    "a minimum of the whole": (
        jobs(schedulingPolicy={"gang": {"minCount": 6}}),
        [("spec.scheduling.schedulingPolicy.gang.minCount", 6)],
    ),
    "a minimum of a Job": (
        jobs(entry("driver"), entry("workers", job={"schedulingPolicy": {"gang": {"minCount": 3}}})),
        [(f"{ENTRIES}[1].job.schedulingPolicy.gang.minCount", 3)],
    ),
    "a minimum of those in turn": (
        job_set(
            replicated("driver", 1),
            replicated("workers", 4),
            scheduler="default-scheduler",
            scheduling={"schedulingPolicy": {"gang": {"minCount": 5}}},
            startupPolicy={"startupPolicyOrder": "InOrder"},
        ),
        [("spec.scheduling.schedulingPolicy.gang.minCount", 5)],
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_jobset_refuses_is_a_warning(manifest: Manifest, expected: list[tuple[str, object]]) -> None:
    verdict = judged(manifest)
    assert verdict.allowed
    assert places(verdict, "owner/scheduling-refused") == expected


def test_topology_and_claims_of_each_level_need_their_gates() -> None:
    gates = EVERY_GATE[:2]
    topology = "schedulingConstraints.topology[0].key"
    for manifest, at in (
        (jobs(**GANG, **RACK), "spec.scheduling"),
        (jobs(*BOTH, pod=CLAIM), f"{ENTRIES}[1]"),
        (jobs(*EACH, pod=CLAIM), f"{ENTRIES}[1].job"),
    ):
        verdict = judged(manifest, gates)
        assert places(verdict, "kube/owner-topology") == [(f"{at}.{topology}", "example.com/rack")]
        if at != "spec.scheduling":
            assert places(verdict, "kube/owner-claims") == [(f"{at}.resourceClaims[0]", "imex")]


@pytest.mark.parametrize("manifest", [jobs(*BOTH), jobs(*EACH)], ids=["for all", "for each Job"])
def test_a_claim_that_no_pod_of_the_group_has_is_shared_by_none(manifest: Manifest) -> None:
    ((at, name),) = places(judged(manifest, EVERY_GATE), "kube/owner-claims")
    assert (at.rpartition(".")[2], name) == ("resourceClaims[0]", "imex")


def test_the_annotation_for_claims_has_no_effect_on_groups_of_another_controller() -> None:
    manifest = job(
        scheduler="default-scheduler",
        annotations={"rollcall.dev/group-claims": "imex"},
        scheduling={**GANG, "disruptionMode": {"all": {}}},
        template=pod_template(CLAIM),
    )
    assert places(judged(manifest), "kube/group-claims") == [
        ("metadata.annotations[rollcall.dev/group-claims]", "imex")
    ]


@pytest.mark.parametrize(
    ("manifest", "levels"),
    [
        (jobs(**GANG, **RACK), [("spec.scheduling", None)]),
        (jobs(*BOTH), [(f"{ENTRIES}[1]", ("workers",))]),
        (jobs(*EACH), [(f"{ENTRIES}[1].job", ("workers",))]),
    ],
    ids=["all", "some", "each Job"],
)
def test_the_levels_that_a_jobset_requires_are_those_of_its_groups(manifest: Manifest, levels: Any) -> None:
    found = [(str(level.path), level.parts) for level in levels_of_own_gang(JobSet(manifest))]
    assert found == [(f"{at}.schedulingConstraints.topology[0].key", parts) for at, parts in levels]


@pytest.mark.parametrize("wrong", [5, "gang", [], {"replicatedJobs": 5}, {"replicatedJobs": [None, {"job": 3}]}])
def test_a_field_of_the_wrong_type_ends_no_review(wrong: object) -> None:
    manifest = job_set(replicated("node"), scheduler="default-scheduler", scheduling=wrong)
    assert judged(manifest).allowed in {True, False}
