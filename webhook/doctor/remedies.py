"""The check of `remedies`: what the reconciler does itself for gangs that were left behind."""

from __future__ import annotations

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.snapshot import Snapshot
from webhook.gangs.remedies import RemedyCause


@check(
    "gangs/remedies",
    level=Level.WARNING,
    passes=lambda: installed(settings=configured(remedies={"causes": ["forgotten"]})),
    fails=lambda: installed(settings=configured({"name": "volcano"}, remedies={"causes": ["forgotten"]})),
)
def remedies(snapshot: Snapshot) -> Symptoms:
    """The remedy `forgotten` is on only if an enabled scheduler can be woken: koord-scheduler and the scheduler of
    scheduler-plugins. For other schedulers it does nothing, and the right to change and delete pods is not needed.

    Source: webhook/backends/base.py, `Wake`; what each scheduler does was seen on the real ones.
    """
    settings = snapshot.settings
    woken = any(profile.backend.wake is not None for profile in settings.profiles.values())
    if RemedyCause.FORGOTTEN.value in settings.remedies.causes and not woken:
        yield Symptom(
            "the configuration, remedies.causes",
            f"it has {RemedyCause.FORGOTTEN}, and none of the schedulers ({', '.join(settings.profiles)}) can be woken",
            "the remedy has no effect, and the reconciler has the right to change and delete pods for it",
            f"remove {RemedyCause.FORGOTTEN} from remedies.causes",
        )
