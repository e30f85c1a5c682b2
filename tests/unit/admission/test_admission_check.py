"""The answer to Kueue's AdmissionCheck: Rejected only for what a change of the object alone can cure, else Ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import is_like
from tests.unit.admission.decisions import GPU, KOORD, NVLINK, in_namespace
from tests.unit.worlds import gang_pod, koordinator, settings_of
from webhook.admission.admission_check import CheckAnswer, CheckOutcome, answer, workload_of
from webhook.config.settings import Enforcement, Profile, Settings
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Needed
from webhook.model.resources import Alternative, DeviceRequest, NamespaceQuota
from webhook.validators.examples import GPU as GPU_NAME
from webhook.validators.examples import (
    job,
    job_set,
    leader_worker_set,
    nodes,
    pod_clique_set,
    pod_template,
    replicated,
    train_job,
)
from webhook.workloads.kueue_integration import CheckMode
from webhook.workloads.workload_kinds import PYTHON_KINDS

ON = replace(koordinator(standalone=False), admission_check=CheckMode.ON)
AUDIT = replace(ON, admission_check=CheckMode.AUDIT)
KNOWN = in_namespace()
OTHER_SCHEDULER = pod_template({"schedulerName": "volcano"})
REPLACING = job(parallelism=2, completions=5)


def asked(manifest: Any, settings: Settings = ON, facts: ClusterFacts = KNOWN) -> CheckAnswer:
    group = manifest.get("apiVersion", "grove.io/v1alpha1").rpartition("/")[0] if "/" in manifest["apiVersion"] else ""
    return answer((group, manifest["kind"]), manifest, "default", facts, settings)


def grove(manifest: Any, **labels: str) -> Any:
    metadata = {**manifest["metadata"], "labels": {**manifest["metadata"].get("labels", {}), **labels}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", **manifest, "metadata": metadata}


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(), id="Job"),
        pytest.param(job_set(), id="JobSet"),
        pytest.param(leader_worker_set(), id="LeaderWorkerSet"),
        pytest.param(train_job(), id="TrainJob"),
        pytest.param(grove(pod_clique_set(), **KOORD), id="PodCliqueSet"),
    ],
)
def test_a_workload_that_no_rule_denies_is_ready(manifest: Any) -> None:
    assert asked(manifest) == CheckAnswer(CheckOutcome.READY, "no rule of koord-scheduler denies it")
    assert asked(manifest).state == "Ready"


@pytest.mark.parametrize(
    ("manifest", "start"),
    [
        (
            REPLACING,
            "owner/completions at spec.completions: 5: ",
        ),
        (
            job_set(replicated("node", template=OTHER_SCHEDULER)),
            'owner/scheduler-name at spec.replicatedJobs[0].template.spec.template.spec.schedulerName: "volcano": ',
        ),
        (
            leader_worker_set(startupPolicy="LeaderReady"),
            'owner/leader-ready at spec.startupPolicy: "LeaderReady": ',
        ),
        (
            grove(pod_clique_set(GPU, annotations=NVLINK), **KOORD),
            'koordinator/mnnvl at metadata.annotations[grove.io/mnnvl-group]: "train": ',
        ),
    ],
)
def test_a_fault_of_the_object_is_rejected_with_the_text_of_the_finding(manifest: Any, start: str) -> None:
    found = asked(manifest)
    assert (found.outcome, found.state) == (CheckOutcome.REJECTED, "Rejected")
    assert found.message.startswith(start)


def test_an_audit_lets_the_same_fault_pass_and_says_so() -> None:
    found = asked(REPLACING, AUDIT)
    assert (found.outcome, found.state) == (CheckOutcome.WOULD_REJECT, "Ready")
    assert found.message.startswith("would be rejected: owner/completions at spec.completions: 5: ")


def test_a_fault_that_another_object_may_cure_is_ready_and_told() -> None:
    labelled = {"quota.scheduling.koordinator.sh/name": "gone"}
    settings = replace(settings_of("koord-scheduler", standalone=False, gate=False), admission_check=CheckMode.ON)
    found = asked(job(labels=labelled), settings, replace(KNOWN, elastic_quotas={}))
    assert (found.outcome, found.state) == (CheckOutcome.READY_WITH_FINDING, "Ready")
    assert is_like(found.message, "not rejected, ...: koordinator/owner-quota at ...")


def test_a_fault_of_the_profile_is_ready() -> None:
    settings = replace(koordinator({"matchPolicy": "only-waiting"}, standalone=False), admission_check=CheckMode.ON)
    assert asked(job(), settings).outcome is CheckOutcome.READY_WITH_FINDING


def test_a_fault_that_a_newer_scheduler_cures_is_ready() -> None:
    settings = settings_of("kai-scheduler", {"defaultQueue": "team"}, standalone=False, schedulerVersion="0.15.0")
    old = job_set(scheduler="kai-scheduler")
    found = asked(old, replace(settings, admission_check=CheckMode.ON), replace(KNOWN, kai_queues={}))
    assert found.state == "Ready"


def test_the_mode_of_the_namespace_counts() -> None:
    faulty = grove(pod_clique_set(GPU, annotations=NVLINK), **KOORD)
    assert asked(faulty).outcome is CheckOutcome.REJECTED
    warned = in_namespace(**{"rollcall.dev/enforcement": "warn"})
    assert asked(faulty, facts=warned) == CheckAnswer(CheckOutcome.READY, "no rule of koord-scheduler denies it")


def test_no_mode_lets_pass_what_cannot_be_translated() -> None:
    assert asked(REPLACING, facts=in_namespace(**{"rollcall.dev/enforcement": "off"})).outcome is CheckOutcome.REJECTED


@pytest.mark.parametrize(
    ("manifest", "facts", "message"),
    [
        pytest.param(REPLACING, NO_FACTS, "not judged: the namespace default is not read yet", id="unknown namespace"),
        pytest.param(job(scheduler=None), KNOWN, "not judged: this Job records no scheduler", id="not opted in"),
        pytest.param(
            job(scheduler="other", completions=5), KNOWN, "not judged: no profile other is enabled", id="no profile"
        ),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Farm", "metadata": {}},
            KNOWN,
            "not judged: ... Farm",
            id="another kind",
        ),
        pytest.param(
            job(parallelism=2, completions=5, managedBy="kueue.x-k8s.io/multikueue"),
            KNOWN,
            "not judged: MultiKueue ...",
            id="MultiKueue",
        ),
        pytest.param(
            job(parallelism="two"),
            KNOWN,
            "not judged: Job cannot be read: expected a whole number, found text",
            id="unreadable",
        ),
    ],
)
def test_what_cannot_be_judged_is_ready(manifest: Any, facts: ClusterFacts, message: str) -> None:
    found = asked(manifest, facts=facts)
    assert found.outcome is CheckOutcome.NOT_JUDGED
    assert is_like(found.message, message)
    assert found.state == "Ready"


def test_a_workload_with_too_many_parts_is_ready() -> None:
    found = asked(job_set(*({"name": f"n{index}"} for index in range(10_001))))
    assert is_like(found.message, "not judged: spec.replicatedJobs has 10001 entries, ... 10000 ...")


def test_a_message_has_at_most_512_bytes() -> None:
    named = "x" * 200
    many = [replicated(f"{named}{index}", template=OTHER_SCHEDULER) for index in range(3)]
    for settings in (ON, AUDIT):
        assert len(asked(job_set(*many), settings).message.encode()) <= 512


def test_other_faults_are_counted() -> None:
    faulty = job_set(*(replicated(name, template=OTHER_SCHEDULER) for name in ("a", "b", "c")))
    assert asked(faulty).message.endswith(" (+2 more)")


def test_pods_of_grove_and_of_workloads_are_judged_by_their_workload() -> None:
    assert workload_of(gang_pod(), "team-a", PYTHON_KINDS) == Needed("pod_clique_sets", ("team-a", "demo"))
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    pod = {"metadata": {"name": "train-0", "namespace": "team-a", "ownerReferences": [controller]}}
    assert workload_of(pod, "team-a", PYTHON_KINDS) == Needed("jobs", ("team-a", "train"))
    assert workload_of({"metadata": {"name": "alone"}}, "team-a", PYTHON_KINDS) is None


def test_a_pod_of_no_workload_is_judged_by_itself() -> None:
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": {"containers": []}}
    assert asked(alone).state == "Ready"


# Gangs that can never start: the rules fit/... warn by default.

_ONE, _MANY = ((DeviceRequest("gpu", (Alternative("gpu.example.com", number),)),) for number in (1, 33))
_NAMED = pod_template({"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]})
TOO_MANY_PODS = job(template=_NAMED, parallelism=257, completions=257)
TOO_MANY_DEVICES = job(
    template=pod_template({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "many"}]})
)
DEVICES = replace(
    KNOWN,
    resource_claim_templates={("default", "many"): _MANY},
    resource_claims={("default", "one"): _ONE},
    resource_quotas={},
    limit_ranges={},
)
ABOVE_NODES = job(template=pod_template({"containers": [{"name": "main", "resources": {"limits": {GPU_NAME: "16"}}}]}))
NODES = replace(KNOWN, nodes=nodes(2, gpus=8).nodes)
QUOTA = replace(DEVICES, resource_quotas={("default", "small"): NamespaceQuota(hard={"pods": 1})}, limit_ranges={})


def test_a_proof_that_only_the_object_can_cure_is_rejected_although_its_rule_warns() -> None:
    found = asked(TOO_MANY_PODS, facts=DEVICES)
    assert (found.outcome, found.state) == (CheckOutcome.REJECTED, "Rejected")
    assert found.message.startswith("fit/devices at spec.template.spec.resourceClaims[0]: 257: ")
    audited = asked(TOO_MANY_PODS, AUDIT, DEVICES)
    assert (audited.outcome, audited.state) == (CheckOutcome.WOULD_REJECT, "Ready")


@pytest.mark.parametrize("mode", ["warn", "audit", "off"])
def test_no_proof_rejects_where_rules_do_not_deny(mode: str) -> None:
    facts = replace(DEVICES, namespaces=in_namespace(**{"rollcall.dev/enforcement": mode}).namespaces)
    assert asked(TOO_MANY_PODS, facts=facts).state == "Ready"


@pytest.mark.parametrize("action", [Action.AUDIT, Action.OFF])
def test_a_rule_that_does_not_warn_does_not_reject(action: Action) -> None:
    profile = ON.profiles["koord-scheduler"]
    own = Enforcement(rules={"fit/devices": action})
    weaker = Profile(profile.backend, Enforcement(), own)
    found = asked(TOO_MANY_PODS, replace(ON, profiles={"koord-scheduler": weaker}), DEVICES)
    assert found == CheckAnswer(CheckOutcome.READY, "no rule of koord-scheduler denies it")


@pytest.mark.parametrize(
    ("manifest", "facts", "rule"),
    [
        pytest.param(ABOVE_NODES, NODES, "fit/node at ", id="other nodes would cure it"),
        pytest.param(TOO_MANY_DEVICES, DEVICES, "fit/devices at ", id="another ResourceClaimTemplate would cure it"),
        pytest.param(job(), QUOTA, "fit/quota at ", id="a larger quota would cure it"),
    ],
)
def test_a_proof_that_others_can_cure_is_ready_and_told(manifest: Any, facts: ClusterFacts, rule: str) -> None:
    found = asked(manifest, facts=facts)
    assert (found.outcome, found.state) == (CheckOutcome.READY_WITH_FINDING, "Ready")
    assert is_like(found.message, f"not rejected, ...: {rule}...")


def test_a_proof_that_others_can_cure_does_not_reject_if_its_rule_denies() -> None:
    profile = ON.profiles["koord-scheduler"]
    stricter = Profile(profile.backend, Enforcement(), Enforcement(rules={"fit/node": Action.DENY}))
    found = asked(ABOVE_NODES, replace(ON, profiles={"koord-scheduler": stricter}), NODES)
    assert (found.outcome, found.state) == (CheckOutcome.READY_WITH_FINDING, "Ready")
