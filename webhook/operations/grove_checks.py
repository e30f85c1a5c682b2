"""Checks of Grove: its generation, who writes the gangs, the configuration of its operator, and others that gate the
pods of its gangs.

Grove v0.1.0-alpha.12 and later serve PodGangMaps. An upgrade to them renames the PodGangs of living sets. Source:
ai-dynamo/grove, operator/api/config, operator/charts (Deployment `grove-operator`), operator/internal/webhook.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.lpx import LpxBackend
from webhook.gangs.object_plan import GangObjectWriter
from webhook.installation.names import RECONCILER
from webhook.model import grove
from webhook.model.admission_request import service_account
from webhook.model.capabilities import Capability
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL
from webhook.model.grove import controller_in, is_pod_clique_set
from webhook.model.keys import ObjectKey
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import POD_CLIQUE_SETS, TOPOLOGY_BINDINGS, key_of, labels_of, name_of
from webhook.model.reading import Manifest, flag, mapping, sequence, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.operations import diagnosis
from webhook.operations.installation_checks import reconciler_accounts, user_of
from webhook.operations.kueue_checks import kueue_deployments, kueue_webhook, running_kueue
from webhook.operations.releases import Release
from webhook.operations.snapshot import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    POD_CLIQUE_SETS_PART,
    POD_GANGS,
    VALIDATING_WEBHOOKS,
    ConfigurationFile,
    Snapshot,
    gang_objects,
    images,
    pod_of,
    require_read,
)
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

_MAPS = POD_GANG_MAPS.resource.api
# How many of several similar objects are named.
_NAMED = 5


@diagnosis.check(
    "grove/migration",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo")),
    fails=lambda: diagnosis.installed(
        {**diagnosis.pod_clique_set("demo"), "status": {"conditions": [{"type": grove.MIGRATING, "status": "True"}]}},
        apis=diagnosis.served(_MAPS),
    ),
)
def migration(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No PodCliqueSet is in the middle of Grove's migration to PodGangMaps. Until it ends, old and new PodGangs exist
    next to each other, and pods that are replaced may wait.

    Source: ai-dynamo/grove, pull request 778 (condition PodGangMigrationInProgress).
    """
    names: dict[str, list[str]] = {}
    for raw in snapshot.all(POD_CLIQUE_SETS_PART):
        conditions = map(mapping, sequence(mapping(raw.get("status")).get("conditions")))
        if any(
            (condition.get("type"), condition.get("status")) == (grove.MIGRATING, "True") for condition in conditions
        ):
            where, name = key_of(raw)
            names.setdefault(where, []).append(name)
    for where, set_names in sorted(names.items()):
        yield diagnosis.Symptom(
            f"Namespace {where}",
            f"Grove is migrating PodCliqueSets: {diagnosis.first_of(sorted(set_names), _NAMED)}",
            "until the migration ends, pods that are replaced may wait",
            "wait until it ends; if it does not, read the log of Grove's operator; do not downgrade Grove meanwhile",
        )


def _pod_group(name: str, owner_kind: str, owner_group: str) -> Manifest:
    labels = {grove.LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL, grove.LABEL_PODGANG: "demo-0"}
    pod_group = diagnosis.example_object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", name, labels, "team-a")
    owner = {"apiVersion": f"{owner_group}/v1alpha1", "kind": owner_kind, "name": "demo", "uid": "1"}
    pod_group["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return pod_group


def _objects(snapshot: Snapshot) -> Iterator[Manifest]:
    """Yields the gang objects that Rollcall wrote. A kind may be served in several versions."""
    for part in gang_objects(snapshot.settings):
        yield from snapshot.all(part)


def _pod_gang(name: str, scheduler: str) -> Manifest:
    labels = {grove.LABEL_SCHEDULER: scheduler}
    return diagnosis.example_object("scheduler.grove.io/v1alpha1", "PodGang", name, labels, "team-a")


def _gangs_of_grove(snapshot: Snapshot) -> dict[ObjectKey, str]:
    """Returns the PodGangs for which Grove's own backend is responsible, each with its scheduler."""
    labelled = ((key_of(raw), labels_of(raw).get(grove.LABEL_SCHEDULER)) for raw in snapshot.all(POD_GANGS))
    return {key: str(scheduler) for key, scheduler in labelled if scheduler in grove.WRITERS}


@diagnosis.check(
    "gangs/writer",
    level=diagnosis.Severity.NOTE,
    passes=lambda: diagnosis.installed(_pod_gang("demo-0", "default-scheduler")),
    fails=lambda: diagnosis.installed(_pod_gang("demo-0", "kai-scheduler")),
)
def writer(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Says for which gangs Rollcall writes no objects because Grove's own backend is responsible for them.

    Source: ai-dynamo/grove, operator/internal/scheduler/{volcano,kai}; label grove.io/scheduler-name on the PodGang.
    """
    for scheduler, number in sorted(Counter(_gangs_of_grove(snapshot).values()).items()):
        yield diagnosis.Symptom(
            f"{number} PodGang{'' if number == 1 else 's'} for {scheduler}",
            f"their writer is {GangObjectWriter.GROVE}",
            "Grove prepares their pods, and Rollcall writes nothing for them; it judges, explains and reports them",
            "nothing, if this is intended; else recreate each set with Rollcall's scheduler",
        )


@diagnosis.check(
    "gangs/two-writers",
    passes=lambda: diagnosis.installed(
        _pod_group("demo-0-worker", "PodCliqueSet", grove.GROUP), _pod_gang("demo-0", "default-scheduler")
    ),
    fails=lambda: diagnosis.installed(
        _pod_group("demo-0-worker", "PodCliqueSet", grove.GROUP),
        _pod_gang("demo-0", "kai-scheduler"),
        settings=diagnosis.configured({"name": "koord-scheduler"}, {"name": "kai-scheduler"}),
    ),
)
def two_writers(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No living gang has objects of Rollcall although Grove's own backend is now responsible for it. This happens if
    Grove's default profile changes while sets live that name no scheduler: Grove labels their PodGangs again, and
    prepares replacement pods for its own PodGroup.

    Source: ai-dynamo/grove, operator/internal/controller/podcliqueset (label grove.io/scheduler-name, written at every
    reconcile).
    """
    grove_s = _gangs_of_grove(snapshot)
    # After a change of the writer the label of Rollcall's objects stays as it is when Grove renames the PodGang.
    sets = {
        (key[0], str(labels_of(raw).get(grove.LABEL_PART_OF)))
        for raw in snapshot.all(POD_GANGS)
        if (key := key_of(raw)) in grove_s
    }
    both: dict[str, set[str]] = {}
    for raw in _objects(snapshot):
        where, podgang = key_of(raw)[0], str(labels_of(raw).get(grove.LABEL_PODGANG))
        owner = controller_in(mapping(raw.get("metadata")))
        of_set = owner is not None and is_pod_clique_set(owner) and (where, owner.name) in sets
        if of_set or (where, podgang) in grove_s:
            both.setdefault(where, set()).add(podgang)
    for where, names in sorted(both.items()):
        yield diagnosis.Symptom(
            f"Namespace {where}",
            "PodGangs of Grove's own backend have gang objects of Rollcall: "
            f"{diagnosis.first_of(sorted(names), _NAMED)}",
            "pods that are replaced join another group than the running ones, and no group is ever complete",
            "set Grove's defaultProfileName back; recreate the sets if they should get the other writer",
        )


def _recorded(scheduler: str) -> Snapshot:
    gang = _pod_gang("demo-0", "koord-scheduler")
    gang["metadata"]["labels"][grove.LABEL_PART_OF] = "demo"
    settings = diagnosis.configured({"name": "koord-scheduler"}, {"name": "volcano"})
    return diagnosis.installed(gang, diagnosis.pod_clique_set("demo", scheduler), settings=settings)


@diagnosis.check("gangs/scheduler", passes=lambda: _recorded("koord-scheduler"), fails=lambda: _recorded("volcano"))
def scheduler_of_gangs(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Where Grove puts the name of a scheduler on the pods of a set, the set is recorded for the same one. Grove does
    so if the templates name it, or if it is Grove's default (profiles of the type External, lpx-scheduler). Rollcall
    leaves pods as they are that name another scheduler than the record. Gangs of Grove's own backends are not meant.
    For lpx-scheduler this is a note, because it reads Grove's PodGangs itself.

    Source: ai-dynamo/grove, docs/proposals/787-external-scheduler-integration (d5632a9c); label
    grove.io/scheduler-name on the PodGang.
    """
    records = {key_of(raw): labels_of(raw).get(SCHEDULER_LABEL) for raw in snapshot.all(POD_CLIQUE_SETS_PART)}
    differing: dict[tuple[str, str, str], set[str]] = {}
    for raw in snapshot.all(POD_GANGS):
        stamped = labels_of(raw).get(grove.LABEL_SCHEDULER) or DEFAULT_SCHEDULER
        (where, _), name = key_of(raw), str(labels_of(raw).get(grove.LABEL_PART_OF))
        record = records.get((where, name))
        # Rollcall overwrites default-scheduler, which the API server writes as well.
        if record is not None and stamped not in {DEFAULT_SCHEDULER, record, *grove.WRITERS}:
            differing.setdefault((where, stamped, record), set()).add(name)
    for (where, stamped, record), names in sorted(differing.items()):
        is_ours = stamped in snapshot.settings.profiles
        labelled = f"with {stamped} in the label {SCHEDULER_LABEL}, or " if is_ours else ""
        yield diagnosis.Symptom(
            f"Namespace {where}",
            f"Grove puts {stamped} on the pods of PodCliqueSets that are recorded for {record}: "
            f"{diagnosis.first_of(sorted(names), _NAMED)}",
            f"Rollcall leaves these pods as they are, and {unseen_gang_reason(stamped, record)}",
            f"recreate each set {labelled}with {record} in every pod template, if Grove has a profile of that name",
            diagnosis.Severity.NOTE if stamped == LpxBackend.name else None,
        )


_WHERE = "Grove's OperatorConfiguration"
# The name of the Deployment and of its container in Grove's chart.
_OPERATOR = "grove-operator"


def is_operator(deployment: Manifest) -> bool:
    """Returns whether a Deployment has the name or the container of Grove's operator."""
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


@diagnosis.check(
    "grove/schedulers",
    passes=lambda: diagnosis.installed(operator=_scheduling(DEFAULT_SCHEDULER, DEFAULT_SCHEDULER)),
    fails=lambda: diagnosis.installed(operator=_scheduling("kai-scheduler", DEFAULT_SCHEDULER, "kai-scheduler")),
)
def schedulers(snapshot: Snapshot) -> diagnosis.Symptoms:
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
        yield diagnosis.Symptom(
            f"{_WHERE}, scheduler.defaultProfileName",
            default,
            "Grove writes the PodGroups of every set that names no scheduler, and Rollcall does not make its "
            "own, even if it recorded another scheduler: that scheduler never sees the gang",
            f"set defaultProfileName: {DEFAULT_SCHEDULER}; Rollcall then chooses the scheduler, also {default}",
            # If no other scheduler can be chosen, Grove and Rollcall mean the same gangs.
            None if set(snapshot.settings.profiles) - {default, DEFAULT_SCHEDULER} else diagnosis.Severity.NOTE,
        )
    elif default not in {DEFAULT_SCHEDULER, snapshot.settings.default}:
        record = snapshot.settings.default
        in_grove = f"set defaultProfileName: {DEFAULT_SCHEDULER} in Grove's configuration"
        yield diagnosis.Symptom(
            f"{_WHERE}, scheduler.defaultProfileName",
            default,
            f"Grove puts it on the pods of every set that names no scheduler, and Rollcall records {record} for these: "
            f"it leaves such pods as they are, and {unseen_gang_reason(default, record)}",
            f"{in_grove}, or {default} in Rollcall's"
            if default in snapshot.settings.profiles
            else f"{in_grove}; Rollcall has no profile {default}",
            diagnosis.Severity.NOTE if default == LpxBackend.name else None,
        )
    for name in names:
        if name in grove.WRITERS and name != default:
            others = f"; the profile {name} of Rollcall is for the other sets"
            yield diagnosis.Symptom(
                f"{_WHERE}, scheduler.profiles",
                f"{name} is one of them",
                f"Grove itself writes the PodGroups of sets whose pod templates name {name}, and Rollcall does not"
                f"{others if name in snapshot.settings.profiles else ''}",
                f"remove it if Rollcall should write them; keep it if {name} should get those that Grove writes",
                diagnosis.Severity.NOTE,
            )
    for index, external in enumerate(profiles):
        if external.get("type") == "External":
            yield from _external(f"{_WHERE}, scheduler.profiles[{index}]", external, snapshot)


def unseen_gang_reason(scheduler: str, record: str) -> str:
    """Says what becomes of a gang whose pods name another scheduler than its record."""
    if scheduler == LpxBackend.name:
        return f"{scheduler} starts the gang from Grove's PodGang: what Rollcall makes for {record} is not used"
    return f"{record}, which Rollcall makes the gang for, never sees it"


def _external(where: str, external: Mapping[str, Any], snapshot: Snapshot) -> diagnosis.Symptoms:
    """Yields what is to know about a profile of a scheduler that Grove has no backend for."""
    name = text(external.get("name")) or ""
    profile = snapshot.settings.profiles.get(name)
    if profile is None:
        yield diagnosis.Symptom(
            f"{where}.name",
            name,
            "Grove accepts sets whose pod templates name it, and Rollcall refuses these: it has no such profile",
            "remove it from Grove's configuration, or add it to Rollcall's if there is a backend of that name",
            diagnosis.Severity.NOTE,
        )
        return
    packs = profile.backend.capabilities.get(Capability.TOPOLOGY_WORKLOAD)
    if packs is None or not packs.supported or flag(mapping(external.get("config")).get("topologyConstraints")):
        return
    yield diagnosis.Symptom(
        f"{where}.config.topologyConstraints",
        f"it is off, and {name} of Rollcall's configuration can keep gangs together",
        f"Grove refuses each set that requires a topology and whose pod templates name {name}",
        "set it to true, or ignore this if no such set needs a topology",
        diagnosis.Severity.NOTE,
    )


def _configuration(snapshot: Snapshot) -> Mapping[str, Any]:
    return mapping(require_read(snapshot.operator) if snapshot.operator is not None else None)


EXEMPT = f"{_WHERE}, authorizer.exemptServiceAccountUserNames"


def authorized(snapshot: Snapshot, user: str) -> bool:
    """Returns whether Grove's authorizer lets a user change the pods of its gangs. Raises `FactsUnavailable`."""
    settings = mapping(_configuration(snapshot).get("authorizer"))
    return not flag(settings.get("enabled")) or user in sequence(settings.get("exemptServiceAccountUserNames"))


def authorizing(*exempt: str) -> Manifest:
    """Returns an example: Grove's configuration with the authorizer, and the users that it exempts."""
    return _operator(authorizer={"enabled": True, "exemptServiceAccountUserNames": list(exempt)})


_GATED = {"name": "koord-scheduler", "gate": True}


@diagnosis.check(
    "grove/authorizer",
    passes=lambda: diagnosis.installed(
        settings=diagnosis.configured(_GATED),
        operator=authorizing("system:serviceaccount:rollcall-system:rollcall-reconciler"),
    ),
    fails=lambda: diagnosis.installed(settings=diagnosis.configured(_GATED), operator=authorizing()),
)
def authorizer(snapshot: Snapshot) -> diagnosis.Symptoms:
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
        yield diagnosis.Symptom(
            EXEMPT,
            "the authorizer is enabled, and Rollcall's reconciler is not exempt",
            "Grove does not let it remove the gate rollcall.dev/gang-sync: pods with the gate never start",
            f"add {' and '.join(missing)}",
        )


@diagnosis.check(
    "grove/topology",
    level=diagnosis.Severity.NOTE,
    passes=lambda: diagnosis.installed(
        apis=diagnosis.served(TOPOLOGY_BINDINGS.resource.api),
        operator=_operator(topologyAwareScheduling={"enabled": True}),
    ),
    fails=lambda: diagnosis.installed(
        apis=diagnosis.served(TOPOLOGY_BINDINGS.resource.api),
        operator=_operator(topologyAwareScheduling={"enabled": False}),
    ),
)
def topology(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Grove honours topology. If topologyAwareScheduling is off, Grove refuses topology constraints at CREATE and
    writes none into PodGangs, whatever the scheduler supports.

    Source: ai-dynamo/grove, operator/api/config (topologyAwareScheduling).
    """
    configuration = _configuration(snapshot)
    settings = mapping(configuration.get("topologyAwareScheduling"))
    if configuration and not flag(settings.get("enabled")) and TOPOLOGY_BINDINGS.resource.api in snapshot.served():
        yield diagnosis.Symptom(
            f"{_WHERE}, topologyAwareScheduling.enabled",
            "it is off",
            "sets with a topologyConstraint are refused, and existing ones run without it",
            "enable it if workloads must be kept together",
        )


_DEFAULTING, _VALIDATING = "podcliqueset-defaulting-webhook", "podcliqueset-validating-webhook"
_WEBHOOKS = ((MUTATING_WEBHOOKS, _DEFAULTING), (VALIDATING_WEBHOOKS, _VALIDATING))


@diagnosis.check(
    "grove/webhooks",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(
        diagnosis.webhook_of("MutatingWebhookConfiguration", _DEFAULTING, "pcs.defaulting.webhooks.grove.io"),
        diagnosis.webhook_of("ValidatingWebhookConfiguration", _VALIDATING, "pcs.validating.webhooks.grove.io"),
        operator=_operator(),
    ),
    fails=lambda: diagnosis.installed(operator=_operator()),
)
def webhooks(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Grove's own webhooks are registered if its operator runs. Without them a set is stored without the defaults that
    Rollcall needs to judge it, and Grove refuses a wrong set only later.

    Source: ai-dynamo/grove, operator/charts/templates (*-webhook-config.yaml).
    """
    if not _configuration(snapshot) or POD_CLIQUE_SETS.resource.api not in snapshot.served():
        return
    for part, name in _WEBHOOKS:
        if not any(name_of(raw) == name for raw in snapshot.all(part)):
            yield diagnosis.Symptom(
                f"{part.resource.api.kind} {name}",
                "it is missing, but Grove's operator is installed",
                "sets are stored without Grove's defaults, or with settings that Grove cannot handle",
                "install Grove's chart again",
            )


def _operated(*operators: str, account: str = _OPERATOR) -> Snapshot:
    service = {"clientConfig": {"service": {"namespace": "grove-system", "name": _OPERATOR}}}
    return diagnosis.installed(
        diagnosis.webhook_of(
            "MutatingWebhookConfiguration", _DEFAULTING, "pcs.defaulting.webhooks.grove.io", **service
        ),
        diagnosis.deployment(_OPERATOR, "grove-operator:v0.1.0", "grove-system", serviceAccountName=account),
        settings=diagnosis.configured(tenancy={"groveOperators": list(operators)}),
    )


@diagnosis.check(
    "grove/operator-account",
    passes=lambda: _operated(service_account("grove-system", _OPERATOR)),
    fails=lambda: _operated(service_account("grove-system", _OPERATOR), account="grove"),
)
def operator_account(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The service account of Grove's operator is in `tenancy.groveOperators`, by its full name. A `*` for the namespace
    is a warning: it also trusts accounts of that name that tenants create. Grove's operator is searched in the
    namespace that its webhook configurations name, because only an administrator writes these.

    Source: ai-dynamo/grove, operator/charts (Deployment and `serviceAccount.name`); webhook/model/admission_request.py.
    """
    tenancy = snapshot.settings.tenancy
    for where, user in _accounts(snapshot):
        if not tenancy.is_grove_operator(user):
            yield diagnosis.Symptom(
                where,
                f"it runs as {user}, which is not in tenancy.groveOperators",
                "the pods that it creates are judged like those of a tenant: each is reported, and some are refused",
                f"set tenancy.groveOperators: [{user}]",
            )
        elif user not in tenancy.grove_operators:
            yield diagnosis.Symptom(
                "tenancy.groveOperators",
                f"it names the account in every namespace, but {where} runs as {user}",
                "a tenant who may create a service account of that name is treated as Grove's operator",
                f"set tenancy.groveOperators: [{user}]",
                diagnosis.Severity.WARNING,
            )


def _accounts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yields the Deployments of Grove's operator, each with its user name. Raises `FactsUnavailable`."""
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


# The first release with pull request 724.
_REMOVES_ONLY_ITS_GATE = Release("v0.1.0-alpha.12-rc1")


def _grove(tag: str) -> Manifest:
    return diagnosis.deployment("grove-operator", f"ghcr.io/ai-dynamo/grove/grove-operator:{tag}", "grove-system")


@diagnosis.check(
    "grove/gates",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(_grove("v0.1.0-alpha.12"), settings=diagnosis.configured(_GATED)),
    fails=lambda: diagnosis.installed(_grove("v0.1.0-alpha.11"), settings=diagnosis.configured(_GATED)),
)
def gates(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Grove's operator removes only its own gate from a pod. Before v0.1.0-alpha.12-rc1 it removed all gates, also
    those of Rollcall (`gate`) and of Kueue. Not checked if no profile has `gate` and Kueue is not installed. The
    release is read from the tag of the image; other tags are not judged.

    Source: ai-dynamo/grove, pull request 724; operator/internal/controller/podclique/components/pod/syncflow.go.
    """
    others = ["Rollcall"] if any(profile.gate for profile in snapshot.settings.profiles.values()) else []
    if next(kueue_deployments(snapshot), None) is not None:
        others.append("Kueue")
    for raw in snapshot.all(DEPLOYMENTS) if others else ():
        for tag in _tags(raw):
            yield diagnosis.Symptom(
                f"Deployment {'/'.join(key_of(raw))}",
                f"its image has the tag {tag}",
                f"this release removes all gates from a pod at once, also those of {' and '.join(others)}: a gang may "
                "start in part",
                f"upgrade Grove to {_REMOVES_ONLY_ITS_GATE} or later",
            )


def _tags(deployment: Manifest) -> Iterator[str]:
    for _, tag in images(deployment) if is_operator(deployment) else ():
        try:
            old = Release(tag) < _REMOVES_ONLY_ITS_GATE
        except ValueError:
            continue
        if old:
            yield tag


def _kueue_beside_grove(*exempt: str) -> Snapshot:
    kueue = running_kueue(serviceAccountName="kueue-controller-manager")
    return diagnosis.installed(kueue, kueue_webhook("mpod.kb.io", "pods"), operator=authorizing(*exempt))


@diagnosis.check(
    "grove/authorizer-kueue",
    level=diagnosis.Severity.WARNING,
    passes=lambda: _kueue_beside_grove("system:serviceaccount:kueue-system:kueue-controller-manager"),
    fails=_kueue_beside_grove,
)
def authorizer_kueue(snapshot: Snapshot) -> diagnosis.Symptoms:
    """If Grove's authorizer is enabled, it lets Kueue change pods. Kueue removes its gates from the pods of a
    PodCliqueSet that it queues, and deletes these pods to stop them. Only pods with a queue are concerned.

    Source: ai-dynamo/grove, authorizer-webhook (UPDATE of pods); kubernetes-sigs/kueue, pkg/controller/jobs/pod.
    """
    for raw in kueue_deployments(snapshot):
        account = text(pod_of(raw).get("serviceAccountName")) or "default"
        user = service_account(key_of(raw)[0], account)
        if not authorized(snapshot, user):
            yield diagnosis.Symptom(
                EXEMPT,
                "the authorizer is enabled, and Kueue is not exempt",
                "Grove does not let it remove its gates: pods of gangs that Kueue queues never start",
                f"add {user}",
            )
