"""Which webhooks a new pod is sent to, by its labels: each pod has one way through them, and Grove's pods pass no
condition of another webhook.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.configurations import configuration_of, settings_from_document
from tests.unit.installation.registrations import SERVICE
from webhook.config.defaults import default_settings
from webhook.installation.webhooks import webhook_configurations
from webhook.model.reading import selects

PODGANG, MANAGER, SCHEDULER = "grove.io/podgang", "app.kubernetes.io/managed-by", "rollcall.dev/scheduler"
LABELS = [
    {key: value for key, value in found if value is not None}
    for found in itertools.product(
        ((PODGANG, None), (PODGANG, "demo-0"), (PODGANG, "")),
        ((MANAGER, None), (MANAGER, "grove-operator"), (MANAGER, "Helm")),
        ((SCHEDULER, None), (SCHEDULER, "koord-scheduler")),
    )
]


def hooks_for(labels: dict[str, str], path: str) -> dict[str, Any]:
    """The webhooks for new pods with these labels in a namespace without labels, by the first word of their names."""
    found = webhook_configurations(default_settings(), SERVICE, "rollcall-system", None)
    return {
        hook["name"].split(".")[0]: hook
        for hook in found[("mutate", "validate").index(path)]["webhooks"]
        if any("pods" in rule["resources"] for rule in hook["rules"])
        and selects(hook.get("objectSelector"), labels)
        and selects(hook["namespaceSelector"], {})
    }


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_a_pod_is_sent_to_one_kind_of_webhook(labels: dict[str, str]) -> None:
    if PODGANG in labels:
        expected = {"pods"}
    elif SCHEDULER in labels:
        expected = {"owned-pods"}
    else:
        expected = {"group-pods", "warned-pods", "unknown-kinds"}
    assert hooks_for(labels, "validate").keys() == expected
    assert hooks_for(labels, "mutate").keys() == expected - {"group-pods", "warned-pods", "unknown-kinds"}


def test_a_pod_of_grove_passes_only_the_condition_for_sealed_pods() -> None:
    labels = {PODGANG: "demo-0", MANAGER: "grove-operator"}
    conditions = {
        (path, name): [one["name"] for one in hook.get("matchConditions", ())]
        for path in ("mutate", "validate")
        for name, hook in hooks_for(labels, path).items()
    }
    assert conditions == {("mutate", "pods"): [], ("validate", "pods"): ["unsealed"]}


@pytest.mark.parametrize(
    ("schedulers", "expected"),
    [
        (["koord-scheduler"], {"group-pods": "Fail"}),
        (["volcano"], {"warned-pods": "Ignore"}),
        (["kai-scheduler", "scheduler-plugins-scheduler"], {"warned-pods": "Ignore"}),
        (["koord-scheduler", "volcano"], {"group-pods": "Fail", "warned-pods": "Ignore"}),
        (["lpx-scheduler"], {}),
    ],
    ids=str,
)
def test_pods_of_others_wait_for_rollcall_only_where_a_rule_may_refuse_them(
    schedulers: list[str], expected: dict[str, str]
) -> None:
    settings = settings_from_document(configuration_of(*schedulers), standalone=False)
    _, found = webhook_configurations(settings, SERVICE, "rollcall-system", None)
    policies = {hook["name"].split(".")[0]: hook["failurePolicy"] for hook in found["webhooks"]}
    assert {name: policies[name] for name in ("group-pods", "warned-pods") if name in policies} == expected
