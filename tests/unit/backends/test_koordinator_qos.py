"""Koordinator's rules about quality of service: which class fits which priority and CPU requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import gang_pod, koordinator, rules, validate
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PriorityClass
from webhook.validators.examples import clique, pod_clique_set

CLASSES = ClusterFacts(
    priority_classes={
        "prod": PriorityClass(9500, is_default=False),
        "batch": PriorityClass(5000, is_default=False),
        "plain": PriorityClass(100, is_default=False),
    }
)
BY_DEFAULT_PROD = ClusterFacts(priority_classes={"prod": PriorityClass(9000, is_default=True)})
PRIORITY, CPU = "koordinator/qos-priority", "koordinator/qos-cpu"


def qos(value: str | None, priority: str | None = None, cpu: str | None = "2", **labels: str) -> dict[str, Any]:
    every = {**labels, **({"koordinator.sh/qosClass": value} if value else {})}
    pod = {"priorityClassName": priority} if priority else {}
    return pod_clique_set(clique("worker", labels=every, requests={"cpu": cpu} if cpu else None, pod=pod))


def of_class(value: str, cpu: str | None = None, **pod: Any) -> dict[str, Any]:
    """The same with more of the pod's spec: its keywords."""
    requests = {"cpu": cpu} if cpu else None
    return pod_clique_set(clique("worker", labels={"koordinator.sh/qosClass": value}, requests=requests, pod=pod))


QOS: dict[str, tuple[Any, Any, ClusterFacts, list[str]]] = {
    "BE with no priority": (qos("BE"), {}, CLASSES, [PRIORITY]),
    "BE in the prod band": (qos("BE", "prod"), {}, CLASSES, [PRIORITY]),
    "BE in the batch band": (qos("BE", "batch"), {}, CLASSES, []),
    "LSR in the prod band": (qos("LSR", "prod"), {}, CLASSES, []),
    "LSR in the batch band": (qos("LSR", "batch"), {}, CLASSES, [PRIORITY]),
    "LSR with a priority outside every band": (qos("LSR", "plain"), {}, CLASSES, [PRIORITY]),
    "LSR with a default class of the prod band": (qos("LSR"), {}, BY_DEFAULT_PROD, []),
    "LSR with Koordinator's own class, without facts": (qos("LSR", "koord-prod"), {}, ClusterFacts(), []),
    "LSR with the band by label": (
        qos("LSR", **{"koordinator.sh/priority-class": "koord-prod"}),
        {},
        ClusterFacts(),
        [],
    ),
    "LSR with a label that names no band": (
        qos("LSR", "prod", **{"koordinator.sh/priority-class": "prod"}),
        {},
        CLASSES,
        [PRIORITY],
    ),
    "LSR with part of a CPU": (qos("LSR", "prod", cpu="1500m"), {}, CLASSES, [CPU]),
    "LSR with thousands of millicores that are whole": (qos("LSR", "prod", cpu="2000m"), {}, CLASSES, []),
    "LSE without any CPU": (qos("LSE", cpu=None), {}, CLASSES, [CPU]),
    "LSE with whole CPUs stated for the pod": (of_class("LSE", resources={"requests": {"cpu": "4"}}), {}, CLASSES, []),
    "LSE with whole CPUs stated for the pod over parts in its container": (
        of_class("LSE", "1500m", resources={"requests": {"cpu": "4"}}),
        {},
        CLASSES,
        [],
    ),
    "LSE with part of a CPU stated for the pod": (
        of_class("LSE", "1", resources={"requests": {"cpu": "1500m"}}),
        {},
        CLASSES,
        [CPU],
    ),
    "LSE with only memory stated for the pod": (
        of_class("LSE", "2", resources={"requests": {"memory": "1Gi"}}),
        {},
        CLASSES,
        [],
    ),
    "LSR with a number that no PriorityClass stands behind": (
        of_class("LSR", "2", priority=9500),
        {},
        ClusterFacts(priority_classes={}),
        [PRIORITY],
    ),
    "LSR with a number that its class overrules": (
        of_class("LSR", "2", priority=9500, priorityClassName="batch"),
        {},
        CLASSES,
        [PRIORITY],
    ),
    "LSR with a class in the prod band, whatever the number says": (
        of_class("LSR", "2", priority=0, priorityClassName="prod"),
        {},
        CLASSES,
        [],
    ),
    "LSE may have any priority": (qos("LSE"), {}, CLASSES, []),
    "LS may have anything": (qos("LS", cpu="10m"), {}, CLASSES, []),
    "the profile's default class is judged too": (
        qos(None, "prod", cpu="1500m"),
        {"defaultQoSClass": "LSR"},
        CLASSES,
        [CPU],
    ),
    "a class of its own wins over the profile's": (qos("LS", cpu="10m"), {"defaultQoSClass": "LSR"}, CLASSES, []),
    "an unknown class": (qos("Guaranteed"), {}, CLASSES, ["koordinator/qos-class"]),
}


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), QOS.values(), ids=QOS)
def test_the_quality_of_service_rule_gives_the_expected_findings(
    manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]
) -> None:
    assert rules(validate(manifest, settings=koordinator(config), facts=facts)) == expected


def test_an_unknown_priority_is_not_judged() -> None:
    verdict = validate(qos("LSR"))
    assert [(unjudged.rule, unjudged.needs) for unjudged in verdict.unjudged] == [(PRIORITY, "the PriorityClasses")]


def test_the_class_of_a_pod_is_judged_by_the_priority_that_the_api_server_resolved() -> None:
    refused = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=0)
    assert rules(validate(refused)) == [PRIORITY, CPU]
    containers = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    admitted = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=9000, containers=containers)
    assert rules(validate(admitted)) == []
    numbered = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=9500, containers=containers)
    assert rules(validate(numbered, facts=ClusterFacts(priority_classes={}))) == []
