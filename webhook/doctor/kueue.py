"""Checks of Kueue's webhooks beside Rollcall's, and how Kueue is found in a cluster.

Source: kubernetes-sigs/kueue v0.19.0, config/components/webhook and charts/kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.controllers import KUEUE, TRAINER
from webhook.doctor.deployments import ConfigurationFile
from webhook.doctor.examples import deployment, installed, namespace, webhook_of
from webhook.doctor.neighbours import KUEUE as KUEUE_WEBHOOKS
from webhook.doctor.neighbours import hooks_of
from webhook.doctor.parts import DEPLOYMENTS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from webhook.doctor.selectors import is_about, namespace_labels
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import LABELS, NAMESPACE
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.reading import Manifest, mapping
from webhook.model.record import OPTED_OUT, SCHEDULER_LABEL
from webhook.model.selectors import NAMESPACE_NAME, selects
from webhook.model.version import Version

_MUTATING = "MutatingWebhookConfiguration"
_NAME = "kueue-mutating-webhook-configuration"
# The first series that contains pull request 15213: the webhook writes its patch once.
_WRITES_ONCE = Version(0, 20)
# The first series of Kueue and of Trainer that go together; those before them do, too.
_TOGETHER = Version(0, 20), Version(2, 3)


def is_kueue(snapshot: Snapshot, deployment: Manifest) -> bool:
    """Whether a Deployment is Kueue's: by its image, in the namespace that Kueue's webhook configurations name, because
    only an administrator writes these. Raises `FactsUnavailable`.
    """
    if not any(True for _ in KUEUE.tags(deployment)):
        return False
    named = {
        mapping(mapping(hook.get("clientConfig")).get("service")).get("namespace")
        for part in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for raw in snapshot.all(part)
        if KUEUE_WEBHOOKS.registered(raw)
        for hook in hooks_of(raw)
    }
    return key_of(deployment)[0] in named


KUEUE_CONFIGURATION = ConfigurationFile("Kueue's Configuration", "config.kueue.x-k8s.io", "Configuration", is_kueue)


def kueues(snapshot: Snapshot) -> Iterator[Manifest]:
    """The Deployments of Kueue. Raises `FactsUnavailable`."""
    return (raw for raw in snapshot.all(DEPLOYMENTS) if is_kueue(snapshot, raw))


def running_kueue(tag: str = "v0.19.0", **fields: Any) -> Manifest:
    """An example: the Deployment of Kueue."""
    return deployment("kueue-controller-manager", f"registry.k8s.io/kueue/kueue:{tag}", "kueue-system", **fields)


def kueue_webhook(hook: str, plural: str, group: str = "", **fields: Any) -> Manifest:
    """An example: Kueue's mutating configuration with one webhook, for the creation of one kind."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": ["CREATE"]}
    service = {"service": {"namespace": "kueue-system", "name": "kueue-webhook-service"}}
    return webhook_of(_MUTATING, _NAME, hook, rules=[rule], clientConfig=service, **fields)


def _kueues_webhooks(snapshot: Snapshot) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mutating webhooks of Kueue, each with its place."""
    for raw in snapshot.all(MUTATING_WEBHOOKS):
        if KUEUE_WEBHOOKS.registered(raw):
            for hook in hooks_of(raw):
                yield f"{_MUTATING} {name_of(raw)}, {hook.get('name')}", hook


def _of_train_jobs(policy: str) -> Manifest:
    return kueue_webhook("mtrainjob.kb.io", "trainjobs", "trainer.kubeflow.org", reinvocationPolicy=policy)


@check(
    "kueue/reinvocation",
    passes=lambda: installed(_of_train_jobs("Never"), namespace("team-b", scheduler="koord-scheduler")),
    fails=lambda: installed(_of_train_jobs("IfNeeded"), namespace("team-b", scheduler="koord-scheduler")),
)
def reinvocation(snapshot: Snapshot) -> Symptoms:
    """Kueue's webhook for TrainJobs has the reinvocationPolicy Never. In Kueue up to 0.19 it adds an entry to
    `runtimePatches` each time it is called, and two entries of one manager are refused. With IfNeeded the API server
    calls it again if Rollcall changes the TrainJob, which it does if the label rollcall.dev/scheduler is on the
    namespace only. Without such a namespace the finding is a note.

    Source: kubernetes-sigs/kueue, issue 15210 and pull request 15213; pkg/controller/jobs/trainjob/trainjob_webhook.go.
    """
    if any(release >= _WRITES_ONCE for raw in kueues(snapshot) for release in KUEUE.releases(raw)):
        return
    opted_in = [
        name_of(raw) for raw in snapshot.all(NAMESPACES) if labels_of(raw).get(SCHEDULER_LABEL, OPTED_OUT) != OPTED_OUT
    ]
    for where, hook in _kueues_webhooks(snapshot):
        if hook.get("reinvocationPolicy") == "IfNeeded" and is_about(dict(hook), *_TRAIN_JOB_CREATED):
            said = f"; namespaces with the label: {first_of(sorted(opted_in))}" if opted_in else ""
            yield Symptom(
                where,
                f"its reinvocationPolicy is IfNeeded{said}",
                "it runs twice on a TrainJob that gets its scheduler from its namespace, and adds its entry to "
                "runtimePatches twice: the API server refuses the TrainJob",
                "set reinvocationPolicy: Never below mutatingWebhook in the values of Kueue's chart, install a Kueue "
                f"with pull request 15213, or set the label {SCHEDULER_LABEL} on the TrainJobs themselves",
                None if opted_in else Level.NOTE,
            )


_TRAIN_JOB_CREATED = ("trainer.kubeflow.org", "trainjobs", "CREATE")


def _trainer(tag: str) -> Manifest:
    image = f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{tag}"
    return deployment("kubeflow-trainer-controller-manager", image, "kubeflow-system")


def _with_trainer(kueue: str, trainer: str) -> Snapshot:
    return installed(running_kueue(kueue), kueue_webhook("mpod.kb.io", "pods"), _trainer(trainer))


@check(
    "kueue/trainer",
    level=Level.WARNING,
    passes=lambda: _with_trainer("v0.20.0", "v2.3.0"),
    fails=lambda: _with_trainer("v0.20.0", "v2.2.1"),
)
def trainer(snapshot: Snapshot) -> Symptoms:
    """Kueue and Trainer run in releases that go together. Kueue computes the pods of a TrainJob with the code of one
    release of Trainer: with 2.2 up to 0.19, with 2.3 from 0.20 on. Trainer 2.2 and 2.3 have no compatible API. The
    releases are read from the tags of the images; other tags are not judged. Without TrainJobs among the frameworks of
    the `kueue:` block nothing is checked.

    Source: kubernetes-sigs/kueue, CHANGELOG-0.20 (pull request 14504); go.mod of v0.19.0 and of the main branch.
    """
    if not snapshot.settings.kueue.integrates("TrainJob"):
        return
    releases = [release for raw in kueues(snapshot) for release in KUEUE.releases(raw)]
    of_kueue, of_trainer = _TOGETHER
    for raw in snapshot.all(DEPLOYMENTS):
        for runs in TRAINER.releases(raw):
            for release in releases:
                if (release >= of_kueue) is not (runs >= of_trainer):
                    goes = "2.3 or a later one" if release >= of_kueue else "2.2"
                    yield Symptom(
                        f"Deployment {'/'.join(key_of(raw))}",
                        f"Trainer runs in release {runs}, and Kueue in {release}",
                        "Kueue computes the pods of TrainJobs with the code of another release of Trainer: it may "
                        "count other pods than Trainer makes, or write what Trainer does not read",
                        f"install Trainer {goes} beside this Kueue",
                    )


def _of_pods(*left_out: str) -> Manifest:
    outside = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["kube-system", "kueue-system", *left_out]}
    return kueue_webhook("mpod.kb.io", "pods", namespaceSelector={"matchExpressions": [outside]})


@check(
    "kueue/scope",
    level=Level.WARNING,
    passes=lambda: installed(_of_pods(NAMESPACE)),
    fails=lambda: installed(_of_pods()),
)
def scope(snapshot: Snapshot) -> Symptoms:
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
            yield Symptom(
                where,
                f"it covers the namespace {snapshot.namespace}, and its failurePolicy is Fail",
                "while Kueue is down no pod of Rollcall can be created, so a restart of Rollcall waits for Kueue",
                f"exclude {snapshot.namespace} in managedJobsNamespaceSelector of Kueue's chart, or in the webhook's "
                "namespaceSelector",
            )
