"""The facts that are read live before a decision, and the refusals that need a live read first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import PCS, POD, gang_pod, koordinator, request, rules
from webhook import admission
from webhook.admission.decision import doubtful_facts, required_facts
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed, Record
from webhook.model.known_objects import ElasticQuotas, Namespace, PodGangFacts, Quota
from webhook.validators.examples import pod_clique_set

LABEL = "rollcall.dev/scheduler"
OWNER = Needed("pod_clique_sets", ("default", "demo"))
NAMESPACE = Needed("namespaces", "default")
BOUND = Needed("bound_gangs", ("default", "demo", "koord-scheduler"))
KNOWN = ClusterFacts(namespaces={"default": Namespace({})}, pod_clique_sets={("default", "demo"): Record("x")})

RECORDED = pod_clique_set(labels={LABEL: "koord-scheduler"})
CASES: dict[str, tuple[Request, ClusterFacts, tuple[Needed, ...]]] = {
    "a gang's pod whose owner is known": (request(gang_pod()), KNOWN, ()),
    "a gang's pod whose owner is not in the cache": (
        request(gang_pod()),
        ClusterFacts(pod_clique_sets={}),
        (OWNER,),
    ),
    "a gang's pod before there is a cache": (request(gang_pod()), NO_FACTS, (OWNER,)),
    "a pod without a gang": (request({"kind": "Pod", "metadata": {}}), NO_FACTS, ()),
    "a pod that changes": (request(gang_pod(), gang_pod()), NO_FACTS, ()),
    "a set in a known namespace": (request(pod_clique_set()), KNOWN, ()),
    "a set in a namespace made a moment ago": (request(pod_clique_set()), ClusterFacts(namespaces={}), (NAMESPACE,)),
    "a set that changes": (request(RECORDED, RECORDED), NO_FACTS, ()),
    "a set that is adopted": (request(RECORDED, pod_clique_set()), KNOWN, (BOUND,)),
    "a set that is older than Rollcall and stays so": (request(pod_clique_set(), pod_clique_set()), KNOWN, ()),
    "a set that is malformed": (request({"metadata": {"labels": 7}}, pod_clique_set(), PCS), KNOWN, ()),
    "a pod that is malformed": (request({"metadata": {"labels": []}}, None, POD), NO_FACTS, ()),
    "another kind": (request({"metadata": {}}, None, Kind("apps", "v1", "Deployment")), NO_FACTS, ()),
    "a status": (
        Request("u", "UPDATE", PCS, "default", "demo", RECORDED, pod_clique_set(), "status"),
        NO_FACTS,
        (),
    ),
    "a deletion": (Request("u", "DELETE", PCS, "default", "demo", None, RECORDED), NO_FACTS, ()),
}


@pytest.mark.parametrize(("asked", "facts", "needed"), CASES.values(), ids=CASES)
def test_the_facts_that_must_be_read_before_a_decision(
    asked: Request, facts: ClusterFacts, needed: tuple[Needed, ...]
) -> None:
    assert required_facts(asked, facts) == needed


def test_a_refusal_for_a_missing_quota_needs_a_live_read() -> None:
    workload = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "q"})
    facts = ClusterFacts(namespaces={}, elastic_quotas={}, apis=frozenset())
    verdict = admission.validate(request(workload), facts, koordinator())
    assert rules(verdict) == ["rollcall/api-missing", "koordinator/quota"]
    assert doubtful_facts(verdict) == (Needed("elastic_quotas", "q"), Needed("apis"))


def test_a_refusal_for_another_reason_needs_no_live_read() -> None:
    workload = pod_clique_set(annotations={"grove.io/auto-mnnvl": "enabled"})
    verdict = admission.validate(request(workload), NO_FACTS, koordinator())
    assert (verdict.allowed, doubtful_facts(verdict)) == (False, ())


def test_a_warning_needs_no_live_read() -> None:
    workload = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "q"})
    settings = koordinator(enforcement={"mode": "warn"})
    verdict = admission.validate(request(workload), ClusterFacts(elastic_quotas={}), settings)
    assert (verdict.allowed, doubtful_facts(verdict)) == (True, ())


def test_a_missing_quota_never_refuses_a_pod() -> None:
    pod = gang_pod(labels={"quota.scheduling.koordinator.sh/name": "q"}, schedulerName="koord-scheduler")
    owner = {("default", "demo"): Record("koord-scheduler")}
    for quotas, expected in (({}, []), ({"q": Quota(is_parent=True)}, ["koordinator/pod-quota"])):
        facts = ClusterFacts(pod_clique_sets=owner, elastic_quotas=quotas)
        assert rules(admission.validate(request(pod), facts, koordinator(standalone=False))) == expected


def test_live_reads_add_found_objects_and_drop_missing_ones() -> None:
    known = ClusterFacts(elastic_quotas={"old": Quota(is_parent=False), "gone": Quota(is_parent=False)})
    found: dict[Needed, Any] = {
        Needed("elastic_quotas", "new"): Quota(is_parent=True),
        Needed("elastic_quotas", "gone"): None,
        OWNER: None,
        BOUND: frozenset({("default", "demo-0")}),
    }
    assert known.learned(found) == ClusterFacts(
        elastic_quotas={"old": Quota(is_parent=False), "new": Quota(is_parent=True)},
        pod_clique_sets={},
        bound_gangs=frozenset({("default", "demo-0")}),
    )
    assert set(known.elastic_quotas or ()) == {"old", "gone"}, "the cache itself is not written"


def test_a_snapshot_is_immutable() -> None:
    gangs = {("default", "demo-0"): PodGangFacts("demo")}
    live = ClusterFacts(pod_gangs=gangs)
    made = live.snapshot()
    gangs.clear()
    copy = made()
    assert (len(live.pod_gangs or ()), len(copy.pod_gangs or ())) == (0, 1)


def test_a_snapshot_still_knows_which_quotas_are_disputed() -> None:
    quotas = ElasticQuotas()
    for namespace in ("a", "b"):
        quotas["team"] = Quota(is_parent=False, namespace=namespace)
    copy = ClusterFacts(elastic_quotas=quotas).snapshot()().elastic_quotas
    assert isinstance(copy, ElasticQuotas)
    assert copy.disputed == {"team"}


def test_a_needed_fact_is_printed_with_its_kind() -> None:
    told = [str(OWNER), str(NAMESPACE), str(BOUND), str(Needed("apis")), str(Needed("example_queues", "q"))]
    assert told == [
        "PodCliqueSet default/demo",
        "Namespace default",
        f"bound pods of {OWNER}",
        "list of served APIs",
        "example_queues q",
    ]
