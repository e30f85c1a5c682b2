"""Checks of other admission webhooks for the same pods: mutating webhooks run in the order of their names, so a later
one can overwrite an earlier one.

Source: Kubernetes documentation, "Dynamic Admission Control" (order and reinvocation); names as the systems' own
manifests have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.backends.kai.keys import NAME as KAI
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed, webhook_of
from webhook.doctor.parts import MUTATING_WEBHOOKS
from webhook.doctor.selectors import is_about
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import MUTATING
from webhook.model import grove
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.selectors import selects

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
        """Whether a webhook configuration is this system's."""
        name = name_of(configuration)
        if self.word in name.split("-") or name.startswith(self.word):
            return True
        return any(hook.get("name") in self.hooks for hook in hooks_of(configuration))


def hooks_of(configuration: Manifest) -> Iterator[Mapping[str, Any]]:
    """The webhooks of a configuration."""
    return map(mapping, sequence(configuration.get("webhooks")))


KUEUE = Neighbour(
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
    KUEUE,
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


@check(
    "webhooks/order",
    passes=lambda: installed(webhook_of(_MUTATING, "mutating-kai-admission", "admission.kai-scheduler.svc")),
    fails=lambda: installed(
        webhook_of(_MUTATING, "kai-admission", "admission.kai-scheduler.svc"),
        settings=configured({"name": KAI}),
    ),
)
def order(snapshot: Snapshot) -> Symptoms:
    """Mutating webhooks for pods run in the order of their configurations' names. Koordinator's must run before
    Rollcall's, because it would overwrite its changes. KAI's must run after it: KAI's condition needs the schedulerName
    that Rollcall sets, and a webhook whose condition did not match is not called again. Those of Kueue, LeaderWorkerSet
    and JobSet may run in any order: the same is stored, but if they run later, Rollcall is called twice for each of
    these pods.

    Source: kai-scheduler/KAI-Scheduler, mutating-kai-admission (`scheduler-name-match`); koordinator-sh/koordinator,
    pkg/webhook/pod/mutating; volcano-sh/volcano, pkg/webhooks/admission/pods; kubernetes-sigs/lws, pkg/webhooks.
    """
    for raw, _ in about_pods(snapshot):
        name = name_of(raw)
        where = f"{_MUTATING} {name}"
        if _KAI.registered(raw) and name < MUTATING:
            level = Level.ERROR if KAI in snapshot.settings.profiles else Level.NOTE
            found = f"{_KAI.name}'s webhook runs before {MUTATING}"
            why = f"{_KAI.does}; it skips pods that get this schedulerName from Rollcall later"
            yield Symptom(where, found, why, "give it the name of KAI's own manifests, mutating-kai-admission", level)
        elif name > MUTATING:
            if (late := next((one for one in (_KOORDINATOR, *_IN_ANY_ORDER) if one.registered(raw)), None)) is not None:
                yield _late(where, late)
            elif _VOLCANO.registered(raw):
                why = f"{_VOLCANO.does}, even if Rollcall has set another one"
                remedy = "check that no resource group of Volcano's admission names a namespace of other schedulers"
                yield Symptom(where, f"Volcano's webhook runs after {MUTATING}", why, remedy, Level.WARNING)


def _late(where: str, neighbour: Neighbour) -> Symptom:
    found = f"{neighbour.name}'s webhook runs after {MUTATING}"
    remedy = f"give it the name of {neighbour.name}'s own manifests, which sorts before {MUTATING}"
    if neighbour is _KOORDINATOR:
        return Symptom(where, found, f"{neighbour.does}; it overwrites what Rollcall has set before", remedy)
    why = f"{neighbour.does}; nothing is lost, but the API server calls Rollcall a second time for each of these pods"
    return Symptom(where, found, why, remedy, Level.NOTE)


@check(
    "webhooks/unknown-neighbour",
    level=Level.NOTE,
    passes=lambda: installed(
        webhook_of(_MUTATING, "istio-sidecar-injector", "rev.namespace.sidecar-injector.istio.io")
    ),
    fails=lambda: installed(webhook_of(_MUTATING, "pod-defaults", "pods.example.com")),
)
def unknown_neighbour(snapshot: Snapshot) -> Symptoms:
    """No unknown webhook changes the pods of gangs after Rollcall. Most webhooks add a container or a variable, which
    is fine. A webhook that writes schedulerName, labels of a group or gates takes pods out of their gangs.

    Source: Kubernetes documentation, "Dynamic Admission Control".
    """
    known = (_KOORDINATOR, *_IN_ANY_ORDER, _KAI, _VOLCANO)
    for raw, hook in about_pods(snapshot):
        name = name_of(raw)
        if name > MUTATING and not any(one.registered(raw) for one in known) and _takes_gangs(hook):
            yield Symptom(
                f"{_MUTATING} {name}, {hook.get('name')}",
                f"it runs after {MUTATING} on pods of gangs",
                "if it overwrites a field of a pod's gang membership, nothing restores it",
                "check that it does not write schedulerName or the labels and annotations of a gang",
            )


def about_pods(snapshot: Snapshot) -> Iterator[tuple[Manifest, Manifest]]:
    """The configurations of other systems that may change a pod at its creation, each with one webhook for it."""
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
    """Whether its objectSelector matches a pod made by Grove or a pod of an opted-in workload."""
    opted_in = {SCHEDULER_LABEL: "koord-scheduler"}
    return any(selects(hook.get("objectSelector"), labels) for labels in (_OF_GROVE, opted_in))
