"""The net's objects, written by hand except for CEL, which the API server evaluates in tests/e2e."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import koordinator
from webhook.backends.base import GangMember, PodChanges
from webhook.backends.koordinator.backend import KoordinatorBackend
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.config.settings import Registration
from webhook.installation.net_policy import net_policy
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts

LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}


def made(net: str) -> list[dict[str, Any]]:
    chosen = replace(koordinator(), registration=Registration(excluded_namespaces=("monitoring",), net=net))
    return net_policy(chosen, "rollcall-system")


def test_no_net_is_created_if_it_is_off() -> None:
    assert made("off") == []


def test_the_policy_covers_pods_that_become_free_to_start_in_the_namespaces_of_the_webhooks() -> None:
    policy = made("Deny")[0]
    assert policy["metadata"] == {"name": "rollcall-net", "labels": LABELS}
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Fail"
    names = ["kube-system", "kube-node-lease", "monitoring", "rollcall-system"]
    assert spec["matchConstraints"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names},
                {"key": "rollcall.dev/exempt", "operator": "DoesNotExist"},
            ]
        },
        "resourceRules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ],
    }
    assert [condition["name"] for condition in spec["matchConditions"]] == ["starts", "not-leaving"]
    # koord-scheduler, and default-scheduler which is always there.
    assert len(spec["validations"]) == 2
    assert '"pod-group.scheduling.sigs.k8s.io"' in spec["validations"][0]["expression"]
    assert spec["validations"][0]["message"].startswith("a pod would start ")


@pytest.mark.parametrize(
    ("net", "actions", "lower"),
    [
        ("Deny", ["Deny"], ["off", "audit", "warn"]),
        ("Warn", ["Warn", "Audit"], ["off", "audit"]),
        ("Audit", ["Audit"], ["off"]),
    ],
)
def test_two_bindings_select_gang_pods_in_namespaces_without_a_weaker_label(
    net: str, actions: list[str], lower: list[str]
) -> None:
    _, of_grove, opted_in = made(net)
    for binding in (of_grove, opted_in):
        assert binding["spec"]["policyName"] == "rollcall-net"
        assert binding["spec"]["validationActions"] == actions
        assert binding["spec"]["matchResources"]["namespaceSelector"] == {
            "matchExpressions": [{"key": "rollcall.dev/enforcement", "operator": "NotIn", "values": lower}]
        }
    assert of_grove["metadata"]["name"] == "rollcall-net"
    assert of_grove["spec"]["matchResources"]["objectSelector"] == {
        "matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"},
        "matchExpressions": [{"key": "grove.io/podgang", "operator": "Exists"}],
    }
    assert opted_in["metadata"]["name"] == "rollcall-net-opted-in"
    assert opted_in["spec"]["matchResources"]["objectSelector"] == {
        "matchExpressions": [{"key": "rollcall.dev/scheduler", "operator": "Exists"}]
    }


class Written(KoordinatorBackend):
    """One that writes more than a mark."""

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return PodChanges(
            self.name,
            (),
            labels={"example.com/gang": member.podgang, "example.com/queue": "all"},
            annotations={"kai.scheduler/skip-podgrouper": "true", "example.com/part": member.podclique},
            default_fields={"schedulingGroup": {"podGroupName": member.podgang}},
        )

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return super(KoordinatorBackend, self).membership


class Unknowing(Written):
    """One that can prepare nothing while the cluster is not known."""

    def dialect(self, facts: ClusterFacts) -> str | None:
        return None


def test_the_marks_of_a_backend_without_a_list_are_taken_from_what_it_writes() -> None:
    assert Written(KoordinatorSettings()).membership == (
        (
            Mark("spec", "schedulingGroup"),
            Mark("labels", "example.com/gang"),
            Mark("annotations", "kai.scheduler/skip-podgrouper", "true"),
            Mark("annotations", "example.com/part"),
        ),
    )
    assert Unknowing(KoordinatorSettings()).membership == ((),)
