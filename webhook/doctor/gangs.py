"""Checks of the existing gangs: the webhooks are called for them, and their scheduler is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.examples import configured, installed, namespace, pod_clique_set, served
from webhook.doctor.parts import GANG_PODS, NAMESPACES, POD_CLIQUE_SETS, recorded_workloads
from webhook.doctor.selectors import namespace_labels
from webhook.doctor.snapshot import Snapshot
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.selectors import selects

# How many of several similar objects are named.
_NAMED = 5


@check(
    "gangs/asked-about",
    level=Level.WARNING,
    passes=lambda: installed(pod_clique_set("demo")),
    fails=lambda: installed(
        pod_clique_set("demo", within="team-b"),
        namespace("team-b"),
        settings=configured(registration={"excludedNamespaces": ["team-b"]}),
    ),
)
def asked_about(snapshot: Snapshot) -> Symptoms:
    """The webhooks' selectors match the PodCliqueSets in the cluster: their namespace is neither excluded nor exempt.
    The pods of PodGangs have the labels that identify them.

    Source: ai-dynamo/grove, operator/api/common/labels.go.
    """
    namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    sets = snapshot.hook("podcliquesets.mutate.rollcall.dev")
    if sets is not None:
        outside = [
            raw
            for raw in snapshot.all(POD_CLIQUE_SETS)
            if not selects(sets.get("namespaceSelector"), namespace_labels(key_of(raw)[0], namespaces))
        ]
        for where, named in _by_namespace(outside):
            yield Symptom(
                where,
                f"the webhooks do not cover it, and it has PodCliqueSets: {named}",
                "they are not checked and no gangs are made of them: their pods start one by one",
                "remove it from `registration.excludedNamespaces`, remove its label, or move the PodCliqueSets",
            )
    strange = [
        raw for raw in snapshot.all(GANG_PODS) if labels_of(raw).get(grove.LABEL_MANAGED_BY) != grove.MANAGED_BY_GROVE
    ]
    for where, named in _by_namespace(strange):
        yield Symptom(
            where,
            f"pods that name a PodGang are not like those that Grove makes: {named}",
            f"Rollcall prepares only pods with {grove.LABEL_MANAGED_BY}={grove.MANAGED_BY_GROVE}",
            "find out what else makes pods with Grove's labels",
        )


@check(
    "gangs/recorded",
    level=Level.WARNING,
    passes=lambda: installed(pod_clique_set("demo")),
    fails=lambda: installed(pod_clique_set("demo", None)),
)
def recorded(snapshot: Snapshot) -> Symptoms:
    """Every PodCliqueSet has a recorded scheduler. A set without a record predates Rollcall, or was admitted while
    Rollcall was down. Its pods are not changed, and neither are the pods that replace them.

    Source: webhook/mutators/record.py; a gang of stamped and unstamped pods starts under no scheduler.
    """
    without = [raw for raw in snapshot.all(POD_CLIQUE_SETS) if SCHEDULER_LABEL not in labels_of(raw)]
    for where, named in _by_namespace(without):
        yield Symptom(
            where,
            f"PodCliqueSets without a record: {named}",
            "they predate Rollcall or were admitted while it was down; no scheduler treats their pods as a gang",
            f"label each while none of its pods runs: kubectl label podcliqueset NAME {SCHEDULER_LABEL}=PROFILE",
        )


@check(
    "gangs/profile",
    passes=lambda: installed(pod_clique_set("demo")),
    fails=lambda: installed(pod_clique_set("demo", "volcano")),
)
def profile(snapshot: Snapshot) -> Symptoms:
    """Every workload is recorded for a scheduler that the configuration still enables. For any other scheduler,
    Rollcall does not prepare replacement pods and does not update gang objects.

    Source: webhook/mutators/record.py and webhook/gangs/plan.py (where is the record of a gang).
    """
    for part in (POD_CLIQUE_SETS, *recorded_workloads(snapshot.settings)):
        lost = Counter[tuple[str, str]]()
        for raw in snapshot.all(part):
            name = labels_of(raw).get(SCHEDULER_LABEL)
            if name is not None and name not in snapshot.settings.profiles:
                lost[key_of(raw)[0], str(name)] += 1
        for (where, name), number in sorted(lost.items()):
            yield Symptom(
                f"Namespace {where}",
                f"{number} {part.resource.api.kind} recorded for {name}, which is not a profile",
                "their pods are not prepared and their gang objects are not updated any more",
                f"enable {name} until they are deleted, or delete them and apply them again for another scheduler",
            )


_EVICTION_REQUEST = Api("lifecycle.k8s.io", "v1alpha1", "EvictionRequest")


@check(
    "gangs/eviction-requests",
    level=Level.NOTE,
    passes=installed,
    fails=lambda: installed(apis=served(_EVICTION_REQUEST)),
)
def eviction_requests(snapshot: Snapshot) -> Symptoms:
    """Says that a cluster serves EvictionRequests (alpha in Kubernetes 1.37, feature gate EvictionRequestAPI). Each is
    for one pod, and its last responder calls pods/eviction, which no rule of Rollcall judges. Kubernetes evicts no pod
    with a `schedulingGroup` in this way.

    Source: kubernetes v1.38.0-beta.0, pkg/controller/{evictionrequest,imperativeevictionresponder}; k8s.io/api,
    lifecycle/v1alpha1.
    """
    for api in sorted(snapshot.served()):
        if (api.group, api.kind) == (_EVICTION_REQUEST.group, _EVICTION_REQUEST.kind):
            yield Symptom(
                "the API server",
                f"it serves {api}",
                "each request is for one pod, and Rollcall is not asked: a gang may lose single pods",
                "have what drains nodes request all pods of a gang; `rollcall gangs` names a gang that runs in part",
            )


def _by_namespace(found: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """Each namespace, with the first names of the objects found there."""
    names: dict[str, list[str]] = {}
    for raw in found:
        where, name = key_of(raw)
        names.setdefault(where, []).append(name)
    for where, those in sorted(names.items()):
        yield f"Namespace {where}", first_of(sorted(those), _NAMED)
