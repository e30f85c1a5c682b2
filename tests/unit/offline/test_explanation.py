"""Which schedulers could run a workload, and what stops the others: expectations written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.strategies import json_objects, pod_clique_sets
from tests.unit.worlds import koordinator, request, settings_of, three_schedulers, validate
from webhook.admission.opinion import OpinionAnswer, could_run
from webhook.config.settings import Settings
from webhook.model.capabilities import Capability
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass, Quota
from webhook.model.reading import Manifest
from webhook.offline.explanation import Explanation, capability_tables, explain, explain_document
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

GPU = {"nvidia.com/gpu": "8"}
NVLINK = pod_clique_set(clique("worker", requests=GPU), annotations={"grove.io/mnnvl-group": "train"})
CLAIMS = pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}))
QUOTA = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "team-a"})
PREFERRED = pod_clique_set(topologyConstraint=preferred("rack"))
MINIMUM = pod_clique_set(clique("worker", replicas=4, minimum=2))


def explained(manifest: Manifest, settings: Settings | None = None, facts: ClusterFacts = NO_FACTS) -> Explanation:
    return explain(request(manifest), facts, settings or three_schedulers())


def matrix(found: Explanation) -> dict[str, dict[str, str]]:
    """By scheduler: whether it honours each capability."""
    return {
        view.scheduler: {str(one.capability): str(one.honoured) for one in view.opinion.honours} for view in found.views
    }


def answers(found: Explanation) -> dict[str, str]:
    return {view.scheduler: str(view.opinion.answer) for view in found.views}


@pytest.mark.parametrize(
    ("manifest", "koord", "kube", "lpx", "expected"),
    [
        (
            pod_clique_set(),
            {"gang": "yes"},
            {"gang": "yes"},
            {"gang": "yes"},
            ("runs", "runs", "runs"),
        ),
        (
            NVLINK,
            {"gang": "yes", "multiNodeNVLink": "no"},
            {"gang": "yes", "multiNodeNVLink": "no"},
            {"gang": "yes", "multiNodeNVLink": "unstated"},
            ("refused", "refused", "partly"),
        ),
        (
            CLAIMS,
            {"gang": "yes", "resourceClaims": "no"},
            {"gang": "yes", "resourceClaims": "yes"},
            {"gang": "yes", "resourceClaims": "unstated"},
            ("refused", "runs", "partly"),
        ),
        (
            QUOTA,
            {"gang": "yes", "quota": "unknown"},
            {"gang": "yes", "quota": "unstated"},
            {"gang": "yes", "quota": "unstated"},
            ("unknown", "partly", "partly"),
        ),
        (
            MINIMUM,
            {"gang": "yes", "cliqueMinimum": "yes"},
            {"gang": "yes", "cliqueMinimum": "yes"},
            {"gang": "yes", "cliqueMinimum": "unstated"},
            ("runs", "runs", "partly"),
        ),
        (
            PREFERRED,
            {"gang": "yes", "topology.preferred": "unknown"},
            {"gang": "yes", "topology.preferred": "no"},
            {"gang": "yes", "topology.preferred": "no"},
            ("unknown", "refused", "refused"),
        ),
    ],
    ids=["plain", "multi-node NVLink", "resource claims", "quota", "minimum", "preferred topology"],
)
def test_each_scheduler_is_asked_about_what_the_workload_uses(
    manifest: Manifest,
    koord: dict[str, str],
    kube: dict[str, str],
    lpx: dict[str, str],
    expected: tuple[str, str, str],
) -> None:
    found = explained(manifest)
    assert matrix(found) == {"koord-scheduler": koord, "default-scheduler": kube, "lpx-scheduler": lpx}
    assert tuple(answers(found)[name] for name in ("koord-scheduler", "default-scheduler", "lpx-scheduler")) == expected


def test_the_rules_decide_where_the_capability_table_is_open() -> None:
    known = {quota: ClusterFacts(elastic_quotas={"team-a": Quota(quota == "parent")}) for quota in ("leaf", "parent")}
    leaf = explained(QUOTA, facts=known["leaf"])
    assert (matrix(leaf)["koord-scheduler"]["quota"], str(leaf.answer)) == ("yes", "runs")
    parent = explained(QUOTA, facts=known["parent"])
    assert (matrix(parent)["koord-scheduler"]["quota"], str(parent.answer)) == ("no", "refused")


def test_turning_rules_off_does_not_make_a_capability_honoured() -> None:
    for mode in ("warn", "audit", "off"):
        found = explained(NVLINK, three_schedulers(enforcement={"mode": mode}))
        assert matrix(found)["koord-scheduler"]["multiNodeNVLink"] == "no"
        assert answers(found)["koord-scheduler"] == "partly"
        parent = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=True)})
        found = explained(QUOTA, three_schedulers(enforcement={"mode": mode}), parent)
        assert matrix(found)["koord-scheduler"]["quota"] == "no"


def test_a_capability_with_a_warning_is_partly_honoured() -> None:
    found = explained(pod_clique_set(clique("worker"), priorityClassName="high"))
    assert matrix(found)["koord-scheduler"] == {"gang": "yes", "priorityClass": "inPart"}
    assert answers(found)["koord-scheduler"] == "partly"


def test_kube_scheduler_without_gang_scheduling_cannot_run_a_gang() -> None:
    found = explained(pod_clique_set(), koordinator())
    assert matrix(found)["default-scheduler"] == {"gang": "no"}
    assert answers(found) == {"koord-scheduler": "runs", "default-scheduler": "partly"}


def test_a_gang_is_not_honoured_without_the_scheduler_s_api() -> None:
    found = explained(
        pod_clique_set(), facts=ClusterFacts(apis=frozenset({Api("grove.io", "v1alpha1", "PodCliqueSet")}))
    )
    assert matrix(found)["koord-scheduler"] == {"gang": "no"}
    assert answers(found)["koord-scheduler"] == "refused"


def test_a_finding_without_a_capability_is_listed_separately() -> None:
    claimed = pod_clique_set(clique("worker", annotations={"scheduling.k8s.io/group-name": "mine"}))
    view = explained(claimed).views[0]
    assert [found.rule for found in view.opinion.others] == ["koordinator/claimed-pods"]
    assert {str(one.honoured) for one in view.opinion.honours} == {"yes"}
    assert view.opinion.answer is OpinionAnswer.REFUSED


def test_an_invalid_scheduler_choice_is_refused_even_if_others_could_run_it() -> None:
    found = explained(pod_clique_set(labels={"rollcall.dev/scheduler": "slurm"}))
    assert (str(found.answer), [problem.rule for problem in found.broken]) == (
        "refused",
        ["rollcall/scheduler-unknown"],
    )
    assert answers(found)["koord-scheduler"] == "runs"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ("koord-scheduler", "by default")),
        ({"rollcall.dev/scheduler": "lpx-scheduler"}, ("lpx-scheduler", "by metadata.labels[rollcall.dev/scheduler]")),
    ],
)
def test_the_explanation_says_what_chose_the_scheduler(labels: dict[str, str], expected: tuple[str, str]) -> None:
    found = explained(pod_clique_set(labels=labels))
    assert (found.choice.scheduler, found.chosen_by) == expected


def test_a_malformed_object_is_refused_with_its_fields() -> None:
    ((_, found),) = explain_document({**pod_clique_set(), "spec": {"replicas": "one"}}, NO_FACTS, three_schedulers())
    said = found.as_json()
    assert (said["answer"], said["schedulers"], said["gangs"], said["scheduler"]) == ("refused", [], None, None)
    assert [one["field"] for one in said["findings"]] == ["spec.replicas"]


def test_the_general_table_has_every_capability_of_every_enabled_scheduler() -> None:
    tables = capability_tables(three_schedulers())
    assert tables["default"] == "koord-scheduler"
    found = {one["scheduler"]: {row["capability"]: row for row in one["capabilities"]} for one in tables["schedulers"]}
    assert list(found) == ["koord-scheduler", "default-scheduler", "lpx-scheduler"]
    assert all(set(rows) == {str(one) for one in Capability} for rows in found.values())
    assert found["lpx-scheduler"]["gang"] == {"capability": "gang", "honoured": "yes"}
    assert found["lpx-scheduler"]["quota"] == {"capability": "quota", "honoured": "unstated"}
    quota, preferred = found["koord-scheduler"]["quota"], found["default-scheduler"]["topology.preferred"]
    assert (quota["honoured"], preferred["honoured"]) == ("depends", "no")
    assert "ElasticQuota" in quota["depends"]
    assert all(preferred[words] for words in ("why", "remedy"))


# A denial names who else could run the workload


def test_a_denial_names_the_enabled_schedulers_that_could_run_it() -> None:
    assert validate(CLAIMS, settings=three_schedulers()).could_run == ("default-scheduler",)


@pytest.mark.parametrize(
    ("manifest", "settings"),
    [
        (CLAIMS, koordinator()),
        (NVLINK, three_schedulers()),
        (pod_clique_set(clique("worker", replicas=2, minimum=3)), three_schedulers()),
        (CLAIMS, settings_of("koord-scheduler")),
        (pod_clique_set(labels={"rollcall.dev/scheduler": "slurm"}), three_schedulers()),
        (pod_clique_set(), three_schedulers()),
    ],
    ids=[
        "no gangs on default-scheduler",
        "what the others ignore or refuse",
        "a fault under every scheduler",
        "no other profile",
        "a choice that does not stand",
        "nothing denied",
    ],
)
def test_a_denial_does_not_name_schedulers_that_could_not_run_it(manifest: Manifest, settings: Settings) -> None:
    assert validate(manifest, settings=settings).could_run == ()


def test_a_scheduler_about_which_a_fact_is_missing_is_not_named() -> None:
    batch = pod_clique_set(
        clique(
            "worker", labels={"koordinator.sh/qosClass": "LSR"}, requests={"cpu": "2"}, pod={"priorityClassName": "x"}
        )
    )
    settings = three_schedulers("lpx-scheduler")
    asking = {**batch, "spec": {**batch["spec"], "template": {**batch["spec"]["template"]}}}
    asking["spec"]["template"]["topologyConstraint"] = required("rack")
    assert validate(asking, settings=settings).could_run == ()
    known = ClusterFacts(priority_classes={"x": PriorityClass(9500, is_default=False)})
    workload = explained(batch, settings, known)
    assert answers(workload)["koord-scheduler"] == "runs"
    assert answers(explained(batch, settings))["koord-scheduler"] == "unknown"


def test_the_denial_of_an_update_names_no_scheduler_because_the_record_is_fixed() -> None:
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate({**CLAIMS, "metadata": old["metadata"]}, old, settings=three_schedulers())
    assert (verdict.allowed, verdict.could_run) == (False, ())


def test_the_alternatives_form_a_sentence() -> None:
    verdict = validate(CLAIMS, settings=three_schedulers())
    assert verdict.alternatives == "default-scheduler could run it as written"


# Table and verdict


def refused_by(manifest: Manifest, scheduler: str, settings: Settings) -> bool:
    """What admission decides with that scheduler chosen."""
    labelled: dict[str, Any] = {**manifest, "metadata": {**manifest["metadata"]}}
    labelled["metadata"]["labels"] = {"rollcall.dev/scheduler": scheduler}
    return not validate(labelled, settings=settings).allowed


@given(pod_clique_sets())
def test_an_explanation_and_admission_never_disagree(manifest: Manifest) -> None:
    settings = three_schedulers()
    for view in explained(manifest, settings).views:
        refused = view.opinion.answer is OpinionAnswer.REFUSED
        assert refused is refused_by(manifest, view.scheduler, settings)
        if view.opinion.answer is OpinionAnswer.RUNS:
            assert {str(one.honoured) for one in view.opinion.honours} == {"yes"}
        if view.edit is not None:
            assert refused


@given(pod_clique_sets())
def test_a_named_scheduler_would_admit_the_workload(manifest: Manifest) -> None:
    settings = three_schedulers()
    for scheduler in validate(manifest, settings=settings).could_run:
        assert not refused_by(manifest, scheduler, settings)


@given(json_objects)
def test_any_object_can_be_explained(manifest: dict[str, Any]) -> None:
    manifest = {**manifest, "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}
    for _, found in explain_document(manifest, NO_FACTS, three_schedulers()):
        found.as_json()


def test_an_allowed_request_does_not_judge_other_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any) -> tuple[str, ...]:
        raise AssertionError

    monkeypatch.setattr("webhook.admission.workload_admission.could_run", asked)
    assert validate(pod_clique_set(), settings=three_schedulers()).allowed
    assert validate(QUOTA, settings=three_schedulers()).findings == ()
    with pytest.raises(AssertionError):
        validate(NVLINK, settings=three_schedulers())
    assert could_run is not asked


def test_a_scaling_group_is_explained_as_a_part_of_the_gang() -> None:
    manifest = pod_clique_set(
        clique("worker"), groups=[scaling_group("ring", "worker", topologyConstraint=required("rack"))]
    )
    view = next(view for view in explained(manifest).views if view.scheduler == "koord-scheduler")
    (stopped,) = [one for one in view.opinion.honours if one.capability is Capability.TOPOLOGY_SCALING_GROUP]
    assert [(found.rule, found.action) for found in stopped.findings] == [
        ("koordinator/scaling-group-topology", Action.DENY)
    ]
