"""Checks of other admission webhooks for the same pods, and of what is lost of Rollcall's changes before a member pod
would be stored.

Mutating webhooks run in the order of their names, so a later one can overwrite an earlier one. `rollcall doctor` asks
the API server to create pods of living gangs as dry runs. Source: Kubernetes documentation, "Dry-run" (a request goes
through every stage but storing) and "Dynamic Admission Control" (order and reinvocation); names as the systems' own
manifests have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.admission.pod_admission import mutate_pod
from webhook.backends.kai.keys import LABEL_QUEUE
from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.kube.workload_api import Generation
from webhook.errors import FactsUnavailable
from webhook.gangs.object_plan import holds
from webhook.installation.names import MUTATING
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.pod_template import Pod
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.quantity import Version
from webhook.model.reading import Malformed, Manifest, mapping, selects, sequence
from webhook.model.workload_record import SCHEDULER_LABEL, record_of
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.offline.expected_pods import expected_pods
from webhook.offline.translation import add_workloads, pod_of_clique
from webhook.operations import diagnosis
from webhook.operations.api_checks import pod_field
from webhook.operations.snapshot import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_CLIQUE_SETS_PART,
    DryRunAnswer,
    MemberPod,
    MemberTrial,
    Snapshot,
    Unread,
    is_about,
    namespace_labels,
    recorded_workloads,
    require_read,
)
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.workload_kinds import fact_of

_MUTATING = "MutatingWebhookConfiguration"


class Neighbour(NamedTuple):
    """A system whose configuration has `word` in its name or one of `hooks` among its webhooks, and what its pod
    webhook does.

    A Helm release or `fullnameOverride` gives Kueue's configuration any name; the names of its webhooks are fixed.
    """

    word: str
    name: str
    does: str
    hooks: frozenset[str] = frozenset()

    def registered(self, configuration: Manifest) -> bool:
        """Returns whether a webhook configuration is this system's."""
        name = name_of(configuration)
        if self.word in name.split("-") or name.startswith(self.word):
            return True
        return any(hook.get("name") in self.hooks for hook in hooks_of(configuration))


def hooks_of(configuration: Manifest) -> Iterator[Mapping[str, Any]]:
    """Returns the webhooks of a configuration."""
    return map(mapping, sequence(configuration.get("webhooks")))


KUEUE_WEBHOOKS = Neighbour(
    "kueue",
    "Kueue",
    "it gates pods and writes the queue into their labels",
    frozenset({"mclusterqueue.kb.io", "vclusterqueue.kb.io"}),
)
_KOORDINATOR = Neighbour(
    "koordinator", "Koordinator", "its ClusterColocationProfiles overwrite schedulerName, labels and priority"
)
# The names in their own manifests sort before m-rollcall. Kueue comes first: its webhooks for workloads of the others
# have the same names as theirs.
_IN_ANY_ORDER = (
    KUEUE_WEBHOOKS,
    Neighbour(
        "lws",
        "LeaderWorkerSet",
        "it writes the labels and annotations that identify a pod's group",
        frozenset({"mleaderworkerset.kb.io"}),
    ),
    Neighbour(
        "jobset",
        "JobSet",
        "it writes the placement of a JobSet's pods",
        frozenset({"mjobset.kb.io", "mutate-jobset-x-k8s-io-v1alpha2-jobset.x-k8s.io"}),
    ),
)
_KAI = Neighbour("kai", "KAI", "it prepares pods whose schedulerName is kai-scheduler, including GPU fractions")
_VOLCANO = Neighbour("volcano", "Volcano", "if it has resource groups, it sets schedulerName by namespace")


@diagnosis.check(
    "webhooks/order",
    passes=lambda: diagnosis.installed(
        diagnosis.webhook_of(_MUTATING, "mutating-kai-admission", "admission.kai-scheduler.svc")
    ),
    fails=lambda: diagnosis.installed(
        diagnosis.webhook_of(_MUTATING, "kai-admission", "admission.kai-scheduler.svc"),
        settings=diagnosis.configured({"name": KAI}),
    ),
)
def order(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Mutating webhooks for pods run in the order of their configurations' names. Koordinator's must run before
    Rollcall's, because it would overwrite its changes. KAI's must run after it: KAI's condition needs the schedulerName
    that Rollcall sets, and a webhook whose condition did not match is not called again. Those of Kueue, LeaderWorkerSet
    and JobSet may run in any order: the same is stored, but if they run later, Rollcall is called twice for each of
    these pods.

    Source: kai-scheduler/KAI-Scheduler, mutating-kai-admission (`scheduler-name-match`); koordinator-sh/koordinator,
    pkg/webhook/pod/mutating; volcano-sh/volcano, pkg/webhooks/admission/pods; kubernetes-sigs/lws, pkg/webhooks.
    """
    for raw, _ in pod_webhooks(snapshot):
        name = name_of(raw)
        where = f"{_MUTATING} {name}"
        if _KAI.registered(raw) and name < MUTATING:
            level = diagnosis.Severity.ERROR if KAI in snapshot.settings.profiles else diagnosis.Severity.NOTE
            observation = f"{_KAI.name}'s webhook runs before {MUTATING}"
            why = f"{_KAI.does}; it skips pods that get this schedulerName from Rollcall later"
            yield diagnosis.Symptom(
                where, observation, why, "give it the name of KAI's own manifests, mutating-kai-admission", level
            )
        elif name > MUTATING:
            if (
                late := next(
                    (neighbour for neighbour in (_KOORDINATOR, *_IN_ANY_ORDER) if neighbour.registered(raw)), None
                )
            ) is not None:
                yield _late(where, late)
            elif _VOLCANO.registered(raw):
                why = f"{_VOLCANO.does}, even if Rollcall has set another one"
                remedy = "check that no resource group of Volcano's admission names a namespace of other schedulers"
                yield diagnosis.Symptom(
                    where, f"Volcano's webhook runs after {MUTATING}", why, remedy, diagnosis.Severity.WARNING
                )


def _late(where: str, neighbour: Neighbour) -> diagnosis.Symptom:
    observation = f"{neighbour.name}'s webhook runs after {MUTATING}"
    remedy = f"give it the name of {neighbour.name}'s own manifests, which sorts before {MUTATING}"
    if neighbour is _KOORDINATOR:
        return diagnosis.Symptom(
            where, observation, f"{neighbour.does}; it overwrites what Rollcall has set before", remedy
        )
    why = f"{neighbour.does}; nothing is lost, but the API server calls Rollcall a second time for each of these pods"
    return diagnosis.Symptom(where, observation, why, remedy, diagnosis.Severity.NOTE)


@diagnosis.check(
    "webhooks/unknown-neighbour",
    level=diagnosis.Severity.NOTE,
    passes=lambda: diagnosis.installed(
        diagnosis.webhook_of(_MUTATING, "istio-sidecar-injector", "rev.namespace.sidecar-injector.istio.io")
    ),
    fails=lambda: diagnosis.installed(diagnosis.webhook_of(_MUTATING, "pod-defaults", "pods.example.com")),
)
def unknown_neighbour(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No unknown webhook changes the pods of gangs after Rollcall. Most webhooks add a container or a variable, which
    is fine. A webhook that writes schedulerName, labels of a group or gates takes pods out of their gangs.

    Source: Kubernetes documentation, "Dynamic Admission Control".
    """
    neighbours = (_KOORDINATOR, *_IN_ANY_ORDER, _KAI, _VOLCANO)
    for raw, hook in pod_webhooks(snapshot):
        name = name_of(raw)
        if name > MUTATING and not any(neighbour.registered(raw) for neighbour in neighbours) and _takes_gangs(hook):
            yield diagnosis.Symptom(
                f"{_MUTATING} {name}, {hook.get('name')}",
                f"it runs after {MUTATING} on pods of gangs",
                "if it overwrites a field of a pod's gang membership, nothing restores it",
                "check that it does not write schedulerName or the labels and annotations of a gang",
            )


def pod_webhooks(snapshot: Snapshot) -> Iterator[tuple[Manifest, Manifest]]:
    """Yields other systems' configurations that may change a pod at its creation, each with one webhook for it."""
    for raw in snapshot.all(MUTATING_WEBHOOKS):
        hooks = [dict(hook) for hook in hooks_of(raw)]
        about = [hook for hook in hooks if is_about(hook, "", "pods", "CREATE")]
        if (
            about
            and name_of(raw) != MUTATING
            and not any(str(hook["name"]).endswith(".rollcall.dev") for hook in hooks)
        ):
            yield raw, about[0]


_OF_GROVE: Mapping[str, str] = {
    grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
    grove.LABEL_PODGANG: "demo-0",
    grove.LABEL_PODCLIQUE: "demo-0-worker",
}


def _takes_gangs(hook: Manifest) -> bool:
    """Returns whether its objectSelector matches a pod made by Grove or a pod of an opted-in workload."""
    opted_in = {SCHEDULER_LABEL: "koord-scheduler"}
    return any(selects(hook.get("objectSelector"), labels) for labels in (_OF_GROVE, opted_in))


NAME = "rollcall-doctor"
# Not a valid scheduler name, so no backend can have it.
_NO_SCHEDULER = "no-such-scheduler"


def refused_set(namespace: str) -> Manifest:
    """Returns a PodCliqueSet that Grove accepts and Rollcall refuses under every configuration."""
    container = {"name": "main", "image": "example.com/main"}
    spec = {"roleName": "worker", "replicas": 1, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        # Grove's own backend for KAI refuses a set without a queue. It does not look for the queue.
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {SCHEDULER_LABEL: _NO_SCHEDULER, LABEL_QUEUE: NAME},
        },
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": spec}]}},
    }


def namespace_asked_about(snapshot: Snapshot) -> str:
    """Returns a namespace in which the webhook for PodCliqueSets is called, if possible `default`."""
    hook = snapshot.hook("podcliquesets.mutate.rollcall.dev")
    selector: Any = None if hook is None else hook.get("namespaceSelector")
    try:
        namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    except FactsUnavailable:
        return "default"
    every = sorted(namespaces, key=lambda name: (name != "default", name))
    return next((name for name in every if selects(selector, namespace_labels(name, namespaces))), "default")


def grouped_pod(namespace: str, spoken: Generation) -> Manifest:
    """Returns a pod of a group; the strictest Pod Security level admits it. The group need not exist."""
    group = {"name": NAME, "podGroup": "main"} if spoken is Generation.V1ALPHA1 else {"podGroupName": NAME}
    inside = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            pod_field(spoken): group,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "main", "image": "example.com/main", "securityContext": inside}],
        },
    }


# How many workloads of a scheduler are tried. The pods of one may be refused for a reason of their namespace, such as a
# quota that its own pods use.
_WORKLOADS = 3
# The rules about who creates a pod. They warn by default.
_ABOUT_AUTHORS = ("grove/foreign-pod", "owner/foreign-pod")


def member_pods(snapshot: Snapshot) -> dict[str, list[MemberPod]]:
    """Returns pods to try, by scheduler: each of another workload whose pods the API server sends to Rollcall.
    Raises `FactsUnavailable`.
    """
    trials: dict[str, list[MemberPod]] = {name: [] for name in snapshot.settings.profiles}
    facts, namespaces = snapshot.facts(), {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    hooks = [
        dict(hook)
        for hook in map(mapping, sequence((snapshot.configuration(MUTATING_WEBHOOKS) or {}).get("webhooks")))
        if is_about(dict(hook), "", "pods", "CREATE")
    ]
    for part in (POD_CLIQUE_SETS_PART, *recorded_workloads(snapshot.settings)):
        for raw in sorted(snapshot.all(part), key=key_of):
            namespace, scheduler = key_of(raw)[0], str(labels_of(raw).get(SCHEDULER_LABEL))
            labels = namespace_labels(namespace, namespaces)
            callers = [hook for hook in hooks if selects(hook.get("namespaceSelector"), labels)]
            if len(trials.get(scheduler, ())) >= _WORKLOADS or not callers:
                continue
            if scheduler not in trials or _is_leaving(raw) or _is_leaving(namespaces.get(namespace, {})):
                continue
            try:
                created = _set_pod(raw, facts) if part is POD_CLIQUE_SETS_PART else _workload_pod(raw, facts, snapshot)
                if created is None:
                    continue
                prepared, pod = deepcopy(created.pod), Pod(created.pod)
                if any(selects(hook.get("objectSelector"), pod.template.labels) for hook in callers):
                    mutate_pod("", Pod(prepared), created.facts, snapshot.settings)
            except (FactsUnavailable, Malformed):
                # Other checks say what is missing.
                continue
            if prepared != created.pod:
                workload = f"{part.resource.api.kind} {'/'.join(key_of(raw))}"
                trials[scheduler].append(MemberPod(scheduler, workload, created.pod, prepared))
    return trials


class _Created(NamedTuple):
    """A pod as the controllers of its workload create it, and the facts with that workload."""

    pod: Manifest
    facts: ClusterFacts


def _is_leaving(raw: Manifest) -> bool:
    return mapping(raw.get("metadata")).get("deletionTimestamp") is not None


def _set_pod(raw: Manifest, facts: ClusterFacts) -> _Created | None:
    """Returns a pod of a PodCliqueSet. Its PodGang and PodClique do not exist, so no gang has such a member."""
    workload = PodCliqueSet(raw)
    record = record_of(workload, labels_of(raw).get(SCHEDULER_LABEL))
    if not workload.cliques:
        return None
    clique = workload.cliques[0]
    pod = pod_of_clique(workload, NAME, f"{NAME}-{clique.name}", clique)
    return _Created(pod, replace(facts, pod_clique_sets={key_of(raw): record}))


def _workload_pod(raw: Manifest, facts: ClusterFacts, snapshot: Snapshot) -> _Created | None:
    """Returns the first pod of an opted-in workload that is placed in a gang whatever its name is."""
    kinds = snapshot.settings.kinds
    workload = kinds.views[str(raw["apiVersion"]).rpartition("/")[0], str(raw["kind"])](raw)
    for expected in expected_pods(workload):
        metadata = expected.pod["metadata"]
        metadata.pop("name", None)
        metadata["generateName"] = f"{NAME}-"
        for owner in metadata["ownerReferences"]:
            # Of an object between the workload and the pod the uid is not known, and any is accepted.
            owner.setdefault("uid", NAME)
            # Where the API server protects it, only who may change the owner may set it.
            owner.pop("blockOwnerDeletion", None)
        place = kinds.place_of(Pod(expected.pod))
        if place is not None and place.workload == fact_of(workload):
            return _Created(expected.pod, add_workloads((workload,), facts))
    return None


def losses(member: MemberPod, stored: Manifest) -> Iterator[str]:
    """Yields what Rollcall changes on a pod and the stored pod does not have, each with its place.

    The values of labels, annotations and fields are compared only if both pods have the same stamp: otherwise the
    server knew more, such as the priority of a class.
    """
    stamps = [_part(pod, "metadata", "annotations").get(STAMP_ANNOTATION) for pod in (member.prepared, stored)]
    is_alike = stamps[0] == stamps[1]
    for place in (("metadata", "labels"), ("metadata", "annotations"), ("spec",)):
        before, prepared, live = (_part(pod, *place) for pod in (member.pod, member.prepared, stored))
        for key, value in prepared.items():
            path = f"spec.{key}" if place == ("spec",) else f"{'.'.join(place)}[{key}]"
            if before.get(key) == value:
                continue
            if key == "schedulingGates":
                there = _gates(live)
                yield from (f"{path} lacks {gate}" for gate in _gates(prepared) if gate not in there)
            elif key not in live:
                yield f"{path} is missing"
            elif (is_alike or key == "schedulerName") and not holds(value, live[key]):
                yield f"{path} is {live[key]!r} and not {value!r}"


def _part(pod: Manifest, *place: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = pod
    for key in place:
        part = mapping(part.get(key))
    return part


def _gates(spec: Mapping[str, Any]) -> list[str]:
    return [str(mapping(gate).get("name")) for gate in sequence(spec.get("schedulingGates"))]


def _tried(*lost: str, late: bool = False) -> Snapshot:
    """Returns an example: the trial of a set's pod that comes back without these labels."""
    container = {"name": "main", "image": "example.com/main"}
    clique = {"name": "worker", "spec": {"replicas": 2, "minAvailable": 2, "podSpec": {"containers": [container]}}}
    workload = {**diagnosis.pod_clique_set("demo"), "spec": {"replicas": 1, "template": {"cliques": [clique]}}}
    others = (diagnosis.webhook_of("MutatingWebhookConfiguration", "pod-defaults", "pods.example.com"),) if late else ()
    snapshot = diagnosis.installed(workload, *others)
    (member,) = member_pods(snapshot)["koord-scheduler"]
    stored = deepcopy(member.prepared)
    for label in lost:
        del stored["metadata"]["labels"][label]
    return replace(snapshot, members=(MemberTrial(member, DryRunAnswer(stored)),))


@diagnosis.check(
    "webhooks/pods-kept", passes=_tried, fails=lambda: _tried("pod-group.scheduling.sigs.k8s.io", late=True)
)
def pods_kept(snapshot: Snapshot) -> diagnosis.Symptoms:
    """A pod of a gang keeps what Rollcall writes on it: the scheduler's name, the gate, and the fields, labels and
    annotations of its gang. A webhook that runs after Rollcall may take them away, also one that the API server reads
    from a file and no API shows. For each scheduler the check creates a pod of a living workload as a dry run, and
    compares what comes back. Nothing is stored. Without a workload nothing is compared.

    Source: Kubernetes documentation, "Dynamic Admission Control" (reinvocation policy), "Auditing" (annotations
    `mutation.webhook.admission.k8s.io/...`); kubernetes/enhancements, KEP-5793.
    """
    if not snapshot.members:
        # Either no pod can be tried, or this raises what could not be read.
        member_pods(snapshot)
    refused: list[str] = []
    for member, outcome in snapshot.members:
        if isinstance(outcome, Unread):
            refused.append(str(outcome))
            continue
        stored, message = outcome
        where = f"the creation of a pod of {member.workload} (dry run)"
        if stored is None and (rule := next((rule for rule in _ABOUT_AUTHORS if rule in message), None)) is not None:
            yield diagnosis.Symptom(
                where,
                f"the rule {rule} refuses it, because no controller created it",
                "what runs after Rollcall is not known",
                f"nothing, if {rule} is to refuse; with the action warn the check compares the pod",
                diagnosis.Severity.NOTE,
            )
        elif stored is None:
            refused.append(f"the dry run of a pod of {member.workload} failed: {message}")
        elif lost := list(losses(member, stored)):
            yield diagnosis.Symptom(
                where,
                diagnosis.first_of(lost, 3),
                "something changes the pod after Rollcall, or Rollcall was not called: its gang starts in part, on "
                "another scheduler or not at all",
                _remedy(snapshot),
            )
    if refused:
        raise FactsUnavailable("; ".join(refused))


def _remedy(snapshot: Snapshot) -> str:
    late = [name_of(raw) for raw, _ in pod_webhooks(snapshot) if name_of(raw) > MUTATING]
    first = f"look at {diagnosis.first_of(late)}, which runs after {MUTATING}, and at" if late else "look at"
    return (
        f"{first} what the API server reads from files; its audit log names each webhook that changed a pod; make that "
        f"one spare pods of gangs, or give it a name before {MUTATING}"
    )


# The release whose API servers read webhooks and policies from files unless a feature gate is off.
_STATIC = Version(1, 37)


@diagnosis.check(
    "webhooks/static",
    level=diagnosis.Severity.NOTE,
    passes=lambda: replace(_tried(), version="v1.37.0"),
    fails=lambda: diagnosis.installed(version="v1.37.0"),
)
def static(snapshot: Snapshot) -> diagnosis.Symptoms:
    """From Kubernetes 1.37 on an API server may read webhooks and policies from files (`staticManifestsDir`). No API
    shows them, so no check of the order or of the neighbours sees them. The note is gone if the trial of
    webhooks/pods-kept has compared a pod, because that shows what they do to pods.

    Source: kubernetes/enhancements, KEP-5793; feature gate ManifestBasedAdmissionControlConfig (beta and on in 1.37);
    CHANGELOG-1.38 (`staticOrder`, pull request 143160).
    """
    release = Version.parse(require_read(snapshot.version))
    if release is None or release < _STATIC:
        return
    if any(isinstance(trial.outcome, DryRunAnswer) and trial.outcome.stored is not None for trial in snapshot.members):
        return
    yield diagnosis.Symptom(
        f"the API server {snapshot.version}",
        "it may read webhooks and policies from files, which no API shows",
        "the checks of other webhooks do not see them, and no pod of a workload could be compared",
        "run the check again when a workload with a gang exists; the file of --admission-control-config-file names "
        "them (staticManifestsDir)",
    )
