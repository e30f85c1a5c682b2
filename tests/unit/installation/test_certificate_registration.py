"""The additional registration and rights for self-managed certificates, written by hand."""

from __future__ import annotations

from typing import Any

from tests.unit.installation.registrations import COMMON, HEAD, SERVICE
from webhook.config.file import settings_from
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.installation.webhooks import Address, webhook_configurations

SELF_MANAGED = {**HEAD, "certificates": {"mode": "selfManaged"}}


def test_the_reconciler_can_write_two_secrets_and_patch_two_webhook_configurations() -> None:
    files = reconciler_access_rules(settings_from(HEAD, "test"), "system", "writer")
    kept = reconciler_access_rules(settings_from(SELF_MANAGED, "test"), "system", "writer")
    configuration = ["get", "list", "watch", "patch", "delete"]
    assert [rule for rule in kept[0]["rules"] if rule not in files[0]["rules"]] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["m-rollcall"],
            "verbs": configuration,
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": ["v-rollcall"],
            "verbs": configuration,
        },
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["system"], "verbs": ["get"]},
    ]
    assert [rule for rule in kept[2]["rules"] if rule not in files[2]["rules"]] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["rollcall-ca", "rollcall-tls"],
            "verbs": ["get", "list", "watch", "update"],
        },
        {"apiGroups": [""], "resources": ["services"], "resourceNames": ["rollcall"], "verbs": ["get"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
    ]


def test_self_managed_certificates_give_the_server_no_more_rights() -> None:
    files = access_rules(settings_from(HEAD, "test"), "system", "server")
    assert access_rules(settings_from(SELF_MANAGED, "test"), "system", "server") == files
    assert not any("secrets" in rule["resources"] for role in files for rule in role.get("rules", ()))


def following(path: str) -> dict[str, Any]:
    """The hook for the next certificate."""
    where = {"namespace": "rollcall-system", "name": "rollcall", "path": "/next", "port": 8444}
    return {
        "name": f"next.{path}.rollcall.dev",
        "clientConfig": {"service": where, "caBundle": "Q0E="},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["configmaps"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        **COMMON,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "rollcall-system"}},
        "objectSelector": {"matchLabels": {"rollcall.dev/next-certificate": path}},
        "failurePolicy": "Ignore",
    }


def test_the_hook_that_probes_the_next_certificate_blocks_no_request() -> None:
    settings = settings_from(SELF_MANAGED, "test")
    mutating, validating = webhook_configurations(settings, SERVICE, "rollcall-system", "Q0E=")
    assert mutating["webhooks"][-1] == {**following("mutate"), "reinvocationPolicy": "IfNeeded"}
    assert validating["webhooks"][-1] == following("validate")
    before = webhook_configurations(settings_from(HEAD, "test"), SERVICE, "rollcall-system", "Q0E=")
    assert [mutating["webhooks"][:-1], validating["webhooks"][:-1]] == [one["webhooks"] for one in before]


def test_the_next_certificate_is_served_at_a_separate_url() -> None:
    address = Address(url="https://127.0.0.1:8443", next_url="https://127.0.0.1:8444/next")
    for one in webhook_configurations(settings_from(SELF_MANAGED, "test"), address, "rollcall-system", None):
        assert one["webhooks"][-1]["clientConfig"] == {"url": "https://127.0.0.1:8444/next"}
