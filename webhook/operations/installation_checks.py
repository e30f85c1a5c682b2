"""Checks of an installation's own objects: the net that protects gangs while Rollcall is down, the servers, the
reconciler and what it writes, service accounts and their rights, and clocks.

Only the reconciler may write, and the accounts that the configuration trusts exist. Certificates and leases depend on
clocks, and those of machines differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from webhook.config.settings import Settings
from webhook.installation.deployment import workloads
from webhook.installation.names import LEASE_NAME, NAMESPACE, NET, RECONCILER, RECONCILER_ROLE, SERVER
from webhook.installation.net_policy import net_policy
from webhook.installation.parameters import Options, ReconcilerPlace
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.installation.webhooks import NEVER_HERE, installation_settings
from webhook.model import kueue, reading
from webhook.model.admission_request import account_of, service_account
from webhook.model.gang_objects import REPORT_SELECTOR, REPORTS
from webhook.model.projections import labels_of, name_of
from webhook.mutators.prepare_pod import GATE
from webhook.operations import diagnosis
from webhook.operations.snapshot import (
    ADMISSION_CHECKS,
    BUDGETS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    GANG_PODS,
    LEASE,
    OWN_REPORTS,
    OWNED_PODS,
    POLICIES,
    POLICY_BINDINGS,
    RECONCILER_BINDING,
    RECONCILER_RIGHTS,
    SERVER_RIGHTS,
    SERVICE,
    ClockOffset,
    Snapshot,
    SnapshotPart,
    pod_of,
    require_read,
)
from webhook.workloads.kueue_integration import CONTROLLER, CheckMode

_REDO = "rollcall manifests net --config FILE | kubectl apply -f -"
# Fields that define a policy; the API server fills in some of the others.
_COMPARED = ("matchConditions", "variables", "validations")

Key = tuple[str, str]


def _warning(raw: reading.Manifest) -> None:
    raw["spec"].update(validationActions=["Warn", "Audit"])


def _denying(changed: Callable[[reading.Manifest], None] = lambda _: None) -> Snapshot:
    settings = diagnosis.configured(registration={"net": "Deny"})
    objects = net_policy(settings, NAMESPACE)
    for raw in objects:
        if raw["kind"] == POLICY_BINDINGS.resource.api.kind:
            changed(raw)
    return diagnosis.installed(*objects, settings=settings)


@diagnosis.check("net/registered", level=diagnosis.Severity.WARNING, passes=_denying, fails=lambda: _denying(_warning))
def net(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The net is as `registration.net` says. The policy rollcall-net and its bindings are those that `rollcall
    manifests net` prints, with the configured action. If the net is off, none of them exists.

    Source: Kubernetes documentation, "Validating Admission Policy".
    """
    live = {_key(raw): raw for part in (POLICIES, POLICY_BINDINGS) for raw in snapshot.all(part) if _is_ours(raw)}
    expected = {_key(raw): raw for raw in net_policy(snapshot.settings, snapshot.namespace)}
    for key in sorted(live.keys() - expected.keys()):
        why = "it still judges pods by an earlier configuration"
        yield diagnosis.Symptom(
            " ".join(key), "it exists, but would not be printed", why, f"kubectl delete {'/'.join(key)}"
        )
    for key, difference in _differences(expected, live):
        why = "while no server answers, an unprepared pod of a gang can start alone, or a prepared one can be refused"
        yield diagnosis.Symptom(" ".join(key), difference, why, f"apply what is printed: {_REDO}")


def _key(raw: reading.Manifest) -> Key:
    return str(raw["kind"]), name_of(raw)


def _is_ours(raw: reading.Manifest) -> bool:
    return NET in {name_of(raw), reading.mapping(raw.get("spec")).get("policyName")}


def _differences(
    expected: Mapping[Key, reading.Manifest], live: Mapping[Key, reading.Manifest]
) -> Iterator[tuple[Key, str]]:
    for key, printed in expected.items():
        if key not in live:
            yield key, "it is missing"
            continue
        should, does = reading.mapping(printed.get("spec")), reading.mapping(live[key].get("spec"))
        fields = [
            field
            for field in _COMPARED
            if list(reading.sequence(should.get(field))) != list(reading.sequence(does.get(field)))
        ]
        if fields:
            yield key, f"its {' and '.join(fields)} differ from those that are printed"
        actions, others = (set(reading.sequence(spec.get("validationActions"))) for spec in (should, does))
        if actions != others:
            yield key, f"its validationActions are {', '.join(sorted(others))} and not {', '.join(sorted(actions))}"


@diagnosis.check("server/service", passes=diagnosis.installed, fails=lambda: diagnosis.installed(without=("Service",)))
def service(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The Service that the webhooks name exists and has the port that they name. Not checked if they name a URL.

    Source: Kubernetes API reference, admissionregistration/v1 ServiceReference.
    """
    if snapshot.address().url:
        return
    number, manifest = snapshot.address().port, snapshot.single(SERVICE)
    where = f"Service {snapshot.namespace}/{SERVER}"
    why = "the API server finds no server to call, and refuses every gang"
    if manifest is None:
        yield diagnosis.Symptom(
            where, "it is missing", why, "install it, or use --namespace if Rollcall is in another namespace"
        )
        return
    ports = [
        reading.mapping(port).get("port")
        for port in reading.sequence(reading.mapping(manifest.get("spec")).get("ports"))
    ]
    if number not in ports:
        yield diagnosis.Symptom(where, f"it has no port {number}, only {ports}", why, f"give it port {number}")


def _one_node(raw: reading.Manifest) -> None:
    for endpoint in raw.get("endpoints", ()):
        endpoint["nodeName"] = "node-a"


@diagnosis.check("server/endpoints", passes=diagnosis.installed, fails=lambda: diagnosis.installed(changed=_one_node))
def endpoints(snapshot: Snapshot) -> diagnosis.Symptoms:
    """At least two replicas behind the Service are ready, on different nodes. With one replica, a rollout or a lost
    node refuses every gang until it is back. It is an error if no replica is ready, or if none has the port that the
    Service leads to.

    Source: Kubernetes API reference, discovery.k8s.io/v1 (EndpointConditions, EndpointPort); a targetPort that no
    container has is left out of the slices.
    """
    if snapshot.address().url:
        return
    everybody, number = list(ready_endpoints(snapshot)), snapshot.address().port
    # Another check reports a missing Service or port.
    name = reading.port_name(snapshot.single(SERVICE) or {}, number)
    ready = [endpoint for endpoint in everybody if name is None or name in endpoint.ports]
    nodes = {endpoint.node for endpoint in ready if endpoint.node}
    where = f"Service {snapshot.namespace}/{SERVER}"
    why = "the API server finds no server to call, and refuses every gang"
    if not everybody:
        see = f"kubectl -n {snapshot.namespace} get pods -l app.kubernetes.io/name={SERVER}"
        remedy = f"find out why: {see}; each Pod says why at /readyz on its port `health`"
        yield diagnosis.Symptom(where, "no endpoint is ready", why, remedy)
    elif not ready:
        observation = f"no ready endpoint has its port {number}{f' ({name})' if name else ''}"
        remedy = "set the targetPort of the Service to the name or the number of a port of the containers"
        yield diagnosis.Symptom(where, observation, why, remedy)
    elif len(ready) == 1:
        why = "while it is replaced, or after its node is lost, every gang is refused"
        yield diagnosis.Symptom(
            where, "one endpoint is ready", why, "run two replicas or more", diagnosis.Severity.WARNING
        )
    elif len(nodes) == 1:
        why = "if that node is lost, every gang is refused until others run"
        remedy = "spread them over nodes, as the manifests do (topologySpreadConstraints)"
        yield diagnosis.Symptom(
            where, f"all {len(ready)} endpoints are on node {nodes.pop()}", why, remedy, diagnosis.Severity.WARNING
        )


def ready_endpoints(snapshot: Snapshot) -> Iterator[reading.ServiceEndpoint]:
    """Yields the ready endpoints of the Service. Raises `FactsUnavailable`."""
    for endpoint_slice in snapshot.all(ENDPOINT_SLICES):
        yield from (endpoint for endpoint in reading.endpoints_in(endpoint_slice) if endpoint.ready)


@diagnosis.check(
    "server/disruption-budget",
    level=diagnosis.Severity.WARNING,
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(without=("PodDisruptionBudget",)),
)
def disruption_budget(snapshot: Snapshot) -> diagnosis.Symptoms:
    """A PodDisruptionBudget covers the pods behind the Service. Without it, draining nodes can evict all of them at
    once.

    Source: Kubernetes documentation, "Specifying a Disruption Budget".
    """
    service = None if snapshot.address().url else snapshot.single(SERVICE)
    if service is None:
        return
    labels = reading.mapping(reading.mapping(service.get("spec")).get("selector"))
    for raw in snapshot.all(DEPLOYMENTS):
        if reading.mapping(raw.get("metadata")).get("namespace") == snapshot.namespace and name_of(raw) == SERVER:
            labels = labels_of(reading.mapping(reading.mapping(raw.get("spec")).get("template")))  # type: ignore[arg-type]
    if not any(
        reading.selects(reading.mapping(raw.get("spec")).get("selector"), labels) for raw in snapshot.all(BUDGETS)
    ):
        yield diagnosis.Symptom(
            f"Service {snapshot.namespace}/{SERVER}",
            "no PodDisruptionBudget covers the pods behind it",
            "draining nodes may evict all replicas at once, and every gang is refused until one is back",
            "install the one from the manifests: it lets only one replica be evicted at a time",
        )


# The clock of the renewing machine may differ from ours; other checks report by how much.
_GRACE = timedelta(seconds=30)
# Creating a gang, or waiting for gates of other controllers, may normally take this long.
_PATIENCE = timedelta(minutes=10)


@diagnosis.check(
    "reconciler/leader",
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(diagnosis.lease(renewTime="2026-09-01T11:30:00.000000Z"), without=("Lease",)),
)
def leader(snapshot: Snapshot) -> diagnosis.Symptoms:
    """A reconciler holds the Lease and renews it. Without a leader no gang objects are made, and every new gang is
    held. Not checked if no enabled scheduler has gang objects.

    Source: webhook/reconciler/lease.py, which renews every two seconds what is good for 15.
    """
    profiles = snapshot.settings.profiles.values()
    writes = any(profile.backend.writable_kinds or profile.gate for profile in profiles)
    if writes and (reason := missing_leader(snapshot)) is not None:
        yield diagnosis.Symptom(
            f"Lease {snapshot.namespace}/{LEASE_NAME}",
            reason,
            "gang objects are not written and gates are not removed: every new gang is held",
            f"find out why the reconciler does not run: kubectl -n {snapshot.namespace} get pods, logs of {RECONCILER}",
        )


def missing_leader(snapshot: Snapshot) -> str | None:
    """Returns why no reconciler leads, or None."""
    lease = snapshot.single(LEASE)
    if lease is None:
        return "it does not exist: no reconciler has ever run here"
    spec = reading.mapping(lease.get("spec"))
    holder, renewed = reading.text(spec.get("holderIdentity")), reading.text(spec.get("renewTime"))
    if holder is None:
        return "it has no holder"
    if renewed is None:
        return f"{holder} holds it and has never renewed it"
    good_for = timedelta(seconds=reading.integer(spec.get("leaseDurationSeconds")) or 0)
    if snapshot.now - datetime.fromisoformat(renewed) > good_for + _GRACE:
        return f"{holder} holds it, and has not renewed it since {renewed}"
    return None


def _gated() -> reading.Manifest:
    pod = diagnosis.example_object("v1", "Pod", "demo-0-worker-x7k2p", {"grove.io/podgang": "demo-0"}, "team-a")
    pod["metadata"]["creationTimestamp"] = "2026-09-01T10:00:00Z"
    return {**pod, "spec": {"schedulerName": "koord-scheduler", "schedulingGates": [{"name": GATE}]}}


_UNGATED = {"name": "koord-scheduler", "gate": False}


@diagnosis.check(
    "reconciler/gated-pods",
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(_gated(), settings=diagnosis.configured(_UNGATED)),
)
def gated_pods(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No pod keeps Rollcall's gate, rollcall.dev/gang-sync, for ever. The gate stays if no profile has `gate` any more,
    or if no reconciler leads. With a leader, a gate that has been there for ten minutes is a warning.

    Source: webhook/reconciler/writer.py.
    """
    waiting = list(_waiting(snapshot))
    if not waiting:
        return
    lifted = any(profile.gate for profile in snapshot.settings.profiles.values())
    if lifted and missing_leader(snapshot) is None:
        waiting = [(where, since) for where, since in waiting if snapshot.now - since > _PATIENCE]
        why, level = (
            "their gangs do not start, or they do not belong to the gang that they name",
            diagnosis.Severity.WARNING,
        )
        remedy = "rollcall gangs --held shows why each gang does not start; -o json also shows which pods are unowned"
    else:
        cause = "no reconciler leads" if lifted else "no profile of the configuration has `gate` any more"
        why, level = f"{cause}: the gate is not removed, and their gangs never start", diagnosis.Severity.ERROR
        remedy = "run a reconciler with `gate: true`, or remove the gate by hand: rollcall gangs ungate --all"
    for where, number in Counter(where for where, _ in waiting).items():
        yield diagnosis.Symptom(
            where, f"{number} pod{'s have' if number > 1 else ' has'} the gate {GATE}", why, remedy, level
        )


def _waiting(snapshot: Snapshot) -> Iterator[tuple[str, datetime]]:
    """Yields the namespace and creation time of each pod that has our gate."""
    for part in (GANG_PODS, OWNED_PODS):
        for pod in snapshot.all(part):
            gates = reading.sequence(reading.mapping(pod.get("spec")).get("schedulingGates"))
            if any(reading.mapping(gate).get("name") == GATE for gate in gates):
                metadata = reading.mapping(pod.get("metadata"))
                created = datetime.fromisoformat(str(metadata["creationTimestamp"]))
                yield f"Namespace {metadata.get('namespace')}", created


def _used(active: str = "True") -> tuple[reading.Manifest, reading.Manifest]:
    conditions = [{"type": kueue.ACTIVE, "status": active}]
    api = f"{kueue.GROUP}/{kueue.VERSION}"
    admission_check = diagnosis.example_object(
        api, "AdmissionCheck", "gang", spec={"controllerName": CONTROLLER}, status={"conditions": conditions}
    )
    strategy = {"admissionChecks": [{"name": "gang"}]}
    return admission_check, diagnosis.example_object(
        api, "ClusterQueue", "research", spec={"admissionChecksStrategy": strategy}
    )


_ON = replace(diagnosis.configured(), admission_check=CheckMode.ON)


@diagnosis.check(
    "kueue/admission-check",
    passes=lambda: diagnosis.installed(*_used(), settings=_ON),
    fails=lambda: diagnosis.installed(
        *_used(), diagnosis.lease(renewTime="2026-09-01T11:30:00.000000Z"), settings=_ON, without=("Lease",)
    ),
)
def admission_check(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Each AdmissionCheck of Rollcall that a ClusterQueue uses is active and answered: `kueue.admissionCheck` is not
    off, a reconciler leads, and the check has the condition Active. A Workload whose check is not answered holds its
    quota without a limit, and a ClusterQueue with an inactive check admits nothing.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/clusterqueue.go, pkg/workload/admissionchecks.go.
    """
    for raw in snapshot.all(ADMISSION_CHECKS):
        name = name_of(raw)
        if reading.mapping(raw.get("spec")).get("controllerName") != CONTROLLER:
            continue
        if (queues := sorted(_queues(snapshot, name))) and (unserved := _unserved(snapshot, raw)) is not None:
            what, why, remedy = unserved
            yield diagnosis.Symptom(
                f"AdmissionCheck {name}", f"ClusterQueue {diagnosis.first_of(queues)} uses it, and {what}", why, remedy
            )


_HELD = "each Workload whose check waits holds its quota, without a limit, and does not start"


def _unserved(snapshot: Snapshot, raw: reading.Manifest) -> tuple[str, str, str] | None:
    """Returns what is missing for a check to be answered, why that matters, and what to do; None if nothing is."""
    if snapshot.settings.admission_check is CheckMode.OFF:
        remedy = "set kueue.admissionCheck to audit or on, or take the check out of the ClusterQueue"
        return "kueue.admissionCheck is off", _HELD, remedy
    if (why := missing_leader(snapshot)) is not None:
        return f"no reconciler leads: {why}", _HELD, "run a reconciler, or take the check out of the ClusterQueue"
    if not reading.any_true(raw, {kueue.ACTIVE}):
        remedy = "look into the reconciler's log: it needs the right to patch admissionchecks/status"
        return "it has no condition Active=True", "the ClusterQueue admits nothing", remedy
    return None


def _queues(snapshot: Snapshot, check_name: str) -> Iterator[str]:
    for queue in snapshot.all(CLUSTER_QUEUES):
        strategy = reading.mapping(reading.mapping(queue.get("spec")).get("admissionChecksStrategy"))
        if any(
            reading.mapping(admission_check).get("name") == check_name
            for admission_check in reading.sequence(strategy.get("admissionChecks"))
        ):
            yield name_of(queue)


_SERVED = frozenset({REPORTS.api})
_REMOVE = f"kubectl delete {REPORTS.qualified} -A -l {REPORT_SELECTOR}"


@diagnosis.check(
    "audit/reports",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(apis=_SERVED, settings=diagnosis.configured(audit={"openReports": True})),
    fails=lambda: diagnosis.installed(settings=diagnosis.configured(audit={"openReports": True})),
)
def reports(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The cluster serves the Reports that the reconciler is to write, and has none of an audit that was turned off:
    nothing updates these.

    Source: openreports/reports-api, apis/openreports.io/v1alpha1; webhook/reconciler/audit_reports.py.
    """
    enabled = snapshot.settings.auditing.open_reports
    if REPORTS.api not in snapshot.served():
        if enabled:
            yield diagnosis.Symptom(
                "the configuration, audit.openReports",
                f"the cluster does not serve {REPORTS.qualified}",
                "the reconciler audits nothing, because it cannot write the reports",
                "install the CustomResourceDefinitions of OpenReports, or remove audit.openReports",
            )
        return
    if not enabled and (left := len(snapshot.all(OWN_REPORTS))):
        yield diagnosis.Symptom(
            f"{left} {REPORTS.qualified}",
            "Rollcall wrote them, and the configuration has no audit.openReports any more",
            "they tell of objects as they were, and are never updated",
            f"delete them: {_REMOVE}",
        )


_MOVE = 'docs/how-to/installing.md, "From a sidecar to a Deployment"'

_WHY = "the server accepts requests; an attacker who takes it over can write gang objects and change pods"


def reconciler_accounts(snapshot: Snapshot) -> frozenset[str]:
    """Returns the service accounts of Pods with a reconciler in Rollcall's namespace. Raises `FactsUnavailable`."""
    return frozenset(account for _, account in _reconciling(snapshot))


def user_of(snapshot: Snapshot, account: str) -> str:
    """Returns the user name of a service account in Rollcall's namespace."""
    return service_account(snapshot.namespace, account)


def _reconciling(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yields the Deployments whose Pods contain a reconciler, each with its service account."""
    for raw in snapshot.all(DEPLOYMENTS):
        pod = pod_of(raw)
        containers = map(reading.mapping, reading.sequence(pod.get("containers")))
        ours = reading.mapping(raw.get("metadata")).get("namespace") == snapshot.namespace
        if ours and any("reconcile" in reading.sequence(container.get("args")) for container in containers):
            yield name_of(raw), reading.text(pod.get("serviceAccountName")) or "default"


@diagnosis.check(
    "reconciler/apart",
    level=diagnosis.Severity.NOTE,
    passes=lambda: diagnosis.installed(*workloads(diagnosis.configured(), Options("rollcall"))),
    fails=lambda: diagnosis.installed(
        *workloads(diagnosis.configured(), Options("rollcall", reconciler=ReconcilerPlace.SIDECAR))
    ),
)
def reconciler_apart(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The server's service account has no right to write. The reconciler runs in its own Pods with its own account, and
    no binding of an earlier installation is left. A reconciler beside the server is a note, because it may be there on
    purpose. A binding that is left is a warning.

    Source: webhook/installation/rbac.py; a Pod has one service account, whatever runs in it.
    """
    beside = [name for name, account in _reconciling(snapshot) if account == SERVER]
    if beside:
        yield diagnosis.Symptom(
            f"Deployment {snapshot.namespace}/{beside[0]}",
            f"a reconciler runs in it as {user_of(snapshot, SERVER)}, as the server does",
            _WHY,
            f"give the reconciler its own Pods and its own account: {_MOVE}",
        )
    elif SERVER in _bound(snapshot):
        yield diagnosis.Symptom(
            f"ClusterRoleBinding {RECONCILER_ROLE}",
            f"it is bound to {user_of(snapshot, SERVER)}, and no reconciler runs with that account",
            _WHY,
            f"when the last sidecar is gone, apply with --reconciler deployment: {_MOVE}",
            diagnosis.Severity.WARNING,
        )


def _bound(snapshot: Snapshot) -> frozenset[str]:
    subjects = map(
        reading.mapping, reading.sequence(reading.mapping(snapshot.single(RECONCILER_BINDING)).get("subjects"))
    )
    return frozenset(str(subject.get("name")) for subject in subjects if subject.get("namespace") == snapshot.namespace)


def _renamed() -> list[reading.Manifest]:
    manifests = workloads(diagnosis.configured(), Options("rollcall"))
    for raw in manifests:
        if raw["kind"] == DEPLOYMENTS.resource.api.kind:
            raw["spec"]["template"]["spec"]["serviceAccountName"] = "gang-writer"
    return manifests


@diagnosis.check(
    "reconciler/exempt",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(*workloads(diagnosis.configured(), Options("rollcall"))),
    fails=lambda: diagnosis.installed(*_renamed()),
)
def exempt(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The reconciler's service account is one of the users whose gang objects are not judged. These are the account in
    the manifests, or the accounts in `tenancy.reconcilers` of the configuration.

    Source: webhook/installation/webhooks.py, from which the webhooks' matchConditions are made.
    """
    users = installation_settings(snapshot.settings, snapshot.namespace).exempt_users
    for name, account in _reconciling(snapshot):
        if user_of(snapshot, account) not in users:
            yield diagnosis.Symptom(
                f"Deployment {snapshot.namespace}/{name}",
                f"its reconciler runs as {user_of(snapshot, account)}, whose gang objects are judged",
                "its writes wait for the webhook: while no server answers, no gang object is written",
                f"list it in the configuration: tenancy.reconcilers: [{user_of(snapshot, account)}]",
            )


def trusted_users(settings: Settings) -> dict[str, str]:
    """Returns the users that the configuration trusts by name, each with the field that names it.

    Service accounts of the namespaces that Rollcall does not judge are left out: only administrators create accounts
    there.
    """
    places = {
        f"scheduler.profiles[{name}].controllers": profile.controllers for name, profile in settings.profiles.items()
    }
    places["tenancy.exemptUsers"] = settings.tenancy.exempt_users
    places["tenancy.groveOperators"] = settings.tenancy.grove_operators
    trusted_users = {user: place for place, users in places.items() for user in users}
    return {user: place for user, place in trusted_users.items() if (account_of(user) or ("",))[0] not in NEVER_HERE}


_ARGO = service_account("argocd", "argocd-application-controller")


def _trusting(*, there: bool) -> Snapshot:
    return diagnosis.installed(settings=diagnosis.configured(tenancy={"exemptUsers": [_ARGO]}), accounts={_ARGO: there})


@diagnosis.check(
    "accounts/there",
    level=diagnosis.Severity.WARNING,
    passes=lambda: _trusting(there=True),
    fails=lambda: _trusting(there=False),
)
def accounts_exist(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The service accounts exist that `controllers` of a profile, `tenancy.exemptUsers` and `tenancy.groveOperators`
    name. Only the name is trusted: a tenant who may create an account of that name becomes exempt, and a controller
    that runs with another account is judged. Accounts of kube-system are not checked.

    Source: webhook/config/settings.py (`exempt_users`); Kubernetes documentation, "Authenticating" (service accounts).
    """
    for user, place in trusted_users(snapshot.settings).items():
        if not require_read(snapshot.accounts.get(user, True)):
            yield diagnosis.Symptom(
                place,
                f"the service account {user} does not exist",
                "a tenant who may create it becomes exempt, and a controller that runs with another account "
                "is not exempt",
                "list only accounts that are in use; [] if there are none",
            )


# How many kinds a message names.
_NAMED = 5
_EVERY = "*"


def _roles(without: str = "") -> list[reading.Manifest]:
    roles = [access_rules(diagnosis.configured(), "rollcall-system", "rollcall")[0]]
    roles.append(reconciler_access_rules(diagnosis.configured(), "rollcall-system", "rollcall-reconciler")[0])
    return [{**role, "rules": [rule for rule in role["rules"] if without not in rule["resources"]]} for role in roles]


@diagnosis.check(
    "accounts/rights",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(*_roles()),
    fails=lambda: diagnosis.installed(*_roles(without="nodes")),
)
def rights(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The ClusterRoles of the server and the reconciler have the rights to read what this version reads under this
    configuration. Roles of an earlier version lack those to newer kinds. What cannot be read stays unknown: without
    nodes, for example, no gang is told that it never fits.

    Source: webhook/installation/rbac.py, which makes the roles from the kinds that are read.
    """
    account = snapshot.namespace
    for part, expected in (
        (SERVER_RIGHTS, access_rules(snapshot.settings, account, "")),
        (RECONCILER_RIGHTS, reconciler_access_rules(snapshot.settings, account)),
    ):
        yield from _lacking(snapshot, part, reading.sequence(expected[0]["rules"]))


def _lacking(snapshot: Snapshot, part: SnapshotPart, rules: Iterable[reading.Manifest]) -> diagnosis.Symptoms:
    role = snapshot.single(part)
    if role is None:
        # The account may have its rights from another role.
        return
    granted = [reading.mapping(rule) for rule in reading.sequence(role.get("rules"))]
    lacking = sorted({name for rule in rules for name in _missing(rule, granted)})
    if lacking:
        yield diagnosis.Symptom(
            f"ClusterRole {part.name}",
            f"it has no right to list and watch {diagnosis.first_of(lacking, _NAMED)}",
            "what cannot be read stays unknown, and the rules that need it do not judge",
            "apply the roles of this version again: rollcall manifests rbac, or helm upgrade",
        )


def _missing(rule: reading.Manifest, granted: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    verbs = {"list", "watch"} & set(rule["verbs"])
    every = list(granted)
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            if any(not any(_grants(granted_rule, group, resource, verb) for granted_rule in every) for verb in verbs):
                yield f"{resource}.{group}" if group else resource


def _grants(rule: Mapping[str, Any], group: str, resource: str, verb: str) -> bool:
    return all(
        needed in (held := reading.sequence(rule.get(field))) or _EVERY in held
        for field, needed in (("apiGroups", group), ("resources", resource), ("verbs", verb))
    )


# A Date header has a resolution of one second, and a response takes time.
_TOLERATED = timedelta(seconds=5)
# Certificates are backdated by this much.
_TOO_FAR = timedelta(minutes=5)


@diagnosis.check(
    "clocks/agree",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(clocks=(ClockOffset("the API server", 0.4),)),
    fails=lambda: diagnosis.installed(clocks=(ClockOffset("the API server", -412.0),)),
)
def clocks_agree(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The clocks of the API server and of Rollcall's endpoints agree with the clock here, and no Lease was renewed in
    the future. The clocks are read from the Date of the answers. If they differ by five minutes, a new certificate is
    not valid yet.

    Source: RFC 9110, Date; Kubernetes API reference, coordination.k8s.io/v1.
    """
    for clock in snapshot.clocks:
        if abs(clock.ahead) > _TOLERATED.total_seconds():
            yield _clock_difference(f"the clock of {clock.whose}", clock.ahead)
    lease = snapshot.single(LEASE)
    renewed = None if lease is None else reading.text(reading.mapping(lease.get("spec")).get("renewTime"))
    if renewed is not None:
        ahead = (datetime.fromisoformat(renewed) - snapshot.now).total_seconds()
        if ahead > _TOLERATED.total_seconds():
            yield _clock_difference(
                f"the clock of the process that renewed Lease {snapshot.namespace}/{LEASE_NAME}", ahead
            )


def _clock_difference(where: str, ahead: float) -> diagnosis.Symptom:
    far = abs(ahead) > _TOO_FAR.total_seconds()
    return diagnosis.Symptom(
        where,
        f"it is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the clock here",
        "a new certificate is not valid yet there, or an expired one is still accepted"
        if far
        else "ages and dates are wrong",
        "synchronise both machines with a time server (NTP)",
        diagnosis.Severity.ERROR if far else None,
    )
