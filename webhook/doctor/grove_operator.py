"""Checks of Grove: its generation, and the configuration of its operator.

Source: ai-dynamo/grove, operator/api/config, operator/charts (Deployment `grove-operator`), operator/internal/webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.lpx.backend import LpxBackend
from webhook.doctor.accounts import reconciler_accounts, user_of
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.deployments import ConfigurationFile, pod_of
from webhook.doctor.examples import configured, deployment, installed, served, webhook_of
from webhook.doctor.parts import DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from webhook.doctor.snapshot import Snapshot, known
from webhook.installation.names import RECONCILER
from webhook.model import grove
from webhook.model.capabilities import Capability
from webhook.model.projections import POD_CLIQUE_SETS, TOPOLOGY_BINDINGS, name_of
from webhook.model.reading import Manifest, flag, mapping, sequence, text
from webhook.model.users import service_account
from webhook.validators.selection import DEFAULT_SCHEDULER

_WHERE = "Grove's OperatorConfiguration"
# The name of the Deployment and of its container in Grove's chart.
_OPERATOR = "grove-operator"


def is_operator(deployment: Manifest) -> bool:
    """Whether a Deployment has the name or the container of Grove's operator."""
    return _OPERATOR in {
        name_of(deployment),
        *(mapping(container).get("name") for container in sequence(pod_of(deployment).get("containers"))),
    }


_GROUP, _KIND = "operator.config.grove.io", "OperatorConfiguration"
OPERATOR_CONFIGURATION = ConfigurationFile(_WHERE, _GROUP, _KIND, lambda _, raw: is_operator(raw))


def _operator(**sections: Any) -> Manifest:
    return {"apiVersion": f"{_GROUP}/v1alpha1", "kind": _KIND, **sections}


def _scheduling(default: str, *profiles: str) -> Manifest:
    return _operator(scheduler={"defaultProfileName": default, "profiles": [{"name": name} for name in profiles]})


@check(
    "grove/schedulers",
    passes=lambda: installed(operator=_scheduling(DEFAULT_SCHEDULER, DEFAULT_SCHEDULER)),
    fails=lambda: installed(operator=_scheduling("kai-scheduler", DEFAULT_SCHEDULER, "kai-scheduler")),
)
def schedulers(snapshot: Snapshot) -> Symptoms:
    """Grove's own backends leave the gangs to Rollcall. If Grove's default is volcano or kai-scheduler, Grove itself
    writes the PodGroups of every set that names no scheduler, and Rollcall does not. If Grove only enables one of them,
    this holds for sets whose pod templates name it, and the finding is a note. Grove v0.1.0-alpha.13 enables
    kai-scheduler without being asked. If Grove's default is any other scheduler, such as that of a profile of the type
    External, Rollcall's default must be the same: Grove puts the name on the pods, and Rollcall leaves a pod that names
    another scheduler than its record. For lpx-scheduler this is a note, because it reads Grove's PodGangs itself.

    Source: ai-dynamo/grove, operator/api/config (scheduler profiles), operator/internal/scheduler/{volcano,kai};
    docs/proposals/787-external-scheduler-integration (d5632a9c).
    """
    settings = mapping(_configuration(snapshot).get("scheduler"))
    default = text(settings.get("defaultProfileName")) or DEFAULT_SCHEDULER
    profiles = [mapping(profile) for profile in sequence(settings.get("profiles"))]
    names = [text(profile.get("name")) for profile in profiles]
    if default in grove.WRITERS:
        yield Symptom(
            f"{_WHERE}, scheduler.defaultProfileName",
            default,
            "Grove writes the PodGroups of every set that names no scheduler, and Rollcall does not make its "
            "own, even if it recorded another scheduler: that scheduler never sees the gang",
            f"set defaultProfileName: {DEFAULT_SCHEDULER}; Rollcall then chooses the scheduler, also {default}",
            # If no other scheduler can be chosen, Grove and Rollcall mean the same gangs.
            None if set(snapshot.settings.profiles) - {default, DEFAULT_SCHEDULER} else Level.NOTE,
        )
    elif default not in {DEFAULT_SCHEDULER, snapshot.settings.default}:
        record = snapshot.settings.default
        in_grove = f"set defaultProfileName: {DEFAULT_SCHEDULER} in Grove's configuration"
        yield Symptom(
            f"{_WHERE}, scheduler.defaultProfileName",
            default,
            f"Grove puts it on the pods of every set that names no scheduler, and Rollcall records {record} for these: "
            f"it leaves such pods as they are, and {unseen(default, record)}",
            f"{in_grove}, or {default} in Rollcall's"
            if default in snapshot.settings.profiles
            else f"{in_grove}; Rollcall has no profile {default}",
            Level.NOTE if default == LpxBackend.name else None,
        )
    for name in names:
        if name in grove.WRITERS and name != default:
            yield Symptom(
                f"{_WHERE}, scheduler.profiles",
                f"{name} is one of them",
                _written_by_grove(name, ours=name in snapshot.settings.profiles),
                f"remove it if Rollcall should write them; keep it if {name} should get those that Grove writes",
                Level.NOTE,
            )
    for index, external in enumerate(profiles):
        if external.get("type") == "External":
            yield from _external(f"{_WHERE}, scheduler.profiles[{index}]", external, snapshot)


def unseen(scheduler: str, record: str) -> str:
    """Say what becomes of a gang whose pods name another scheduler than its record."""
    if scheduler == LpxBackend.name:
        return f"{scheduler} starts the gang from Grove's PodGang: what Rollcall makes for {record} is not used"
    return f"{record}, which Rollcall makes the gang for, never sees it"


def _external(where: str, external: Mapping[str, Any], snapshot: Snapshot) -> Symptoms:
    """Yield what is to know about a profile of a scheduler that Grove has no backend for."""
    name = text(external.get("name")) or ""
    profile = snapshot.settings.profiles.get(name)
    if profile is None:
        yield Symptom(
            f"{where}.name",
            name,
            "Grove accepts sets whose pod templates name it, and Rollcall refuses these: it has no such profile",
            "remove it from Grove's configuration, or add it to Rollcall's if there is a backend of that name",
            Level.NOTE,
        )
        return
    packs = profile.backend.capabilities.get(Capability.TOPOLOGY_WORKLOAD)
    if packs is None or not packs.supported or flag(mapping(external.get("config")).get("topologyConstraints")):
        return
    yield Symptom(
        f"{where}.config.topologyConstraints",
        f"it is off, and {name} of Rollcall's configuration can keep gangs together",
        f"Grove refuses each set that requires a topology and whose pod templates name {name}",
        "set it to true, or ignore this if no such set needs a topology",
        Level.NOTE,
    )


def _written_by_grove(name: str, *, ours: bool) -> str:
    said = f"Grove itself writes the PodGroups of sets whose pod templates name {name}, and Rollcall does not"
    return f"{said}; the profile {name} of Rollcall is for the other sets" if ours else said


def _configuration(snapshot: Snapshot) -> Mapping[str, Any]:
    return mapping(known(snapshot.operator) if snapshot.operator is not None else None)


EXEMPT = f"{_WHERE}, authorizer.exemptServiceAccountUserNames"


def authorized(snapshot: Snapshot, user: str) -> bool:
    """Whether Grove's authorizer lets a user change the pods of its gangs. Raises `FactsUnavailable`."""
    settings = mapping(_configuration(snapshot).get("authorizer"))
    return not flag(settings.get("enabled")) or user in sequence(settings.get("exemptServiceAccountUserNames"))


def authorizing(*exempt: str) -> Manifest:
    """An example: Grove's configuration with the authorizer, and the users that it exempts."""
    return _operator(authorizer={"enabled": True, "exemptServiceAccountUserNames": list(exempt)})


_GATED = {"name": "koord-scheduler", "gate": True}


@check(
    "grove/authorizer",
    passes=lambda: installed(
        settings=configured(_GATED),
        operator=authorizing("system:serviceaccount:rollcall-system:rollcall-reconciler"),
    ),
    fails=lambda: installed(settings=configured(_GATED), operator=authorizing()),
)
def authorizer(snapshot: Snapshot) -> Symptoms:
    """If Grove's authorizer is enabled, it lets Rollcall's reconciler change pods. Otherwise the pod gate cannot be
    removed. Not checked if no profile has `gate`.

    Source: ai-dynamo/grove, authorizer-webhook (UPDATE of pods).
    """
    if not any(profile.gate for profile in snapshot.settings.profiles.values()):
        return
    # If no reconciler is installed yet, the account that it will have.
    running = sorted(user_of(snapshot, account) for account in reconciler_accounts(snapshot) or {RECONCILER})
    missing = [user for user in running if not authorized(snapshot, user)]
    if missing:
        yield Symptom(
            EXEMPT,
            "the authorizer is enabled, and Rollcall's reconciler is not exempt",
            "Grove does not let it remove the gate rollcall.dev/gang-sync: pods with the gate never start",
            f"add {' and '.join(missing)}",
        )


@check(
    "grove/topology",
    level=Level.NOTE,
    passes=lambda: installed(
        apis=served(TOPOLOGY_BINDINGS.resource.api), operator=_operator(topologyAwareScheduling={"enabled": True})
    ),
    fails=lambda: installed(
        apis=served(TOPOLOGY_BINDINGS.resource.api), operator=_operator(topologyAwareScheduling={"enabled": False})
    ),
)
def topology(snapshot: Snapshot) -> Symptoms:
    """Grove honours topology. If topologyAwareScheduling is off, Grove refuses topology constraints at CREATE and
    writes none into PodGangs, whatever the scheduler supports.

    Source: ai-dynamo/grove, operator/api/config (topologyAwareScheduling).
    """
    configuration = _configuration(snapshot)
    settings = mapping(configuration.get("topologyAwareScheduling"))
    if configuration and not flag(settings.get("enabled")) and TOPOLOGY_BINDINGS.resource.api in snapshot.served():
        yield Symptom(
            f"{_WHERE}, topologyAwareScheduling.enabled",
            "it is off",
            "sets with a topologyConstraint are refused, and existing ones run without it",
            "enable it if workloads must be kept together",
        )


_DEFAULTING, _VALIDATING = "podcliqueset-defaulting-webhook", "podcliqueset-validating-webhook"
_WEBHOOKS = ((MUTATING_WEBHOOKS, _DEFAULTING), (VALIDATING_WEBHOOKS, _VALIDATING))


@check(
    "grove/webhooks",
    level=Level.WARNING,
    passes=lambda: installed(
        webhook_of("MutatingWebhookConfiguration", _DEFAULTING, "pcs.defaulting.webhooks.grove.io"),
        webhook_of("ValidatingWebhookConfiguration", _VALIDATING, "pcs.validating.webhooks.grove.io"),
        operator=_operator(),
    ),
    fails=lambda: installed(operator=_operator()),
)
def webhooks(snapshot: Snapshot) -> Symptoms:
    """Grove's own webhooks are registered if its operator runs. Without them a set is stored without the defaults that
    Rollcall needs to judge it, and Grove refuses a wrong set only later.

    Source: ai-dynamo/grove, operator/charts/templates (*-webhook-config.yaml).
    """
    if not _configuration(snapshot) or POD_CLIQUE_SETS.resource.api not in snapshot.served():
        return
    for part, name in _WEBHOOKS:
        if not any(name_of(raw) == name for raw in snapshot.all(part)):
            yield Symptom(
                f"{part.resource.api.kind} {name}",
                "it is missing, but Grove's operator is installed",
                "sets are stored without Grove's defaults, or with settings that Grove cannot handle",
                "install Grove's chart again",
            )


def _operated(*operators: str, account: str = _OPERATOR) -> Snapshot:
    service = {"clientConfig": {"service": {"namespace": "grove-system", "name": _OPERATOR}}}
    return installed(
        webhook_of("MutatingWebhookConfiguration", _DEFAULTING, "pcs.defaulting.webhooks.grove.io", **service),
        deployment(_OPERATOR, "grove-operator:v0.1.0", "grove-system", serviceAccountName=account),
        settings=configured(tenancy={"groveOperators": list(operators)}),
    )


@check(
    "grove/operator-account",
    passes=lambda: _operated(service_account("grove-system", _OPERATOR)),
    fails=lambda: _operated(service_account("grove-system", _OPERATOR), account="grove"),
)
def operator_account(snapshot: Snapshot) -> Symptoms:
    """The service account of Grove's operator is in `tenancy.groveOperators`, by its full name. A `*` for the namespace
    is a warning: it also trusts accounts of that name that tenants create. Grove's operator is searched in the
    namespace that its webhook configurations name, because only an administrator writes these.

    Source: ai-dynamo/grove, operator/charts (Deployment and `serviceAccount.name`); webhook/model/users.py.
    """
    tenancy = snapshot.settings.tenancy
    for where, user in _accounts(snapshot):
        if not tenancy.is_grove_operator(user):
            yield Symptom(
                where,
                f"it runs as {user}, which is not in tenancy.groveOperators",
                "the pods that it creates are judged like those of a tenant: each is reported, and some are refused",
                f"set tenancy.groveOperators: [{user}]",
            )
        elif user not in tenancy.grove_operators:
            yield Symptom(
                "tenancy.groveOperators",
                f"it names the account in every namespace, but {where} runs as {user}",
                "a tenant who may create a service account of that name is treated as Grove's operator",
                f"set tenancy.groveOperators: [{user}]",
                Level.WARNING,
            )


def _accounts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The Deployments of Grove's operator, each with its user name. Raises `FactsUnavailable`."""
    hooks = [
        mapping(hook)
        for part, name in _WEBHOOKS
        for raw in snapshot.all(part)
        if name_of(raw) == name
        for hook in sequence(raw.get("webhooks"))
    ]
    namespaces = {mapping(mapping(hook.get("clientConfig")).get("service")).get("namespace") for hook in hooks}
    for raw in snapshot.all(DEPLOYMENTS) if hooks else ():
        namespace = mapping(raw.get("metadata")).get("namespace")
        if namespace in namespaces and is_operator(raw):
            account = text(pod_of(raw).get("serviceAccountName")) or "default"
            yield f"Deployment {namespace}/{name_of(raw)}", service_account(str(namespace), account)
