"""Findings about pods that are not Grove's and name a gang of koord-scheduler."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.backends.koordinator_gang_objects import WORKER, found, judged
from tests.unit.worlds import rules
from webhook.backends.koordinator.gang_groups import annotated_pod, pod, pod_group, pod_group_cluster
from webhook.backends.koordinator.keys import (
    ANNOTATION_MINIMUM,
    ANNOTATION_NAME,
    GANG_PREFIX,
    LABEL_OLD_MINIMUM,
    LABEL_OLD_NAME,
    LABEL_POD_GROUP,
    LABEL_SCHEDULER_NAME,
)
from webhook.model.known_objects import Namespace


@pytest.mark.parametrize(
    ("labels", "allowed"), [({}, True), ({"rollcall.dev/creation-order": "strict"}, False)], ids=["any", "strict"]
)
def test_a_pod_can_be_created_before_its_pod_group_unless_the_namespace_is_strict(
    labels: Mapping[str, str], allowed: bool
) -> None:
    facts = pod_group_cluster(namespaces={"default": Namespace(labels)})
    verdict = judged(pod(labels=WORKER), facts)
    assert verdict.allowed is allowed
    assert rules(verdict) == ["koordinator/pod-group-missing"]
    # The server looks before it refuses.
    assert verdict.findings[0].absent is not None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("600s", []),
        ("1h30m", ["gang-timeout"]),
        ("1.5h", ["gang-timeout"]),
        (".5s", []),
        ("500ms", []),
        ("10µs", []),
        ("0", []),
        ("-0", []),
        ("0s", []),
        ("15m", []),
        ("15m1s", ["gang-timeout"]),
        ("30", ["gang-waiting-time"]),
        ("1d", ["gang-waiting-time"]),
        ("-20s", ["gang-waiting-time"]),
        ("1s-1s", ["gang-waiting-time"]),
        ("1 s", ["gang-waiting-time"]),
        (".s", ["gang-waiting-time"]),
        ("+", ["gang-waiting-time"]),
        ("9223372036854775808ns", ["gang-waiting-time"]),
        ("9223372036s9223372036s", ["gang-waiting-time"]),
        ("9" * 5_000 + "h", ["gang-waiting-time"]),
        ("WenShiqi222", ["gang-waiting-time"]),
    ],
)
def test_a_waiting_time_is_parsed_like_go_does(written: str, expected: list[str]) -> None:
    assert found(annotated_pod(waiting_time=written)) == expected


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: "2"}, []),
        ({LABEL_OLD_NAME: "worker", LABEL_OLD_MINIMUM: "2"}, {}, []),
        ({LABEL_OLD_NAME: "worker"}, {ANNOTATION_MINIMUM: "2"}, []),
        ({}, {ANNOTATION_NAME: "worker"}, ["gang-min-available"]),
        ({}, {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: ""}, ["gang-min-available"]),
        ({}, {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: " 3"}, ["gang-min-available"]),
        ({}, {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: "3.0"}, ["gang-min-available"]),
        ({LABEL_OLD_NAME: "worker", LABEL_OLD_MINIMUM: "x"}, {ANNOTATION_MINIMUM: "2"}, ["gang-min-available"]),
        ({}, {ANNOTATION_NAME: "known"}, []),
        ({}, {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: "0"}, ["gang-minimum"]),
        ({LABEL_POD_GROUP: "known"}, {}, []),
        ({LABEL_POD_GROUP: "known"}, {ANNOTATION_NAME: "known"}, []),
        ({LABEL_POD_GROUP: "known"}, {ANNOTATION_NAME: "other"}, ["gang-names-disagree"]),
        ({LABEL_POD_GROUP: "known", LABEL_OLD_NAME: "other"}, {}, ["gang-names-disagree"]),
        ({LABEL_OLD_NAME: "known"}, {ANNOTATION_NAME: "other"}, ["gang-names-disagree"]),
        ({LABEL_POD_GROUP: ""}, {ANNOTATION_NAME: "known"}, []),
        ({LABEL_POD_GROUP: "known"}, {GANG_PREFIX + "mode": "any"}, ["gang-settings-unread"]),
        ({LABEL_POD_GROUP: "known"}, {GANG_PREFIX + "network-topology-index": "1"}, []),
        ({}, {ANNOTATION_MINIMUM: "2"}, ["gang-settings-unread"]),
        ({LABEL_POD_GROUP: "unknown"}, {}, ["pod-group-missing"]),
    ],
)
def test_a_pod_must_name_one_gang_by_one_key(
    labels: Mapping[str, str], annotations: Mapping[str, str], expected: list[str]
) -> None:
    assert found(pod(labels=labels, annotations=annotations), pod_group_cluster(pod_group("known"))) == expected


@pytest.mark.parametrize(
    ("scheduler", "labels", "expected"),
    [
        ("default-scheduler", {}, []),
        ("default-scheduler", {LABEL_SCHEDULER_NAME: "koord-scheduler"}, ["pod-group-missing"]),
        ("koord-scheduler", {LABEL_SCHEDULER_NAME: ""}, []),
        ("koord-scheduler", {}, ["pod-group-missing"]),
    ],
)
def test_a_pod_of_another_scheduler_is_not_judged(
    scheduler: str, labels: Mapping[str, str], expected: list[str]
) -> None:
    other = pod(labels={**WORKER, **labels})
    other["spec"]["schedulerName"] = scheduler
    assert found(other) == expected
