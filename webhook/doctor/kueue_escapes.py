"""The check of Rollcall's own setting that deletes pods, beside a Kueue that keeps them."""

from __future__ import annotations

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.snapshot import Snapshot
from webhook.model.kueue.projections import LOCAL_QUEUE_KIND
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.workloads.pod import Pod

_SERVED = frozenset({LOCAL_QUEUE_KIND.api, POD_CLIQUE_SETS.resource.api})


@check(
    "kueue/escapes",
    level=Level.WARNING,
    passes=lambda: installed(apis=_SERVED),
    fails=lambda: installed(
        apis=_SERVED, settings=configured(escapes={"delete": ["stale"]}, remedies={"causes": ["oldMembership"]})
    ),
)
def escapes(snapshot: Snapshot) -> Symptoms:
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
            yield Symptom(
                f"the configuration, {key}",
                f"Rollcall deletes pods ({', '.join(sorted(values))}), and Kueue can hold pods",
                "Kueue's finalizer keeps a pod that Rollcall deletes, and its Workload waits for another pod",
                f"remove {key}, or remove pod from Kueue's integrations.frameworks and from the section kueue",
            )
