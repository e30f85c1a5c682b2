"""Unknown kinds, fields and keys: what is found in manifests, and what the webhook says of the same object."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.texts import Text
from tests.unit.cli.opted_in_samples import readable_files
from tests.unit.worlds import koordinator, request, rules, settings_of, validate
from webhook import admission
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.keys import Api
from webhook.model.kueue import KueueSettings
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.offline.fact_files import add_field_names
from webhook.offline.judgement import judge, name_judgements
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    leader_worker_set,
    pod_clique_set,
    pod_template,
    replicated,
    train_job,
)

FACTS = add_field_names(NO_FACTS)
SAMPLES = os.environ.get("ROLLCALL_SAMPLES")
NAMES = ("fields/", "keys/", "kinds/")


def of_kind(api_version: str, kind: str, *, labelled: bool = True, **spec: Any) -> Manifest:
    metadata: Manifest = {"name": "demo", "namespace": "default"}
    if labelled:
        metadata["labels"] = {"rollcall.dev/scheduler": "koord-scheduler"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def changed(manifest: Manifest, *path: str | int, value: Any) -> Manifest:
    found = deepcopy(manifest)
    at: Any = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return found


def said(manifest: Manifest) -> list[tuple[str, str, str]]:
    """Rule, field and remedy of what is wrong with the names in a manifest."""
    return [
        (finding.rule, str(finding.at), finding.remedy)
        for judgement in judge(deepcopy(manifest), FACTS, koordinator())
        for finding in judgement.verdict.findings
        if finding.rule.startswith(NAMES)
    ]


SET = pod_clique_set(clique("worker", minimum=2))
CLIQUE = ("spec", "template", "cliques", 0)
TOGETHER = "a LeaderWorkerSet"
FOUND: dict[str, tuple[Manifest, tuple[str, str, str]]] = {
    "a version that no release serves": (
        {**job_set(unheardOf=1), "apiVersion": "jobset.x-k8s.io/v1beta7"},
        ("kinds/version", "apiVersion", "write apiVersion: jobset.x-k8s.io/v1alpha2"),
    ),
    "a kind in the wrong case": (
        {**SET, "kind": "PodcliqueSet"},
        ("kinds/unknown", "kind", "did you mean kind PodCliqueSet? correct it"),
    ),
    "a kind with a letter too many": (
        {**job_set(), "kind": "JobSets"},
        ("kinds/unknown", "kind", "did you mean kind JobSet? correct it"),
    ),
    "a kind of the wrong group": (
        {**SET, "apiVersion": "grove.dev/v1alpha1"},
        ("kinds/unknown", "apiVersion", "did you mean the API group grove.io? correct it"),
    ),
    "a Job of a misspelt group": (
        {**job(), "apiVersion": "bacth/v1"},
        ("kinds/unknown", "apiVersion", "did you mean the API group batch? correct it"),
    ),
    "a misspelt minimum": (
        changed(SET, *CLIQUE, "spec", "minAvailabe", value=2),
        ("fields/unknown", "spec.template.cliques[0].spec.minAvailabe", "did you mean minAvailable? rename it"),
    ),
    "a misspelt size": (
        changed(leader_worker_set(), "spec", "leaderWorkerTemplate", "siez", value=4),
        ("fields/unknown", "spec.leaderWorkerTemplate.siez", "did you mean size? rename it"),
    ),
    "a misspelt field of a pod": (
        changed(SET, *CLIQUE, "spec", "podSpec", "tolerrations", value=[]),
        ("fields/unknown", "spec.template.cliques[0].spec.podSpec.tolerrations", "did you mean tolerations? rename it"),
    ),
    "a field in snake case": (
        job_set(replicated("node", group_name="a")),
        ("fields/unknown", "spec.replicatedJobs[0].group_name", "did you mean groupName? rename it"),
    ),
    "a field that nothing resembles": (
        train_job(gangs=True),
        ("fields/unknown", "spec.gangs", "remove it, or "),
    ),
    "a schedulerName beside the cliques": (
        changed(SET, "spec", "template", "schedulerName", value="volcano"),
        (
            "fields/misplaced",
            "spec.template.schedulerName",
            "did you mean spec.template.cliques[].spec.podSpec.schedulerName? move it there",
        ),
    ),
    "a schedulerName beside the pod spec of a Job": (
        changed(job(), "spec", "template", "schedulerName", value="volcano"),
        (
            "fields/misplaced",
            "spec.template.schedulerName",
            "did you mean spec.template.spec.schedulerName? move it there",
        ),
    ),
    "a field of the spec beside the spec": (
        {**job(), "parallelism": 3},
        ("fields/misplaced", "parallelism", "did you mean spec.parallelism? move it there"),
    ),
    "a misspelt annotation": (
        pod_clique_set(annotations={"scheduling.grove.io/koordinator-quotas": "a"}),
        (
            "keys/unknown",
            "metadata.annotations[scheduling.grove.io/koordinator-quotas]",
            "did you mean scheduling.grove.io/koordinator-quota? write that key",
        ),
    ),
    "a misspelt label": (
        job(scheduler=None, labels={"rollcall.dev/schedular": "koord-scheduler"}),
        (
            "keys/unknown",
            "metadata.labels[rollcall.dev/schedular]",
            "did you mean rollcall.dev/scheduler? write that key",
        ),
    ),
    "an unknown label of Rollcall": (
        pod_clique_set(labels={"rollcall.dev/speed": "high"}),
        ("keys/unknown", "metadata.labels[rollcall.dev/speed]", "remove it, or "),
    ),
    "a misspelt annotation of a clique": (
        pod_clique_set(clique("worker", annotations={"grove.io/mnnvl-groups": "a"})),
        (
            "keys/unknown",
            "spec.template.cliques[0].annotations[grove.io/mnnvl-groups]",
            "did you mean grove.io/mnnvl-group? write that key",
        ),
    ),
    "a misspelt label of a pod template": (
        job(template=pod_template(labels={"kai.scheduler/queues": "a"})),
        (
            "keys/unknown",
            "spec.template.metadata.labels[kai.scheduler/queues]",
            "did you mean kai.scheduler/queue? write that key",
        ),
    ),
    "the scheduler as an annotation": (
        job(scheduler=None, annotations={"rollcall.dev/scheduler": "koord-scheduler"}),
        ("keys/misplaced", "metadata.annotations[rollcall.dev/scheduler]", "move it to metadata.labels"),
    ),
    "the scheduler as an annotation of a namespace": (
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "a", "annotations": {"rollcall.dev/scheduler": "volcano"}},
        },
        ("keys/misplaced", "metadata.annotations[rollcall.dev/scheduler]", "move it to metadata.labels"),
    ),
    "the quota as a label": (
        pod_clique_set(labels={"scheduling.grove.io/koordinator-quota": "a"}),
        ("keys/misplaced", "metadata.labels[scheduling.grove.io/koordinator-quota]", "move it to metadata.annotations"),
    ),
    "the enforcement of a namespace on a workload": (
        pod_clique_set(labels={"rollcall.dev/enforcement": "warn"}),
        (
            "keys/misplaced",
            "metadata.labels[rollcall.dev/enforcement]",
            "on the namespace",
        ),
    ),
    "a TFJob": (
        of_kind("kubeflow.org/v1", "TFJob"),
        (
            "kinds/no-gangs",
            "metadata.labels[rollcall.dev/scheduler]",
            "write it as a TrainJob",
        ),
    ),
    "a ReplicaSet": (
        of_kind("apps/v1", "ReplicaSet"),
        ("kinds/no-gangs", "metadata.labels[rollcall.dev/scheduler]", TOGETHER),
    ),
    "a CronJob": (
        of_kind("batch/v1", "CronJob"),
        (
            "kinds/no-gangs",
            "metadata.labels[rollcall.dev/scheduler]",
            "spec.jobTemplate.metadata.labels",
        ),
    ),
    "a workload of an unknown kind": (
        of_kind("example.com/v1", "Farm", template={"spec": {"containers": []}}),
        (
            "kinds/no-gangs",
            "metadata.labels[rollcall.dev/scheduler]",
            "`rollcall shapes init ",
        ),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_wrong_name_is_reported_with_the_likely_one(name: str) -> None:
    manifest, (rule, field, remedy) = FOUND[name]
    ((*place, words),) = said(manifest)
    assert place == [rule, field]
    assert remedy in words


NOTHING_WRONG: dict[str, Manifest] = {
    "a PodCliqueSet": SET,
    "a JobSet": job_set(),
    "a LeaderWorkerSet": leader_worker_set(),
    "a TrainJob": train_job(),
    "a Job": job(),
    "a StatefulSet without the label": of_kind("apps/v1", "StatefulSet", labelled=False),
    "a ConfigMap with the label, as kustomize adds it": of_kind("v1", "ConfigMap"),
    "a Job of Volcano": of_kind("batch.volcano.sh/v1alpha1", "Job", labelled=False),
    "a Queue of another system": of_kind("mq.example.com/v1", "Queue", labelled=False),
    "a PodGroup of another system": of_kind("example.com/v1", "PodGroup", labelled=False),
    "a RayJob": of_kind("ray.io/v1", "RayJob", labelled=False),
    "a kind that resembles none": of_kind("example.com/v1", "Tractor", labelled=False),
    "a PodTemplate": of_kind("v1", "PodTemplate", labelled=False),
    "a PodGangMap": of_kind("grove.io/v1alpha1", "PodGangMap", labelled=False),
    "an object without a kind": {"metadata": {"name": "a"}},
    "annotations of the wrong type": {**of_kind("v1", "ConfigMap"), "metadata": {"annotations": ["a"], "labels": 3}},
    "a label of the namespace": {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "a", "labels": {"rollcall.dev/scheduler": "volcano", "rollcall.dev/enforcement": "warn"}},
    },
}


@pytest.mark.parametrize("name", NOTHING_WRONG)
def test_right_names_are_not_reported(name: str) -> None:
    assert said(NOTHING_WRONG[name]) == []


OLD_KEYS = {"runai/queue": "team-a", "runai/node-pool": "a100"}


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        ({}, {"runai/queue", "runai/node-pool"}),
        ({"queueLabelKey": "runai/queue"}, {"runai/node-pool"}),
        ({"queueLabelKey": "runai/queue", "nodePoolLabelKey": "runai/node-pool"}, set()),
    ],
)
@pytest.mark.parametrize("manifest", [pod_clique_set(labels=OLD_KEYS), of_kind("v1", "ConfigMap", labelled=False)])
def test_a_key_of_the_configuration_is_read(manifest: Manifest, config: dict[str, str], unread: set[str]) -> None:
    labelled = changed(manifest, "metadata", "labels", value=OLD_KEYS)
    settings = settings_of("kai-scheduler", config)
    files = [found for one in judge(deepcopy(labelled), FACTS, settings) for found in one.verdict.findings]
    review = validate(labelled, settings=settings).findings if manifest["kind"] == "PodCliqueSet" else files
    for findings in (files, review):
        assert {str(one.at.parts[-1]) for one in findings if one.rule == "keys/unknown"} == unread


def test_a_key_that_resembles_a_known_one_is_read_if_it_is_configured() -> None:
    asked = pod_clique_set(labels={"kai.scheduler/queues": "team-a"})
    settings = settings_of("kai-scheduler", {"queueLabelKey": "kai.scheduler/queues"})
    assert "keys/unknown" not in rules(validate(asked, settings=settings))


def of_version(manifest: Manifest, facts: ClusterFacts = FACTS, release: str | None = None) -> list[Finding]:
    """What `kinds/version` finds, with Kueue in the stated release."""
    stated = None if release is None else Version.parse(release)
    settings = replace(koordinator(), kueue=KueueSettings(release=stated))
    findings = [found for one in judge(manifest, facts, settings) for found in one.verdict.findings]
    return [found for found in findings if found.rule == "kinds/version"]


@pytest.mark.parametrize("kind", ["ClusterQueue", "Workload", "Topology"])
def test_a_version_that_only_earlier_releases_serve_is_wrong_unless_such_a_release_runs(kind: str) -> None:
    manifest = of_kind("kueue.x-k8s.io/v1beta1", kind, labelled=False)
    newer, older = (Api("kueue.x-k8s.io", version, kind) for version in ("v1beta2", "v1beta1"))
    wrong = [
        of_version(manifest),
        of_version(manifest, release="0.20"),
        of_version(manifest, replace(FACTS, apis=frozenset({newer})), "0.19"),
    ]
    for (finding,) in wrong:
        assert (str(finding.at), finding.value) == ("apiVersion", "kueue.x-k8s.io/v1beta1")
        assert finding.instead == ("kueue.x-k8s.io/v1beta2",)
        assert "only Kueue v0.19 and earlier serve it" in finding.why
    assert of_version(manifest, release="0.19") == []
    assert of_version(manifest, replace(FACTS, apis=frozenset({newer, older})), "0.20") == []


def test_fields_that_the_newer_version_has_elsewhere_are_named_instead_of_an_edit() -> None:
    manifest = of_kind("kueue.x-k8s.io/v1beta1", "ClusterQueue", labelled=False)
    (finding,) = of_version({**manifest, "spec": {"cohort": "all", "admissionChecks": ["nodes"]}})
    assert finding.instead == ()
    assert finding.remedy == Text("kueue.x-k8s.io/v1beta2; ", "cohortName", "admissionChecksStrategy")


# Fields that a Pod does not have, in samples of Volcano and of the Spark operator.
_WRONG_IN_SAMPLES = {
    *(("fields/unknown", f"spec.tasks[{task}].template.spec.priorityClass") for task in (0, 1)),
    *(
        ("fields/unknown", f"spec.{role}.template.spec.securityContext.{field}")
        for role in ("driver", "executor")
        for field in ("allowPrivilegeEscalation", "capabilities")
    ),
}


@pytest.mark.skipif(SAMPLES is None, reason="ROLLCALL_SAMPLES names no folder of published samples")
def test_only_some_published_samples_have_wrong_names() -> None:
    assert SAMPLES is not None
    documents = [document for documents in readable_files(Path(SAMPLES)).values() for document in documents]
    assert len(documents) > 50
    found = [(rule, place) for document in documents for rule, place, *_ in said(document.manifest)]
    assert set(found) == _WRONG_IN_SAMPLES


def test_items_of_a_list_are_checked_each() -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": [SET, FOUND["a misspelt minimum"][0], FOUND["a CronJob"][0]]}
    assert [rule for rule, _, _ in said(whole)] == ["fields/unknown", "kinds/no-gangs"]


def test_an_object_without_other_rules_does_not_count_as_judged() -> None:
    (judgement,) = judge(of_kind("apps/v1", "ReplicaSet"), FACTS, koordinator())
    assert (judgement.judged, judgement.verdict.allowed) == (False, True)
    assert [finding.action for finding in judgement.verdict.findings] == [Action.WARN]


def test_what_an_api_server_sends_has_no_unknown_fields() -> None:
    manifest = FOUND["a misspelt minimum"][0]
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    sent = {"uid": "1", "operation": "CREATE", "kind": kind, "name": "demo", "namespace": "default", "object": manifest}
    assert said({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": sent}) == []


@pytest.mark.parametrize("name", [name for name, (_, found) in FOUND.items() if found[0].startswith("keys/")])
def test_the_webhook_warns_of_keys_as_the_command_does(name: str) -> None:
    manifest, (rule, field, remedy) = FOUND[name]
    verdict = admission.validate(request(manifest), NO_FACTS, koordinator())
    # A namespace is not sent to the webhook; asked about one, it would say the same.
    (finding,) = (finding for finding in verdict.findings if finding.rule.startswith("keys/"))
    assert (finding.rule, str(finding.at)) == (rule, field)
    assert remedy in finding.remedy
    assert len(str(finding).encode()) <= 256


def test_an_object_that_a_controller_made_has_the_keys_of_its_template() -> None:
    made = job(annotations={"rollcall.dev/schedular": "koord-scheduler"})
    assert rules(validate(made)) == ["keys/unknown"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "a", "uid": "1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    assert rules(validate(made)) == []


def test_the_rules_are_configured_as_others_are() -> None:
    manifest = changed(FOUND["a misspelt minimum"][0], "metadata", "labels", value={"rollcall.dev/speed": "1"})
    settings = koordinator(enforcement={"rules": {"fields/unknown": "deny", "keys/unknown": "off"}})
    (judgement,) = judge(manifest, FACTS, settings)
    assert [(one.rule, one.action) for one in judgement.verdict.findings] == [("fields/unknown", Action.DENY)]
    assert not judgement.verdict.allowed


def test_names_alone_are_found_without_other_rules() -> None:
    manifest = yaml.safe_load(yaml.safe_dump(FOUND["a misspelt minimum"][0]))
    (judgement,) = name_judgements(manifest, FACTS, koordinator())
    assert [one.rule for one in judgement.verdict.findings] == ["fields/unknown"]
