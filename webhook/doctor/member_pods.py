"""Pods of living gangs that `rollcall doctor` asks the API server to create as dry runs, and what is lost of Rollcall's
changes before such a pod would be stored.

Source: Kubernetes documentation, "Dry-run" (a request goes through every stage but storing) and "Dynamic Admission
Control" (order and reinvocation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.admission.pod import mutate_pod
from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.dry_runs import NAME
from webhook.doctor.examples import installed, pod_clique_set, webhook_of
from webhook.doctor.neighbours import about_pods
from webhook.doctor.parts import MUTATING_WEBHOOKS, NAMESPACES, POD_CLIQUE_SETS, recorded_workloads
from webhook.doctor.selectors import is_about, namespace_labels
from webhook.doctor.snapshot import MemberPod, MemberTrial, Snapshot, Tried, Unread, known
from webhook.errors import FactsUnavailable
from webhook.gangs.differences import holds
from webhook.installation.names import MUTATING
from webhook.model.facts import ClusterFacts
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.model.record import SCHEDULER_LABEL, record_of
from webhook.model.selectors import selects
from webhook.model.version import Version
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.shapes.kinds import fact_of
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.offline.opted_in_pods import expected_pods
from webhook.offline.pod_clique_set_gangs import pod_of_clique
from webhook.offline.translation import knowing

# How many workloads of a scheduler are tried. The pods of one may be refused for a reason of their namespace, such as a
# quota that its own pods use.
_WORKLOADS = 3
# The rules about who creates a pod. They warn by default.
_ABOUT_AUTHORS = ("grove/foreign-pod", "owner/foreign-pod")


def member_pods(snapshot: Snapshot) -> dict[str, list[MemberPod]]:
    """Return pods to try, by scheduler: each of another workload whose pods the API server sends to Rollcall.
    Raises `FactsUnavailable`.
    """
    trials: dict[str, list[MemberPod]] = {name: [] for name in snapshot.settings.profiles}
    facts, namespaces = snapshot.facts(), {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    hooks = [
        dict(hook)
        for hook in map(mapping, sequence((snapshot.configuration(MUTATING_WEBHOOKS) or {}).get("webhooks")))
        if is_about(dict(hook), "", "pods", "CREATE")
    ]
    for part in (POD_CLIQUE_SETS, *recorded_workloads(snapshot.settings)):
        for raw in sorted(snapshot.all(part), key=key_of):
            namespace, scheduler = key_of(raw)[0], str(labels_of(raw).get(SCHEDULER_LABEL))
            labels = namespace_labels(namespace, namespaces)
            callers = [hook for hook in hooks if selects(hook.get("namespaceSelector"), labels)]
            if len(trials.get(scheduler, ())) >= _WORKLOADS or not callers:
                continue
            if scheduler not in trials or _is_leaving(raw) or _is_leaving(namespaces.get(namespace, {})):
                continue
            try:
                created = _of_set(raw, facts) if part is POD_CLIQUE_SETS else _of_workload(raw, facts, snapshot)
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


def _of_set(raw: Manifest, facts: ClusterFacts) -> _Created | None:
    """Return a pod of a PodCliqueSet. Its PodGang and PodClique do not exist, so no gang has such a member."""
    workload = PodCliqueSet(raw)
    record = record_of(workload, labels_of(raw).get(SCHEDULER_LABEL))
    if not workload.cliques:
        return None
    clique = workload.cliques[0]
    pod = pod_of_clique(workload, NAME, f"{NAME}-{clique.name}", clique)
    return _Created(pod, replace(facts, pod_clique_sets={key_of(raw): record}))


def _of_workload(raw: Manifest, facts: ClusterFacts, snapshot: Snapshot) -> _Created | None:
    """Return the first pod of an opted-in workload that is placed in a gang whatever its name is."""
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
            return _Created(expected.pod, knowing((workload,), facts))
    return None


def losses(member: MemberPod, stored: Manifest) -> Iterator[str]:
    """Yield what Rollcall changes on a pod and the stored pod does not have, each with its place.

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
    """An example: the trial of a set's pod that comes back without these labels."""
    container = {"name": "main", "image": "example.com/main"}
    clique = {"name": "worker", "spec": {"replicas": 2, "minAvailable": 2, "podSpec": {"containers": [container]}}}
    workload = {**pod_clique_set("demo"), "spec": {"replicas": 1, "template": {"cliques": [clique]}}}
    others = (webhook_of("MutatingWebhookConfiguration", "pod-defaults", "pods.example.com"),) if late else ()
    snapshot = installed(workload, *others)
    (member,) = member_pods(snapshot)["koord-scheduler"]
    stored = deepcopy(member.prepared)
    for label in lost:
        del stored["metadata"]["labels"][label]
    return replace(snapshot, members=(MemberTrial(member, Tried(stored)),))


@check(
    "webhooks/pods-kept",
    passes=_tried,
    fails=lambda: _tried("pod-group.scheduling.sigs.k8s.io", late=True),
)
def pods_kept(snapshot: Snapshot) -> Symptoms:
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
            yield Symptom(
                where,
                f"the rule {rule} refuses it, because no controller created it",
                "what runs after Rollcall is not known",
                f"nothing, if {rule} is to refuse; with the action warn the check compares the pod",
                Level.NOTE,
            )
        elif stored is None:
            refused.append(f"the dry run of a pod of {member.workload} failed: {message}")
        elif lost := list(losses(member, stored)):
            yield Symptom(
                where,
                first_of(lost, 3),
                "something changes the pod after Rollcall, or Rollcall was not called: its gang starts in part, on "
                "another scheduler or not at all",
                _remedy(snapshot),
            )
    if refused:
        raise FactsUnavailable("; ".join(refused))


def _remedy(snapshot: Snapshot) -> str:
    late = [name_of(raw) for raw, _ in about_pods(snapshot) if name_of(raw) > MUTATING]
    first = f"look at {first_of(late)}, which runs after {MUTATING}, and at" if late else "look at"
    return (
        f"{first} what the API server reads from files; its audit log names each webhook that changed a pod; make that "
        f"one spare pods of gangs, or give it a name before {MUTATING}"
    )


# The release whose API servers read webhooks and policies from files unless a feature gate is off.
_STATIC = Version(1, 37)


@check(
    "webhooks/static",
    level=Level.NOTE,
    passes=lambda: replace(_tried(), version="v1.37.0"),
    fails=lambda: installed(version="v1.37.0"),
)
def static(snapshot: Snapshot) -> Symptoms:
    """From Kubernetes 1.37 on an API server may read webhooks and policies from files (`staticManifestsDir`). No API
    shows them, so no check of the order or of the neighbours sees them. The note is gone if the trial of
    webhooks/pods-kept has compared a pod, because that shows what they do to pods.

    Source: kubernetes/enhancements, KEP-5793; feature gate ManifestBasedAdmissionControlConfig (beta and on in 1.37);
    CHANGELOG-1.38 (`staticOrder`, pull request 143160).
    """
    release = Version.parse(known(snapshot.version))
    if release is None or release < _STATIC:
        return
    if any(isinstance(trial.outcome, Tried) and trial.outcome.stored is not None for trial in snapshot.members):
        return
    yield Symptom(
        f"the API server {snapshot.version}",
        "it may read webhooks and policies from files, which no API shows",
        "the checks of other webhooks do not see them, and no pod of a workload could be compared",
        "run the check again when a workload with a gang exists; the file of --admission-control-config-file names "
        "them (staticManifestsDir)",
    )
