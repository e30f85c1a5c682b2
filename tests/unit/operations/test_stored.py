"""One stored object: the request with which it would be created now, whether it is audited, and the verdict."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.operations.stored_objects import FACTS, NAMESPACES, RULE, SETS, SETTINGS, judge, stored_set
from tests.unit.worlds import gang_pod, settings_of, three_schedulers
from webhook import admission
from webhook.config.defaults import force_scheduler
from webhook.config.settings import Registration
from webhook.model.admission_request import Kind
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.known_objects import Namespace
from webhook.operations.audit import request_of
from webhook.validators.examples import clique, pod_clique_set

JOB = Api("batch", "v1", "Job")
POD = Api("", "v1", "Pod")
GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
OPTED_IN = {"rollcall.dev/scheduler": "koord-scheduler"}


def found(raw: dict[str, Any], api: Api = SETS, facts: ClusterFacts = FACTS) -> list[str] | None:
    """The rules that have findings about an object; None if it is not audited."""
    verdict = judge(facts=facts).verdict(raw, api)
    return None if verdict is None else [finding.rule for finding in verdict.findings]


def job(**metadata: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "NonIndexed", "template": {"spec": pod}}
    return {"metadata": {"name": "train", "namespace": "team-a", "uid": "u", **metadata}, "spec": spec}


def pod_group(*managers: dict[str, Any]) -> dict[str, Any]:
    mode = {"gang.scheduling.koordinator.sh/mode": "strict"}
    metadata = {"name": "own", "namespace": "team-a", "annotations": mode, "managedFields": list(managers)}
    return {"metadata": metadata, "spec": {"minMember": 2}}


def test_an_object_is_judged_as_if_it_were_created_now() -> None:
    request = request_of(stored_set(), SETS)
    assert request.kind == Kind("grove.io", "v1alpha1", "PodCliqueSet")
    assert (request.operation, request.old) == ("CREATE", None)
    assert (request.uid, request.namespace, request.name) == ("uid-team-a-demo", "team-a", "demo")
    # The items of a list have neither.
    assert request.object is not None
    assert (request.object["apiVersion"], request.object["kind"]) == ("grove.io/v1alpha1", "PodCliqueSet")


def test_a_fault_that_an_update_would_keep_is_found() -> None:
    assert found(stored_set(bad=True, labels=OPTED_IN)) == [RULE]
    assert found(stored_set()) == []


def test_a_set_is_judged_for_the_scheduler_that_it_has_recorded() -> None:
    raw = stored_set(bad=True, labels={"rollcall.dev/scheduler": "lpx-scheduler"})
    verdict = judge(replace(three_schedulers(), standalone=False)).verdict(raw, SETS)
    assert verdict is not None
    assert (verdict.scheduler, RULE in [one.rule for one in verdict.findings]) == ("lpx-scheduler", False)


def test_no_other_scheduler_is_asked_about_what_is_refused() -> None:
    settings = replace(three_schedulers(), standalone=False)
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    raw = pod_clique_set(clique("worker", pod={"resourceClaims": claims}))
    admitted = admission.validate(request_of(raw, SETS), FACTS, settings)
    assert (admitted.allowed, admitted.could_run) == (False, ("default-scheduler",))
    verdict = judge(settings).verdict(raw, SETS)
    assert verdict is not None
    assert (verdict.findings, verdict.could_run) == (admitted.findings, ())


def test_judging_changes_no_workload() -> None:
    raw = stored_set(bad=True)
    before = deepcopy(raw)
    judge().verdict(raw, SETS)
    assert raw == before


@pytest.mark.parametrize("namespace", ["kube-system", "rollcall-system", "left-out", "exempt"])
def test_nothing_is_judged_where_admission_judges_nothing(namespace: str) -> None:
    settings = replace(SETTINGS, registration=Registration(excluded_namespaces=("left-out",)))
    facts = replace(FACTS, namespaces={**NAMESPACES, "exempt": Namespace({"rollcall.dev/exempt": "true"})})
    assert judge(settings, facts).verdict(stored_set(namespace=namespace, bad=True), SETS) is None


def test_an_object_that_is_being_deleted_is_left_out() -> None:
    assert found(stored_set(bad=True, deletionTimestamp="2026-01-01T00:00:00Z")) is None


def test_an_opted_in_workload_is_judged_until_it_has_ended() -> None:
    assert found(job(labels=OPTED_IN), JOB) is not None
    assert found(job(), JOB) is None
    ended = {**job(labels=OPTED_IN), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert found(ended, JOB) is None


def test_a_job_of_an_opted_in_namespace_is_judged_even_if_it_is_older() -> None:
    facts = replace(FACTS, namespaces={"team-a": Namespace(OPTED_IN)})
    verdict = judge(facts=facts).verdict(job(), JOB)
    assert verdict is not None
    assert verdict.scheduler == "koord-scheduler"


def test_a_gang_object_of_another_author_is_judged() -> None:
    assert found(pod_group(), GROUP) == ["koordinator/gang-mode"]


@pytest.mark.parametrize("manager", ["rollcall", "koord-scheduler", "grove-operator", "kubectl"])
def test_no_name_of_a_field_manager_keeps_a_gang_object_from_being_judged(manager: str) -> None:
    # Every client chooses this name: kubectl apply --server-side --field-manager=rollcall.
    claimed = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:minMember": {}}}}
    assert found(pod_group(claimed), GROUP) == ["koordinator/gang-mode"]


def test_no_label_or_owner_keeps_a_gang_object_from_being_judged() -> None:
    raw = pod_group()
    raw["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "rollcall", "rollcall.dev/gang": "demo-0"}
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "u", "controller": True}
    raw["metadata"]["ownerReferences"] = [owner]
    assert found(raw, GROUP) == ["koordinator/gang-mode"]


@pytest.mark.parametrize(
    ("scheduler", "config"),
    [
        ("koord-scheduler", {}),
        ("volcano", {}),
        ("kai-scheduler", {"defaultQueue": "team-a"}),
        ("default-scheduler", {"gangScheduling": True, "apiGeneration": "v1beta1"}),
    ],
)
def test_the_gang_objects_that_rollcall_writes_have_no_finding(scheduler: str, config: dict[str, Any]) -> None:
    settings = settings_of(scheduler, config, standalone=False)
    members = [{"name": f"demo-0-{name}", "minReplicas": 2, "podReferences": []} for name in ("leader", "worker")]
    podgang = PodGang({"metadata": {"name": "demo-0", "namespace": "team-a"}, "spec": {"podgroups": members}})
    written = settings.profiles[scheduler].backend.gang_objects(podgang, Record(scheduler), FACTS)
    assert written
    for raw in written:
        group, _, version = raw["apiVersion"].rpartition("/")
        verdict = judge(settings).verdict(raw, Api(group, version, raw["kind"]))
        assert verdict is not None
        assert verdict.findings == ()


def test_a_pod_is_prepared_as_at_its_creation() -> None:
    facts = replace(FACTS, pod_clique_sets={("default", "demo"): Record("koord-scheduler")})
    verdict = judge(facts=facts).verdict(gang_pod(), POD)
    assert verdict is not None
    assert (verdict.scheduler, verdict.allowed) == ("koord-scheduler", True)


def test_a_pod_whose_workload_is_not_known_is_not_judged() -> None:
    verdict = judge(facts=replace(FACTS, pod_clique_sets=None)).verdict(gang_pod(), POD)
    assert verdict is not None
    [missing] = verdict.unjudged
    assert missing.lacking == Text("PodCliqueSet default/demo")


def test_a_field_of_the_wrong_type_is_a_finding() -> None:
    raw = stored_set()
    raw["spec"]["template"]["cliques"] = "worker"
    assert found(raw) == ["grove/shape"]


def test_an_object_without_readable_metadata_is_still_judged() -> None:
    raw = {"metadata": {"name": "demo", "namespace": "team-a", "labels": "x"}, "spec": {}}
    assert found(raw) == ["grove/shape"]


def test_a_forced_scheduler_comes_before_the_record() -> None:
    settings = replace(force_scheduler(three_schedulers(), "lpx-scheduler", "--as"), standalone=False)
    verdict = judge(settings).verdict(stored_set(labels=OPTED_IN), SETS)
    assert verdict is not None
    assert verdict.scheduler == "lpx-scheduler"
