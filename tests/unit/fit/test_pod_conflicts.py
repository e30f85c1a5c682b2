"""What keeps pods of one gang apart: host ports, anti-affinity and topology spread, and what proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.fit.pod_needs import (
    AntiAffinity,
    Eligibility,
    HostPort,
    PodNeeds,
    apart_of,
    is_sure,
    mutual_needs,
    ports_of,
    spread_of,
)
from webhook.model.fields import SPEC
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Malformed
from webhook.workloads.opted_in_workload import TemplatePlace

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = {"matchLabels": {"app": "train"}}


def template(labels: dict[str, Any], spec: dict[str, Any] | None = None) -> PodTemplate:
    return PodTemplate({"labels": labels}, spec or {}, TemplatePlace(SPEC))


def ports(*found: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containers": [{"ports": list(found)}], **more}


PORTS: dict[str, tuple[dict[str, Any], bool, tuple[HostPort, ...]]] = {
    "a host port": (ports({"hostPort": 80, "containerPort": 8080}), False, (HostPort(80, "TCP", ""),)),
    "a container port is none": (ports({"containerPort": 8080}), False, ()),
    "protocol and address": (
        ports({"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}),
        False,
        (HostPort(53, "UDP", "10.0.0.1"),),
    ),
    "the same port twice in one pod": (ports({"hostPort": 80}, {"hostPort": 80}), False, (HostPort(80, "TCP", ""),)),
    "on the host's network": (ports({"containerPort": 80}, hostNetwork=True), False, (HostPort(80, "TCP", ""),)),
    "on the host's network, stored": (ports({"containerPort": 80}, hostNetwork=True), True, ()),
    "a sidecar": (
        {"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}]},
        False,
        (HostPort(80, "TCP", ""),),
    ),
    "an init container": ({"initContainers": [{"ports": [{"hostPort": 80}]}]}, False, ()),
}


@pytest.mark.parametrize(("spec", "stored", "expected"), PORTS.values(), ids=PORTS)
def test_host_ports_are_those_of_containers_that_run(
    spec: dict[str, Any], stored: bool, expected: tuple[HostPort, ...]
) -> None:
    assert ports_of(spec, stored=stored) == expected


def test_of_very_many_ports_some_are_enough() -> None:
    assert len(ports_of(ports(*({"hostPort": number} for number in range(1, 5000))), stored=True)) == 256


def anti(**term: Any) -> dict[str, Any]:
    required = [{"topologyKey": HOST, "labelSelector": APP, **term}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def against(own: PodTemplate, *, stored: bool = False, **others: PodTemplate) -> list[tuple[str, list[str]]]:
    found, _ = apart_of(own, {"own": own, **others}, stored=stored, namespace="team")
    return [(one.key, sorted(one.roles)) for one in found]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


LABELS = {"app": "train", "role": "worker", "batch.kubernetes.io/job-completion-index": "0"}
INDEX = "batch.kubernetes.io/job-completion-index"
APART: dict[str, tuple[dict[str, Any], bool]] = {
    "own labels": ({}, True),
    "other labels": ({"labelSelector": {"matchLabels": {"app": "other"}}}, False),
    "every pod": ({"labelSelector": {}}, True),
    "no selector matches no pod": ({"labelSelector": None}, False),
    "In": (expression("app", "In", "x", "train"), True),
    "In others": (expression("app", "In", "x"), False),
    "Exists": (expression("role", "Exists"), True),
    "Exists of a label that may come": (expression("index", "Exists"), False),
    "NotIn": (expression("app", "NotIn", "x"), True),
    "NotIn of a label that may come": (expression("index", "NotIn", "x"), False),
    "DoesNotExist": (expression("index", "DoesNotExist"), False),
    "a label that a controller writes": ({"labelSelector": {"matchLabels": {INDEX: "0"}}}, False),
    "its own namespace, by name": ({"namespaces": ["x", "team"]}, True),
    "another namespace": ({"namespaces": ["x"]}, False),
    "every namespace": ({"namespaceSelector": {}}, True),
    "some namespaces": ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, False),
    "some namespaces and its own": ({"namespaces": ["team"], "namespaceSelector": {"matchLabels": {"a": "b"}}}, True),
    "the same value of a sure label": ({"matchLabelKeys": ["role"]}, True),
    "the same value of a label that may come": ({"matchLabelKeys": ["pod-template-hash"]}, False),
    "the same value of a label that a controller writes": ({"matchLabelKeys": [INDEX]}, False),
    "another value of an own label": ({"mismatchLabelKeys": ["role"]}, False),
    "no key": ({"topologyKey": None}, False),
}


@pytest.mark.parametrize(("term", "conflicts"), APART.values(), ids=APART)
def test_anti_affinity_counts_where_it_surely_matches(term: dict[str, Any], conflicts: bool) -> None:
    assert against(template(LABELS, anti(**term))) == ([(term.get("topologyKey", HOST), ["own"])] if conflicts else [])


def test_anti_affinity_against_another_role() -> None:
    leader = template({"app": "train", "role": "leader"})
    worker = template(LABELS, anti())
    assert against(worker, leader=leader, other=template({"app": "x"})) == [(HOST, ["leader", "own"])]
    apart_by_role = template(LABELS, anti(mismatchLabelKeys=["role"]))
    assert against(apart_by_role, leader=leader) == [(HOST, ["leader"])]
    assert against(template(LABELS, anti(matchLabelKeys=["role"])), leader=leader) == [(HOST, ["own"])]


def test_in_a_stored_pod_the_selector_has_the_label_keys_already() -> None:
    assert against(template(LABELS, anti(matchLabelKeys=["pod-template-hash"])), stored=True) == [(HOST, ["own"])]


def test_the_work_is_bounded_for_many_terms_and_many_roles() -> None:
    required = [{"topologyKey": f"k{index}", "labelSelector": APP} for index in range(1000)]
    one = template(
        LABELS, {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    )
    assert len(against(one)) == 8
    many = {"own": one, **{f"r{index}": template(LABELS) for index in range(64)}}
    apart, is_all = apart_of(one, many, stored=False, namespace="team")
    assert [rule.roles for rule in apart] == [frozenset({"own"})] * 8
    assert not is_all


@pytest.mark.parametrize(
    ("key", "sure"),
    [
        ("app", True),
        ("example.com/team", True),
        ("app.kubernetes.io/instance", True),
        ("app.kubernetes.io/name", False),
        ("pod-template-hash", False),
        ("jobset.sigs.k8s.io/job-index", False),
        ("leaderworkerset.sigs.k8s.io/worker-index", False),
        ("kueue.x-k8s.io/podset", False),
        ("grove.io/podclique", False),
    ],
)
def test_labels_that_controllers_write_are_not_sure(key: str, sure: bool) -> None:
    assert is_sure(key) is sure


def spread(**fields: Any) -> PodTemplate:
    one = {"topologyKey": ZONE, "maxSkew": 2, "minDomains": 5, "whenUnsatisfiable": "DoNotSchedule"}
    return template(LABELS, {"topologySpreadConstraints": [{**one, "labelSelector": APP, **fields}]})


def test_spread_counts_with_more_domains_than_there_are() -> None:
    (found,) = spread_of(spread())
    assert (found.key, found.min_domains, found.most) == (ZONE, 5, 2)
    assert str(found.at) == "spec.spec.topologySpreadConstraints[0]"
    assert len(spread_of(spread(matchLabelKeys=["role"]))) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"minDomains": None},
        {"whenUnsatisfiable": "ScheduleAnyway"},
        {"labelSelector": {"matchLabels": {"app": "other"}}},
        {"labelSelector": None},
        {"matchLabelKeys": ["pod-template-hash"]},
        {"matchLabelKeys": [INDEX]},
        {"maxSkew": 0},
        {"topologyKey": ""},
    ],
)
def test_other_spread_constraints_prove_nothing(fields: dict[str, Any]) -> None:
    assert spread_of(spread(**fields)) == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": "2"}]},
        {"topologySpreadConstraints": {"a": 1}},
    ],
)
def test_a_spread_constraint_of_another_type_is_malformed(spec: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        spread_of(template({}, spec))


def test_anti_affinity_of_another_type_is_malformed() -> None:
    with pytest.raises(Malformed):
        against(template(LABELS, {"affinity": {"podAntiAffinity": []}}))


def test_of_one_sided_anti_affinity_nothing_counts_if_a_scheduler_asks_only_the_newer_pod() -> None:
    """kube-scheduler 1.36 puts `quiet` beside `shy`, which it has just placed: a random run on it has shown this."""
    of_shy, of_own = (
        AntiAffinity(HOST, frozenset({"quiet", "even"}), SPEC),
        AntiAffinity(HOST, frozenset({"even"}), SPEC),
    )
    of_even, elsewhere = AntiAffinity(HOST, frozenset({"shy"}), SPEC), AntiAffinity(ZONE, frozenset({"shy"}), SPEC)
    found = mutual_needs({"shy": needs(of_shy), "quiet": needs(elsewhere), "even": needs(of_even, of_own)})
    assert found["shy"].apart == (AntiAffinity(HOST, frozenset({"even"}), SPEC),)
    assert found["quiet"].apart == ()
    assert found["even"].apart == (of_even, of_own)
    assert [bool(one.left_out) for one in found.values()] == [True, True, False]


def needs(*apart: AntiAffinity) -> PodNeeds:
    return PodNeeds({}, Eligibility(), apart=apart)
