"""Grove's configuration, namespaces, and existing gangs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.model.findings import ANNOUNCED
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS
from webhook.model.reading import Manifest
from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import (
    NOW,
    Severity,
    configured,
    deployment,
    examine,
    example_object,
    excepting,
    installed,
    namespace,
    pod_clique_set,
    served,
    webhook_of,
)
from webhook.operations.grove_checks import schedulers
from webhook.operations.snapshot import Unread

DEFAULT = "default-scheduler"


def operator(**sections: Any) -> Manifest:
    return {"kind": "OperatorConfiguration", **sections}


def scheduling(*names: str, default: str | None = None) -> Manifest:
    said = {} if default is None else {"defaultProfileName": default}
    return operator(scheduler={"profiles": [{"name": name} for name in names], **said})


def external(name: str, default: str | None = None, *, topology: bool = False) -> Manifest:
    """Grove's configuration with a profile of the type External, as GREP-787 has it."""
    config = {"config": {"topologyConstraints": True}} if topology else {}
    profiles = [{"name": DEFAULT}, {"name": name, "type": "External", **config}]
    return operator(scheduler={"profiles": profiles, "defaultProfileName": default or name})


KOORDINATOR, KAI, LPX = {"name": "koord-scheduler"}, {"name": "kai-scheduler"}, {"name": "lpx-scheduler"}
COSCHEDULING = {"name": "scheduler-plugins-scheduler"}
SCHEDULERS: dict[str, tuple[list[dict[str, Any]], Manifest | None, list[tuple[Severity, str]]]] = {
    "no operator": ([KOORDINATOR], None, []),
    "nothing said": ([KOORDINATOR], operator(), []),
    "the chart's default": (
        [KOORDINATOR],
        scheduling(DEFAULT, "kai-scheduler"),
        [(Severity.NOTE, "kai-scheduler is one of them")],
    ),
    "the chart's default, with KAI here as well": (
        [KOORDINATOR, KAI],
        scheduling(DEFAULT, "kai-scheduler"),
        [(Severity.NOTE, "kai-scheduler is one of them")],
    ),
    "KAI for all, and Koordinator here": (
        [KOORDINATOR],
        scheduling(DEFAULT, "kai-scheduler", default="kai-scheduler"),
        [(Severity.ERROR, "kai-scheduler")],
    ),
    "KAI for all, here as well": (
        [KAI],
        scheduling(DEFAULT, "kai-scheduler", default="kai-scheduler"),
        [(Severity.NOTE, "kai-scheduler")],
    ),
    "lpx writes nothing": ([LPX], scheduling("lpx-scheduler", default="lpx-scheduler"), []),
    "lpx for all, and Koordinator here": (
        [KOORDINATOR],
        scheduling("lpx-scheduler", default="lpx-scheduler"),
        [(Severity.NOTE, "lpx-scheduler")],
    ),
    "a scheduler for all that Rollcall has no backend for": (
        [KOORDINATOR],
        scheduling("runai-scheduler", default="runai-scheduler"),
        [(Severity.ERROR, "runai-scheduler")],
    ),
    "an external profile for all, here as well": ([KOORDINATOR], external("koord-scheduler", topology=True), []),
    "an external profile for all, and another default here": (
        [KAI, KOORDINATOR],
        external("koord-scheduler", topology=True),
        [(Severity.ERROR, "koord-scheduler")],
    ),
    "an external profile that is not declared to keep topologies": (
        [KOORDINATOR],
        external("koord-scheduler"),
        [(Severity.NOTE, "it is off, and koord-scheduler of Rollcall's configuration can keep gangs together")],
    ),
    "an external profile of a scheduler that keeps none": ([COSCHEDULING], external("scheduler-plugins-scheduler"), []),
    "an external profile that is none of ours": (
        [KOORDINATOR],
        external("acme-scheduler", default=DEFAULT),
        [(Severity.NOTE, "acme-scheduler")],
    ),
}


@pytest.mark.parametrize(("profiles", "configuration", "wanted"), SCHEDULERS.values(), ids=SCHEDULERS)
def test_workloads_that_grove_s_own_backends_take_over_are_reported(
    profiles: list[dict[str, Any]], configuration: Manifest | None, wanted: list[tuple[Severity, str]]
) -> None:
    snapshot = installed(settings=configured(*profiles), operator=configuration)
    assert [(level, found) for level, _, found in reported(snapshot, "grove/schedulers")] == wanted


REMEDIES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "a profile of ours": ([KAI, KOORDINATOR], "koord-scheduler", ", or koord-scheduler in Rollcall's"),
    "lpx, a profile of ours": ([KOORDINATOR, LPX], "lpx-scheduler", ", or lpx-scheduler in Rollcall's"),
    "lpx, none of ours": ([KOORDINATOR], "lpx-scheduler", "; Rollcall has no profile lpx-scheduler"),
    "a scheduler without a backend": ([KOORDINATOR], "runai-scheduler", "; Rollcall has no profile runai-scheduler"),
}


@pytest.mark.parametrize(("profiles", "default", "end"), REMEDIES.values(), ids=REMEDIES)
def test_only_a_default_that_rollcall_can_have_is_advised(
    profiles: list[dict[str, Any]], default: str, end: str
) -> None:
    snapshot = installed(settings=configured(*profiles), operator=scheduling(default, default=default))
    (remedy,) = remedies(snapshot, "grove/schedulers")
    assert remedy == f"set defaultProfileName: default-scheduler in Grove's configuration{end}"
    (symptom,) = (finding.symptom for finding in examine(snapshot, [schedulers]).problems)
    assert ("never sees it" in symptom.why) == (default != "lpx-scheduler")


def test_an_operator_with_an_unreadable_configuration_is_unknown() -> None:
    snapshot = installed(operator=Unread("the ConfigMap grove", "HTTP 403", "get configmaps grove in grove-system"))
    why = "the ConfigMap grove could not be read: HTTP 403; it takes the right to get configmaps grove in grove-system"
    for check in ("grove/schedulers", "grove/topology", "grove/webhooks"):
        assert unknown(snapshot, check) == [why]


def test_a_malformed_operator_configuration_is_unknown_and_stops_no_check() -> None:
    snapshot = installed(operator=operator(scheduler="koord-scheduler"))
    diagnosis = examine(snapshot, EVERY_CHECK)
    assert [one.check for one in diagnosis.not_known if one.check.startswith("grove/")] == ["grove/schedulers"]
    assert "expected an object, found text" in diagnosis.not_known[-1].why


def test_a_reconciler_that_removes_no_gates_needs_no_exemption() -> None:
    on = operator(authorizer={"enabled": True})
    gate = {"name": "koord-scheduler", "gate": False}
    assert reported(installed(settings=configured(gate), operator=on), "grove/authorizer") == []
    assert reported(installed(operator=operator(authorizer={"enabled": False})), "grove/authorizer") == []


def test_sets_without_a_record_are_reported_by_namespace_with_some_names() -> None:
    sets = [pod_clique_set(f"s{number}", None) for number in range(7)]
    other = pod_clique_set("lone", None, "team-b")
    found = reported(installed(*sets, other, namespace("team-b")), "gangs/recorded")
    assert found == [
        (Severity.WARNING, "Namespace team-a", Text("s0, s1, s2, s3, s4 and 2 more")),
        (Severity.WARNING, "Namespace team-b", Text(": lone")),
    ]


def test_workloads_recorded_for_an_unknown_scheduler_are_reported() -> None:
    job = example_object("batch/v1", "Job", "train", {"rollcall.dev/scheduler": "volcano"}, "team-a")
    unlabelled = example_object("batch/v1", "Job", "other", {}, "team-a")
    found = reported(installed(job, unlabelled, pod_clique_set("demo", "kai-scheduler")), "gangs/profile")
    assert [said for _, _, said in found] == [
        "1 PodCliqueSet recorded for kai-scheduler, which is not a profile",
        "1 Job recorded for volcano, which is not a profile",
    ]


def test_pods_with_a_podgang_label_that_grove_did_not_create_are_reported() -> None:
    labels = {"grove.io/podgang": "demo-0", "app.kubernetes.io/managed-by": "somebody"}
    (found,) = reported(installed(example_object("v1", "Pod", "a", labels, "team-a")), "gangs/asked-about")
    assert found[2].endswith(": a")


def test_objects_of_an_exempt_namespace_are_not_checked() -> None:
    def exempting(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            exempt = {"key": "rollcall.dev/exempt", "operator": "DoesNotExist"}
            hook["namespaceSelector"]["matchExpressions"].append(exempt)

    snapshot = installed(namespace("team-b", exempt="true"), pod_clique_set("demo", within="team-b"), changed=exempting)
    (found,) = reported(snapshot, "gangs/asked-about")
    assert found[:2] == (Severity.WARNING, "Namespace team-b")


OPERATOR = "system:serviceaccount:dynamo:grove-operator"
ANYWHERE = "system:serviceaccount:*:grove-operator"
ACCOUNTS: dict[str, tuple[list[str], str, list[tuple[Severity, str, str]]]] = {
    "the one that runs": ([OPERATOR], "grove-operator", []),
    "the one that runs, and any": ([ANYWHERE, OPERATOR], "grove-operator", []),
    "any of that name": (
        [ANYWHERE],
        "grove-operator",
        [
            (
                Severity.WARNING,
                "tenancy.groveOperators",
                Text("Deployment dynamo/grove-operator", OPERATOR),
            )
        ],
    ),
    "another": (
        [ANYWHERE],
        "dynamo-grove",
        [
            (
                Severity.ERROR,
                "Deployment dynamo/grove-operator",
                Text("system:serviceaccount:dynamo:dynamo-grove", "tenancy.groveOperators"),
            )
        ],
    ),
    "none": (
        [],
        "",
        [
            (
                Severity.ERROR,
                "Deployment dynamo/grove-operator",
                Text("system:serviceaccount:dynamo:default", "tenancy.groveOperators"),
            )
        ],
    ),
}
DEFAULTING = webhook_of(
    "MutatingWebhookConfiguration",
    "podcliqueset-defaulting-webhook",
    "pcs.defaulting.webhooks.grove.io",
    clientConfig={"service": {"namespace": "dynamo", "name": "grove-operator"}},
)


def running(account: str, within: str = "dynamo") -> Manifest:
    return deployment("grove-operator", "grove-operator:v0.1.0", within, serviceAccountName=account)


@pytest.mark.parametrize(("operators", "account", "wanted"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_the_account_of_grove_s_operator_must_be_the_trusted_one(
    operators: list[str], account: str, wanted: list[tuple[Severity, str, str]]
) -> None:
    settings = configured(KOORDINATOR, tenancy={"groveOperators": operators})
    assert reported(installed(DEFAULTING, running(account), settings=settings), "grove/operator-account") == wanted


def test_the_remedy_names_the_setting_but_never_a_tenant_s_account() -> None:
    settings = configured(KOORDINATOR)
    snapshot = installed(DEFAULTING, running("grove-operator"), running("grove-operator", "team-a"), settings=settings)
    assert remedies(snapshot, "grove/operator-account") == [f"set tenancy.groveOperators: [{OPERATOR}]"]
    # Without Grove's webhooks nothing says where its operator is.
    assert reported(installed(running("other", "team-a"), settings=settings), "grove/operator-account") == []


def test_a_kind_in_a_version_that_nobody_follows_is_not_called_missing() -> None:
    (sets, gangs) = (part.resource.api for part in (POD_CLIQUE_SETS, POD_GANGS))
    newer = installed(apis=served(replace(sets, version="v1beta1")) - {sets})
    assert reported(newer, "kinds/grove") == []
    ((level, where, what),) = reported(newer, "kinds/versions")
    assert (level, where) == (Severity.WARNING, "PodCliqueSet.grove.io")
    assert what == Text("v1beta1", "v1alpha1")
    both = installed(apis=served(sets, replace(sets, version="v1beta1")))
    assert reported(both, "kinds/grove", "kinds/versions") == []
    neither = installed(apis=served() - {sets, gangs})
    assert [where for _, where, _ in reported(neither, "kinds/grove", "kinds/versions")] == ["Grove"]


def test_an_exception_that_has_ended_covers_no_namespace_that_does_not_exist() -> None:
    assert reported(excepting(NOW - ANNOUNCED, "team-z"), "exceptions/namespaces") == []
    ((level, _, what),) = reported(excepting(NOW + ANNOUNCED, "team-z"), "exceptions/namespaces")
    assert (level, what) == (Severity.WARNING, Text("team-z"))
