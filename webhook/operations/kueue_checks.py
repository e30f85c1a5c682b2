"""Checks of Kueue: its webhooks beside Rollcall's, the `kueue:` block of the configuration against the installed
Kueue, and Rollcall's own setting that deletes pods beside a Kueue that keeps them.

Kueue reads its Configuration from a file, which is in a ConfigMap that its Deployment mounts. Source:
kubernetes-sigs/kueue v0.19.0, config/components/webhook, charts/kueue, apis/config/{v1beta1,v1beta2} (types, defaults,
conversion), pkg/util/waitforpodsready.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.config.kueue_section import seconds_of
from webhook.config.sections import DURATION_PATTERN
from webhook.installation.names import LABELS, NAMESPACE
from webhook.model.kueue import FRAMEWORKS, INSTALLED, KueueSettings
from webhook.model.kueue_objects import LOCAL_QUEUE_KIND
from webhook.model.pod_template import Pod
from webhook.model.projections import POD_CLIQUE_SETS, key_of, labels_of, name_of
from webhook.model.quantity import Version
from webhook.model.reading import NAMESPACE_NAME, Malformed, Manifest, flag, integer, mapping, selects, sequence, text
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.operations import diagnosis
from webhook.operations.neighbour_checks import KUEUE_WEBHOOKS, hooks_of
from webhook.operations.scheduler_checks import KUEUE_CONTROLLER, TRAINER
from webhook.operations.snapshot import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    ConfigurationFile,
    Snapshot,
    is_about,
    namespace_labels,
    pod_of,
    require_read,
)

_MUTATING = "MutatingWebhookConfiguration"
_NAME = "kueue-mutating-webhook-configuration"
# The first series that contains pull request 15213: the webhook writes its patch once.
_WRITES_ONCE = Version(0, 20)
# The first series of Kueue and of Trainer that go together; those before them do, too.
_TOGETHER = Version(0, 20), Version(2, 3)


def is_kueue(snapshot: Snapshot, deployment: Manifest) -> bool:
    """Returns whether a Deployment is Kueue's: by its image, in the namespace that Kueue's webhook configurations name,
    because only an administrator writes these. Raises `FactsUnavailable`.
    """
    if not any(True for _ in KUEUE_CONTROLLER.tags(deployment)):
        return False
    namespaces = {
        mapping(mapping(hook.get("clientConfig")).get("service")).get("namespace")
        for part in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for raw in snapshot.all(part)
        if KUEUE_WEBHOOKS.registered(raw)
        for hook in hooks_of(raw)
    }
    return key_of(deployment)[0] in namespaces


KUEUE_CONFIGURATION = ConfigurationFile("Kueue's Configuration", "config.kueue.x-k8s.io", "Configuration", is_kueue)


def kueue_deployments(snapshot: Snapshot) -> Iterator[Manifest]:
    """Returns the Deployments of Kueue. Raises `FactsUnavailable`."""
    return (raw for raw in snapshot.all(DEPLOYMENTS) if is_kueue(snapshot, raw))


def running_kueue(tag: str = "v0.19.0", **fields: Any) -> Manifest:
    """Returns an example: the Deployment of Kueue."""
    return diagnosis.deployment(
        "kueue-controller-manager", f"registry.k8s.io/kueue/kueue:{tag}", "kueue-system", **fields
    )


def kueue_webhook(hook: str, plural: str, group: str = "", **fields: Any) -> Manifest:
    """Returns an example: Kueue's mutating configuration with one webhook, for the creation of one kind."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": ["CREATE"]}
    service = {"service": {"namespace": "kueue-system", "name": "kueue-webhook-service"}}
    return diagnosis.webhook_of(_MUTATING, _NAME, hook, rules=[rule], clientConfig=service, **fields)


def _kueues_webhooks(snapshot: Snapshot) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for raw in snapshot.all(MUTATING_WEBHOOKS):
        if KUEUE_WEBHOOKS.registered(raw):
            for hook in hooks_of(raw):
                yield f"{_MUTATING} {name_of(raw)}, {hook.get('name')}", hook


def _train_job_webhook(policy: str) -> Manifest:
    return kueue_webhook("mtrainjob.kb.io", "trainjobs", "trainer.kubeflow.org", reinvocationPolicy=policy)


@diagnosis.check(
    "kueue/reinvocation",
    passes=lambda: diagnosis.installed(
        _train_job_webhook("Never"), diagnosis.namespace("team-b", scheduler="koord-scheduler")
    ),
    fails=lambda: diagnosis.installed(
        _train_job_webhook("IfNeeded"), diagnosis.namespace("team-b", scheduler="koord-scheduler")
    ),
)
def reinvocation(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Kueue's webhook for TrainJobs has the reinvocationPolicy Never. In Kueue up to 0.19 it adds an entry to
    `runtimePatches` each time it is called, and two entries of one manager are refused. With IfNeeded the API server
    calls it again if Rollcall changes the TrainJob, which it does if the label rollcall.dev/scheduler is on the
    namespace only. Without such a namespace the finding is a note.

    Source: kubernetes-sigs/kueue, issue 15210 and pull request 15213; pkg/controller/jobs/trainjob/trainjob_webhook.go.
    """
    if any(
        release >= _WRITES_ONCE for raw in kueue_deployments(snapshot) for release in KUEUE_CONTROLLER.releases(raw)
    ):
        return
    opted_in = [
        name_of(raw) for raw in snapshot.all(NAMESPACES) if labels_of(raw).get(SCHEDULER_LABEL, OPTED_OUT) != OPTED_OUT
    ]
    for where, hook in _kueues_webhooks(snapshot):
        if hook.get("reinvocationPolicy") == "IfNeeded" and is_about(dict(hook), *_TRAIN_JOB_CREATED):
            affected = f"; namespaces with the label: {diagnosis.first_of(sorted(opted_in))}" if opted_in else ""
            yield diagnosis.Symptom(
                where,
                f"its reinvocationPolicy is IfNeeded{affected}",
                "it runs twice on a TrainJob that gets its scheduler from its namespace, and adds its entry to "
                "runtimePatches twice: the API server refuses the TrainJob",
                "set reinvocationPolicy: Never below mutatingWebhook in the values of Kueue's chart, install a Kueue "
                f"with pull request 15213, or set the label {SCHEDULER_LABEL} on the TrainJobs themselves",
                None if opted_in else diagnosis.Severity.NOTE,
            )


_TRAIN_JOB_CREATED = ("trainer.kubeflow.org", "trainjobs", "CREATE")


def _kueue_and_trainer(kueue: str, trainer: str) -> Snapshot:
    image = f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{trainer}"
    trainers = diagnosis.deployment("kubeflow-trainer-controller-manager", image, "kubeflow-system")
    return diagnosis.installed(running_kueue(kueue), kueue_webhook("mpod.kb.io", "pods"), trainers)


@diagnosis.check(
    "kueue/trainer",
    level=diagnosis.Severity.WARNING,
    passes=lambda: _kueue_and_trainer("v0.20.0", "v2.3.0"),
    fails=lambda: _kueue_and_trainer("v0.20.0", "v2.2.1"),
)
def trainer(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Kueue and Trainer run in releases that go together. Kueue computes the pods of a TrainJob with the code of one
    release of Trainer: with 2.2 up to 0.19, with 2.3 from 0.20 on. Trainer 2.2 and 2.3 have no compatible API. The
    releases are read from the tags of the images; other tags are not judged. Without TrainJobs among the frameworks of
    the `kueue:` block nothing is checked.

    Source: kubernetes-sigs/kueue, CHANGELOG-0.20 (pull request 14504); go.mod of v0.19.0 and of the main branch.
    """
    if not snapshot.settings.kueue.integrates("TrainJob"):
        return
    releases = [release for raw in kueue_deployments(snapshot) for release in KUEUE_CONTROLLER.releases(raw)]
    of_kueue, of_trainer = _TOGETHER
    for raw in snapshot.all(DEPLOYMENTS):
        for runs in TRAINER.releases(raw):
            for release in releases:
                if (release >= of_kueue) is not (runs >= of_trainer):
                    goes = "2.3 or a later one" if release >= of_kueue else "2.2"
                    yield diagnosis.Symptom(
                        f"Deployment {'/'.join(key_of(raw))}",
                        f"Trainer runs in release {runs}, and Kueue in {release}",
                        "Kueue computes the pods of TrainJobs with the code of another release of Trainer: it may "
                        "count other pods than Trainer makes, or write what Trainer does not read",
                        f"install Trainer {goes} beside this Kueue",
                    )


def _pod_webhook(*left_out: str) -> Manifest:
    outside = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["kube-system", "kueue-system", *left_out]}
    return kueue_webhook("mpod.kb.io", "pods", namespaceSelector={"matchExpressions": [outside]})


@diagnosis.check(
    "kueue/scope",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(_pod_webhook(NAMESPACE)),
    fails=lambda: diagnosis.installed(_pod_webhook()),
)
def scope(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Kueue's webhook for pods does not have to answer for Rollcall's own pods. By default it covers all namespaces
    except kube-system and Kueue's own, with the failurePolicy Fail. While Kueue is down, no pod of Rollcall can be
    created.

    Source: kubernetes-sigs/kueue, config/components/webhook (`mpod.kb.io`), charts/kueue
    (`managedJobsNamespaceSelector`).
    """
    namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    labels = namespace_labels(snapshot.namespace, namespaces)
    for where, hook in _kueues_webhooks(snapshot):
        required = hook.get("failurePolicy", "Fail") == "Fail" and is_about(dict(hook), "", "pods", "CREATE")
        if required and selects(hook.get("namespaceSelector"), labels) and selects(hook.get("objectSelector"), LABELS):
            yield diagnosis.Symptom(
                where,
                f"it covers the namespace {snapshot.namespace}, and its failurePolicy is Fail",
                "while Kueue is down no pod of Rollcall can be created, so a restart of Rollcall waits for Kueue",
                f"exclude {snapshot.namespace} in managedJobsNamespaceSelector of Kueue's chart, or in the webhook's "
                "namespaceSelector",
            )


_KIND = MUTATING_WEBHOOKS.resource.api.kind
# The defaults of v1beta2, and of v1beta1 where they differ.
_TIMEOUT, _OLD_TIMEOUT = 1800, 300
_OLD = "v1beta1"
_BASE, _MAX = 60, 3600
_FRAMEWORKS = ("batch/job",)
# A longer value would make the line unreadable.
_LONGEST = 200


class InstalledKueue(NamedTuple):
    """Kueue's Configuration, the namespace that it runs in, its feature gates, and its release by the tag of its
    image.
    """

    configuration: Mapping[str, Any]
    namespace: str
    gates: Mapping[str, bool]
    release: Version | None

    @classmethod
    def read_from(cls, snapshot: Snapshot) -> InstalledKueue | None:
        """Returns what is installed; None if no Deployment mounts a Configuration. Raises `FactsUnavailable`."""
        configuration = None if snapshot.kueue is None else require_read(snapshot.kueue)
        deployment = next(kueue_deployments(snapshot), None)
        if configuration is None or deployment is None:
            return None
        gates = {name: value is True for name, value in mapping(configuration.get("featureGates")).items()}
        release = next(KUEUE_CONTROLLER.releases(deployment), None)
        return cls(configuration, key_of(deployment)[0], {**gates, **dict(_gates_of(deployment))}, release)


def _gates_of(deployment: Manifest) -> Iterator[tuple[str, bool]]:
    for container in map(mapping, sequence(pod_of(deployment).get("containers"))):
        for argument in map(str, sequence(container.get("args"))):
            name, _, value = argument.lstrip("-").partition("=")
            for gate in value.split(",") if name == "feature-gates" else ():
                gate_name, _, on = gate.partition("=")
                yield gate_name.strip(), on.strip().lower() == "true"


def settings_of(kueue: InstalledKueue) -> KueueSettings:
    """Returns what a Configuration states, with Kueue's own defaults. Raises `Malformed`."""
    configuration, gates = kueue.configuration, kueue.gates
    retention = mapping(mapping(configuration.get("objectRetentionPolicies")).get("workloads"))
    integrations = mapping(configuration.get("integrations"))
    selector = configuration.get("managedJobsNamespaceSelector")
    return KueueSettings(
        **_pods_ready(kueue),
        deletes_deactivated=retention.get("afterDeactivatedByKueue") is not None,
        scheduler_library=gates.get("SchedulerLibraryIntegration", False),
        topology_aware=gates.get("TopologyAwareScheduling", True),
        workload_timeouts=gates.get("WorkloadLevelWaitForPodsReady", False),
        max_not_ready=gates.get("WaitForPodsReadyMaxNotReady", False),
        counts_minimums=gates.get("BringYourOwnPodGroup", False),
        manage_without_queue_name=flag(configuration.get("manageJobsWithoutQueueName")),
        frameworks=frozenset(map(str, sequence(integrations.get("frameworks")) or _FRAMEWORKS)),
        managed_namespaces=_outside(kueue) if selector is None else dict(mapping(selector)),
    )


def _outside(kueue: InstalledKueue) -> Manifest:
    values = ["kube-system", text(kueue.configuration.get("namespace")) or kueue.namespace]
    return {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": values}]}


def _pods_ready(kueue: InstalledKueue) -> Manifest:
    """Returns how `waitForPodsReady` is set: v1beta2 waits unless a gate turns it off, v1beta1 only with `enable`."""
    block = mapping(kueue.configuration.get("waitForPodsReady"))
    old = str(kueue.configuration.get("apiVersion")).endswith(f"/{_OLD}")
    if kueue.gates.get("DisableWaitForPodsReady", False) or (old and not flag(block.get("enable"))):
        return {"pods_ready_seconds": None, "recovery_seconds": None}
    strategy = mapping(block.get("requeuingStrategy"))
    timeout = _seconds(block.get("timeout")) or (_OLD_TIMEOUT if old else _TIMEOUT)
    recovery = _seconds(block.get("recoveryTimeout"))
    blocks = block.get("blockAdmission")
    return {
        "pods_ready_seconds": timeout,
        # 0 turns it off.
        "recovery_seconds": timeout if recovery is None else recovery or None,
        "unscheduled_seconds": _seconds(block.get("unscheduledTimeout")) or None,
        "block_admission": old if blocks is None else flag(blocks),
        "backoff_limit": integer(strategy.get("backoffLimitCount")),
        "backoff_base_seconds": _or(integer(strategy.get("backoffBaseSeconds")), _BASE),
        "backoff_max_seconds": _or(integer(strategy.get("backoffMaxSeconds")), _MAX),
    }


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _seconds(value: Any) -> int | None:
    """Returns a duration as Go writes it, in whole seconds."""
    written = text(value)
    if written is None:
        return None
    if not re.search(DURATION_PATTERN, written):
        raise Malformed(value, "a duration")
    return seconds_of(written)


def _stated(settings: KueueSettings) -> dict[str, Any]:
    """Returns the settings by their place in Kueue's Configuration, which is that in the `kueue:` block."""
    values: dict[str, Any] = {"waitForPodsReady.enable": settings.pods_ready_seconds is not None}
    if settings.pods_ready_seconds is not None:
        values |= {
            "waitForPodsReady.timeout": f"{settings.pods_ready_seconds}s",
            "waitForPodsReady.recoveryTimeout": f"{settings.recovery_seconds or 0}s",
            "waitForPodsReady.unscheduledTimeout": f"{settings.unscheduled_seconds or 0}s",
            "waitForPodsReady.blockAdmission": settings.block_admission,
            "waitForPodsReady.requeuingStrategy.backoffLimitCount": settings.backoff_limit,
            "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": settings.backoff_base_seconds,
            "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": settings.backoff_max_seconds,
        }
    return {
        **values,
        "manageJobsWithoutQueueName": settings.manage_without_queue_name,
        "managedJobsNamespaceSelector": _unordered(settings.managed_namespaces),
        "integrations.frameworks": sorted(settings.frameworks & _ASKED_ABOUT),
        "featureGates.SchedulerLibraryIntegration": settings.scheduler_library,
        "featureGates.TopologyAwareScheduling": settings.topology_aware,
        "featureGates.WorkloadLevelWaitForPodsReady": settings.workload_timeouts,
        "featureGates.WaitForPodsReadyMaxNotReady": settings.max_not_ready,
        "featureGates.BringYourOwnPodGroup": settings.counts_minimums,
        "objectRetentionPolicies.workloads.afterDeactivatedByKueue": (
            "a duration" if settings.deletes_deactivated else None
        ),
    }


# Rules ask about no other framework.
_ASKED_ABOUT = frozenset(FRAMEWORKS.values())


def _unordered(selector: Mapping[str, Any]) -> Manifest:
    """Returns a label selector with its expressions and their values sorted."""
    expressions = [
        {
            "key": expression.get("key"),
            "operator": expression.get("operator"),
            "values": sorted(map(str, sequence(expression.get("values")))),
        }
        for expression in map(mapping, sequence(selector.get("matchExpressions")))
    ]
    return {
        "matchLabels": dict(mapping(selector.get("matchLabels"))),
        "matchExpressions": sorted(expressions, key=json.dumps),
    }


def _mounted(block: Manifest, tag: str = "v0.19.0") -> Snapshot:
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **block}
    return diagnosis.installed(running_kueue(tag), kueue_webhook("mpod.kb.io", "pods"), kueue=configuration)


_FRAMEWORKS_OF_MANIFESTS = {"integrations": {"frameworks": sorted(INSTALLED.frameworks)}}


@diagnosis.check(
    "kueue/configuration",
    level=diagnosis.Severity.WARNING,
    passes=lambda: _mounted(_FRAMEWORKS_OF_MANIFESTS),
    fails=lambda: _mounted({**_FRAMEWORKS_OF_MANIFESTS, "waitForPodsReady": {"timeout": "5m"}}),
)
def configuration(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The `kueue:` block of the configuration states what Kueue's Configuration says. Rules read the block, because
    Kueue's settings are no API object. The check reads the ConfigMap that Kueue's Deployment mounts, in v1beta1 or
    v1beta2, with the defaults of Kueue 0.19 and 0.20. The `version` of the block is compared with the tag of Kueue's
    image. If the ConfigMap or the Deployment is not found, the finding is a note.

    Source: kubernetes-sigs/kueue, apis/config/{v1beta1,v1beta2} (types and defaults).
    """
    name = _registered(snapshot)
    if name is None:
        return
    kueue = InstalledKueue.read_from(snapshot)
    if kueue is None:
        yield diagnosis.Symptom(
            name,
            "Kueue is installed, and no Deployment of its image with a ConfigMap was found",
            "rules read the kueue: block of the configuration, which could not be compared",
            "compare the block with the file that Kueue is started with",
            diagnosis.Severity.NOTE,
        )
        return
    stated = snapshot.settings.kueue.release
    if stated is not None and kueue.release is not None and stated[:2] != kueue.release[:2]:
        yield diagnosis.Symptom(
            "Kueue's image",
            f"it has the release {kueue.release}, and the kueue: block says version {stated.major}.{stated.minor}",
            "rules about Kueue use the block: they warn of what does not happen, or miss what does",
            "leave version out of the kueue: block: in a cluster, the API versions that Kueue serves show it",
        )
    theirs, ours = _stated(settings_of(kueue)), _stated(snapshot.settings.kueue)
    for place in [place for place in theirs if place in ours]:
        if theirs[place] != ours[place]:
            yield diagnosis.Symptom(
                f"{KUEUE_CONFIGURATION.called}, {place}",
                f"it is {_shown(theirs[place])}, and the kueue: block says {_shown(ours[place])}",
                "rules about Kueue use the block: they warn of what does not happen, or miss what does",
                f"write {place} into the kueue: block as it is in Kueue's Configuration",
            )


def _shown(value: Any) -> str:
    shown = json.dumps(value, separators=(", ", ": "))
    return shown if len(shown) <= _LONGEST else "another one"


def _registered(snapshot: Snapshot) -> str | None:
    return next(
        (f"{_KIND} {name_of(raw)}" for raw in snapshot.all(MUTATING_WEBHOOKS) if KUEUE_WEBHOOKS.registered(raw)), None
    )


_SERVED = frozenset({LOCAL_QUEUE_KIND.api, POD_CLIQUE_SETS.resource.api})


@diagnosis.check(
    "kueue/escapes",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(apis=_SERVED),
    fails=lambda: diagnosis.installed(
        apis=_SERVED,
        settings=diagnosis.configured(escapes={"delete": ["stale"]}, remedies={"causes": ["oldMembership"]}),
    ),
)
def escapes(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Rollcall deletes no pods where Kueue holds pods. Kueue's finalizer keeps a deleted pod until it has
    ended, and Kueue waits for a pod in its place.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod (`PodFinalizer`, WaitingForReplacementPods).
    """
    settings = snapshot.settings
    deleting = (
        ("escapes.delete", settings.deleted_escapes),
        ("remedies.causes", settings.remedies.causes & {"forgotten", "oldMembership"}),
    )
    if LOCAL_QUEUE_KIND.api not in snapshot.served():
        return
    if not settings.kueue.integrates(Pod.kind):
        return
    for key, values in deleting:
        if values:
            yield diagnosis.Symptom(
                f"the configuration, {key}",
                f"Rollcall deletes pods ({', '.join(sorted(values))}), and Kueue can hold pods",
                "Kueue's finalizer keeps a pod that Rollcall deletes, and its Workload waits for another pod",
                f"remove {key}, or remove pod from Kueue's integrations.frameworks and from the section kueue",
            )
