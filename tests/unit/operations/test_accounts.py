"""The account of the reconciler, the rights of the server, and whether the trusted accounts exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.installation.deployment import workloads
from webhook.installation.parameters import Options, ReconcilerPlace
from webhook.installation.rbac import reconciler_access_rules
from webhook.model.reading import Manifest
from webhook.operations.diagnosis import Severity, configured, deployment, example_object, installed
from webhook.operations.installation_checks import reconciler_accounts, trusted_users
from webhook.operations.snapshot import Snapshot, Unread

OPERATOR = {
    "apiVersion": "operator.config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
}
OF_SERVER = "system:serviceaccount:rollcall-system:rollcall"
OF_RECONCILER = "system:serviceaccount:rollcall-system:rollcall-reconciler"


def running(place: ReconcilerPlace, *more: Manifest) -> Snapshot:
    """An installation with the reconciler there, and the rights that go with it."""
    options = Options("rollcall:1", reconciler=place)
    rights = reconciler_access_rules(configured(), "rollcall-system", *options.reconciler_accounts)
    return installed(*workloads(configured(), options), *rights, *more)


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (ReconcilerPlace.DEPLOYMENT, []),
        (
            ReconcilerPlace.MOVING,
            [
                (
                    Severity.WARNING,
                    "ClusterRoleBinding rollcall-reconcile",
                    Text(f"{OF_SERVER},"),
                )
            ],
        ),
        (
            ReconcilerPlace.SIDECAR,
            [
                (
                    Severity.NOTE,
                    "Deployment rollcall-system/rollcall",
                    Text(f"{OF_SERVER},"),
                )
            ],
        ),
    ],
)
def test_write_rights_of_the_server_are_reported_and_leftover_rights_are_a_warning(
    place: ReconcilerPlace, wanted: list[tuple[Severity, str, str]]
) -> None:
    snapshot = running(place)
    assert reported(snapshot, "reconciler/apart") == wanted
    assert all("docs/how-to/" in remedy for remedy in remedies(snapshot, "reconciler/apart"))


def test_the_reconciler_s_account_is_read_from_its_running_pods() -> None:
    named = {ReconcilerPlace.DEPLOYMENT: "rollcall-reconciler", ReconcilerPlace.SIDECAR: "rollcall"}
    for place, account in named.items():
        assert reconciler_accounts(running(place)) == {account}
    # Neither of another's, nor of one that is elsewhere.
    other = deployment("other", "rollcall", "rollcall-system")
    elsewhere = example_object("apps/v1", "Deployment", "rollcall-reconciler", within="team-a")
    elsewhere["spec"] = {"template": {"spec": {"containers": [{"name": "r", "args": ["reconcile"]}]}}}
    assert reconciler_accounts(installed(other, elsewhere)) == frozenset()


@pytest.mark.parametrize(
    ("place", "exempt", "missing"),
    [
        (ReconcilerPlace.DEPLOYMENT, OF_RECONCILER, []),
        # As earlier installations had it; the server's account lifts no gate any more.
        (ReconcilerPlace.DEPLOYMENT, OF_SERVER, [f"add {OF_RECONCILER}"]),
        (ReconcilerPlace.SIDECAR, OF_SERVER, []),
        (ReconcilerPlace.SIDECAR, OF_RECONCILER, [f"add {OF_SERVER}"]),
    ],
)
def test_grove_s_authorizer_must_exempt_the_account_that_removes_gates(
    place: ReconcilerPlace, exempt: str, missing: list[str]
) -> None:
    authorizer = {"enabled": True, "exemptServiceAccountUserNames": [exempt]}
    snapshot = running(place)
    changed = Snapshot(
        snapshot.settings, snapshot.now, parts=snapshot.parts, operator={**OPERATOR, "authorizer": authorizer}
    )
    assert remedies(changed, "grove/authorizer") == missing


@pytest.mark.parametrize(
    ("place", "tenancy", "wanted"),
    [
        (ReconcilerPlace.DEPLOYMENT, {}, []),
        (ReconcilerPlace.SIDECAR, {}, []),
        # Who names others names all of them.
        (
            ReconcilerPlace.DEPLOYMENT,
            {"reconcilers": [OF_SERVER]},
            [Text(f"{OF_RECONCILER},")],
        ),
        (ReconcilerPlace.DEPLOYMENT, {"reconcilers": [OF_SERVER], "exemptUsers": [OF_RECONCILER]}, []),
    ],
)
def test_gang_objects_of_the_running_reconciler_must_be_exempt(
    place: ReconcilerPlace, tenancy: dict[str, list[str]], wanted: list[str]
) -> None:
    snapshot = replace(running(place), settings=configured(tenancy=tenancy))
    assert [found for _, _, found in reported(snapshot, "reconciler/exempt")] == wanted


KOORD = "system:serviceaccount:koordinator-system:koord-scheduler"
ARGO = "system:serviceaccount:argocd:controller"
GROVE = "system:serviceaccount:dynamo:grove-operator"


def test_each_trusted_account_that_does_not_exist_is_reported_with_its_field() -> None:
    tenancy = {"exemptUsers": [ARGO, "alice"], "groveOperators": [GROVE, "system:serviceaccount:*:grove-operator"]}
    settings = configured({"name": "koord-scheduler"}, {"name": "default-scheduler"}, tenancy=tenancy)
    absent = dict.fromkeys((KOORD, ARGO, GROVE), False)
    assert reported(installed(settings=settings, accounts=absent), "accounts/there") == [
        (
            Severity.WARNING,
            "scheduler.profiles[koord-scheduler].controllers",
            Text(f"{KOORD} "),
        ),
        (Severity.WARNING, "tenancy.exemptUsers", Text(f"{ARGO} ")),
        (Severity.WARNING, "tenancy.groveOperators", Text(f"{GROVE} ")),
    ]
    assert reported(installed(settings=settings, accounts=dict.fromkeys(absent, True)), "accounts/there") == []


def test_an_unreadable_account_is_unknown() -> None:
    unread = Unread("the ServiceAccount koord-scheduler", "HTTP 403", "get serviceaccounts koord-scheduler")
    (why,) = unknown(installed(accounts={KOORD: unread}), "accounts/there")
    assert "it takes the right to get serviceaccounts koord-scheduler" in why


def test_accounts_of_kube_system_and_other_users_are_not_checked() -> None:
    tenancy = {"exemptUsers": ["alice", "system:serviceaccount:kube-system:backup"]}
    settings = configured({"name": "default-scheduler", "config": {"gangScheduling": True}}, tenancy=tenancy)
    assert set(trusted_users(settings)) == {
        "system:kube-controller-manager",
        "alice",
        "system:serviceaccount:*:grove-operator",
    }
