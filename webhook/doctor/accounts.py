"""Checks of service accounts: only the reconciler may write, and the accounts that the configuration trusts exist."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.config.settings import Settings
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.deployments import pod_of
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import DEPLOYMENTS, RECONCILER_BINDING
from webhook.doctor.snapshot import Snapshot, known
from webhook.installation.deployment import workloads
from webhook.installation.exempt import installed_in
from webhook.installation.names import RECONCILER_ROLE, SERVER
from webhook.installation.options import Options, Reconciler
from webhook.installation.webhooks import NEVER_HERE
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.users import account_of, service_account

_MOVE = 'docs/how-to/installing.md, "From a sidecar to a Deployment"'

_WHY = "the server accepts requests; an attacker who takes it over can write gang objects and change pods"


def reconciler_accounts(snapshot: Snapshot) -> frozenset[str]:
    """The service accounts in Rollcall's namespace of Pods with a reconciler; empty without such a Deployment. Raises
    `FactsUnavailable`.
    """
    return frozenset(account for _, account in _reconciling(snapshot))


def user_of(snapshot: Snapshot, account: str) -> str:
    """The user name of a service account in Rollcall's namespace."""
    return service_account(snapshot.namespace, account)


def _reconciling(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The Deployments whose Pods contain a reconciler, each with its service account."""
    for raw in snapshot.all(DEPLOYMENTS):
        pod = pod_of(raw)
        containers = map(mapping, sequence(pod.get("containers")))
        ours = mapping(raw.get("metadata")).get("namespace") == snapshot.namespace
        if ours and any("reconcile" in sequence(container.get("args")) for container in containers):
            yield name_of(raw), text(pod.get("serviceAccountName")) or "default"


def _beside() -> list[Manifest]:
    return workloads(configured(), Options("rollcall", reconciler=Reconciler.SIDECAR))


@check(
    "reconciler/apart",
    level=Level.NOTE,
    passes=lambda: installed(*workloads(configured(), Options("rollcall"))),
    fails=lambda: installed(*_beside()),
)
def apart(snapshot: Snapshot) -> Symptoms:
    """The server's service account has no right to write. The reconciler runs in its own Pods with its own account, and
    no binding of an earlier installation is left. A reconciler beside the server is a note, because it may be there on
    purpose. A binding that is left is a warning.

    Source: webhook/installation/access.py; a Pod has one service account, whatever runs in it.
    """
    beside = [name for name, account in _reconciling(snapshot) if account == SERVER]
    if beside:
        yield Symptom(
            f"Deployment {snapshot.namespace}/{beside[0]}",
            f"a reconciler runs in it as {user_of(snapshot, SERVER)}, as the server does",
            _WHY,
            f"give the reconciler its own Pods and its own account: {_MOVE}",
        )
    elif SERVER in _bound(snapshot):
        yield Symptom(
            f"ClusterRoleBinding {RECONCILER_ROLE}",
            f"it is bound to {user_of(snapshot, SERVER)}, and no reconciler runs with that account",
            _WHY,
            f"when the last sidecar is gone, apply with --reconciler deployment: {_MOVE}",
            Level.WARNING,
        )


def _bound(snapshot: Snapshot) -> frozenset[str]:
    """The service accounts in Rollcall's namespace that have the reconciler's rights."""
    subjects = map(mapping, sequence(mapping(snapshot.one(RECONCILER_BINDING)).get("subjects")))
    return frozenset(str(one.get("name")) for one in subjects if one.get("namespace") == snapshot.namespace)


def _renamed() -> list[Manifest]:
    found = workloads(configured(), Options("rollcall"))
    for raw in found:
        if raw["kind"] == DEPLOYMENTS.resource.api.kind:
            raw["spec"]["template"]["spec"]["serviceAccountName"] = "gang-writer"
    return found


@check(
    "reconciler/exempt",
    level=Level.WARNING,
    passes=lambda: installed(*workloads(configured(), Options("rollcall"))),
    fails=lambda: installed(*_renamed()),
)
def exempt(snapshot: Snapshot) -> Symptoms:
    """The reconciler's service account is one of the users whose gang objects are not judged. These are the account in
    the manifests, or the accounts in `tenancy.reconcilers` of the configuration.

    Source: webhook/installation/exempt.py, from which the webhooks' matchConditions are made.
    """
    users = installed_in(snapshot.settings, snapshot.namespace).exempt_users
    for name, account in _reconciling(snapshot):
        if user_of(snapshot, account) not in users:
            yield Symptom(
                f"Deployment {snapshot.namespace}/{name}",
                f"its reconciler runs as {user_of(snapshot, account)}, whose gang objects are judged",
                "its writes wait for the webhook: while no server answers, no gang object is written",
                f"list it in the configuration: tenancy.reconcilers: [{user_of(snapshot, account)}]",
            )


def trusted(settings: Settings) -> dict[str, str]:
    """The users that the configuration trusts by name, each with the field that names it.

    Service accounts of the namespaces that Rollcall does not judge are left out: only administrators create accounts
    there.
    """
    places = {
        f"scheduler.profiles[{name}].controllers": profile.controllers for name, profile in settings.profiles.items()
    }
    places["tenancy.exemptUsers"] = settings.tenancy.exempt_users
    places["tenancy.groveOperators"] = settings.tenancy.grove_operators
    named = {user: place for place, users in places.items() for user in users}
    return {user: place for user, place in named.items() if (account_of(user) or ("",))[0] not in NEVER_HERE}


_ARGO = service_account("argocd", "argocd-application-controller")


def _trusting(*, there: bool) -> Snapshot:
    return installed(settings=configured(tenancy={"exemptUsers": [_ARGO]}), accounts={_ARGO: there})


@check(
    "accounts/there",
    level=Level.WARNING,
    passes=lambda: _trusting(there=True),
    fails=lambda: _trusting(there=False),
)
def there(snapshot: Snapshot) -> Symptoms:
    """The service accounts exist that `controllers` of a profile, `tenancy.exemptUsers` and `tenancy.groveOperators`
    name. Only the name is trusted: a tenant who may create an account of that name becomes exempt, and a controller
    that runs with another account is judged. Accounts of kube-system are not checked.

    Source: webhook/config/settings.py (`exempt_users`); Kubernetes documentation, "Authenticating" (service accounts).
    """
    for user, place in trusted(snapshot.settings).items():
        if not known(snapshot.accounts.get(user, True)):
            yield Symptom(
                place,
                f"the service account {user} does not exist",
                "a tenant who may create it becomes exempt, and a controller that runs with another account "
                "is not exempt",
                "list only accounts that are in use; [] if there are none",
            )
