"""Label selectors as the API server evaluates them, and the objects that a webhook's rules cover."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.reading import selects
from webhook.operations.snapshot import (
    GANG_PODS,
    LEASE,
    MUTATING_WEBHOOKS,
    OWNED_PODS,
    SCHEDULER_LEASE,
    SECRET,
    is_about,
    trimmed,
)

LABELS = {"app": "web", "tier": "front"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SELECTORS: dict[str, tuple[Any, bool]] = {
    "none": (None, True),
    "an empty one": ({}, True),
    "a label": ({"matchLabels": {"app": "web"}}, True),
    "another value": ({"matchLabels": {"app": "db"}}, False),
    "a label that is not there": ({"matchLabels": {"team": "a"}}, False),
    "in": (expression("app", "In", "web", "db"), True),
    "not in": (expression("app", "NotIn", "web"), False),
    "not in, and not there": (expression("team", "NotIn", "a"), True),
    "in, and not there": (expression("team", "In", "a"), False),
    "exists": (expression("tier", "Exists"), True),
    "does not exist": (expression("tier", "DoesNotExist"), False),
    "both": ({"matchLabels": {"app": "web"}, **expression("tier", "In", "back")}, False),
}


@pytest.mark.parametrize(("selector", "taken"), SELECTORS.values(), ids=SELECTORS)
def test_a_selector_matches_like_kubernetes(selector: Any, taken: bool) -> None:
    assert selects(selector, LABELS) is taken


RULES: dict[str, tuple[dict[str, list[str]], bool]] = {
    "pods": ({"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}, True),
    "everything": ({"apiGroups": ["*"], "resources": ["*/*"], "operations": ["*"]}, True),
    "their updates": ({"apiGroups": [""], "resources": ["pods"], "operations": ["UPDATE"]}, False),
    "their status": ({"apiGroups": [""], "resources": ["pods/status"], "operations": ["CREATE"]}, False),
    "pods of another group": ({"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "operations": ["*"]}, False),
}


@pytest.mark.parametrize(("rule", "about"), RULES.values(), ids=RULES)
def test_a_webhook_on_the_creation_of_pods_is_detected(rule: dict[str, list[str]], about: bool) -> None:
    assert is_about({"rules": [rule]}, "", "pods", "CREATE") is about


def test_each_part_names_the_right_that_it_needs() -> None:
    assert [part.right("own") for part in (MUTATING_WEBHOOKS, GANG_PODS, LEASE, SCHEDULER_LEASE)] == [
        "list mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "list pods",
        "get leases.coordination.k8s.io rollcall-reconciler in own",
        "get leases.coordination.k8s.io kube-scheduler in kube-system",
    ]


def test_only_the_used_fields_of_pods_and_secrets_are_kept() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a", "managedFields": [1]}, "spec": {"containers": [1], "nodeName": "n"}}
    assert trimmed(pod) == {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}}
    secret = {"kind": "Secret", "metadata": {}, "data": {"tls.key": "a", "tls.crt": "b", "next.key": "c"}}
    assert trimmed(secret)["data"] == {"tls.crt": "b"}
    assert SECRET.name == "rollcall-tls"


def test_pods_of_gangs_belong_to_one_part() -> None:
    def pod(**labels: str) -> dict[str, Any]:
        found = {key.replace("_", "/"): value for key, value in labels.items()}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": found}}

    grove, owned = pod(**{"grove.io/podgang": "g"}), pod(**{"rollcall.dev/gang": "g"})
    both = pod(**{"grove.io/podgang": "g", "rollcall.dev/gang": "g"})
    assert [(GANG_PODS.has(one, ""), OWNED_PODS.has(one, "")) for one in (grove, owned, both, pod())] == [
        (True, False),
        (False, True),
        (True, False),
        (False, False),
    ]
