"""Checks of Rollcall's labels on namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.config.settings import ENFORCEMENT_LABEL
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import installed, namespace
from webhook.doctor.parts import NAMESPACES
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import EXEMPT_LABEL
from webhook.model.findings import Action
from webhook.model.projections import labels_of, name_of
from webhook.model.record import SCHEDULER_LABEL


def _labelled(snapshot: Snapshot, key: str) -> Iterator[tuple[str, str]]:
    """The namespaces that have a label, each with its value."""
    for raw in snapshot.all(NAMESPACES):
        labels = labels_of(raw)
        if key in labels:
            yield name_of(raw), str(labels[key])


@check(
    "namespaces/scheduler",
    passes=lambda: installed(namespace("team-b", scheduler="koord-scheduler")),
    fails=lambda: installed(namespace("team-b", scheduler="koord-schedular")),
)
def scheduler(snapshot: Snapshot) -> Symptoms:
    """The label rollcall.dev/scheduler of a namespace names a profile of the configuration. Otherwise new workloads
    there that name no scheduler are refused, which shows only when one is applied.

    Source: rule rollcall/scheduler-unknown.
    """
    profiles = ", ".join(snapshot.settings.profiles)
    for name, value in _labelled(snapshot, SCHEDULER_LABEL):
        if value not in snapshot.settings.profiles:
            yield Symptom(
                f"Namespace {name}",
                f"{SCHEDULER_LABEL}={value}, which is not a profile",
                "every new workload there that does not name a scheduler itself is refused",
                f"set it to one of {profiles}, or enable {value} in the configuration",
            )


@check(
    "namespaces/enforcement",
    passes=lambda: installed(namespace("team-b", enforcement="warn")),
    fails=lambda: installed(namespace("team-b", enforcement="warning")),
)
def enforcement(snapshot: Snapshot) -> Symptoms:
    """The label rollcall.dev/enforcement of a namespace is a valid mode. Any other value has no effect: the rules there
    are as strict as everywhere else, perhaps stricter than intended.

    Source: webhook/config/settings.py, `ceiling`.
    """
    for name, value in _labelled(snapshot, ENFORCEMENT_LABEL):
        if Action.parse(value) is None:
            yield Symptom(
                f"Namespace {name}",
                f"{ENFORCEMENT_LABEL}={value}, which is not a mode",
                "the label has no effect: rules are as strict there as the configuration says",
                f"set it to one of {', '.join(str(action) for action in Action)}",
            )


@check(
    "namespaces/exempt",
    level=Level.NOTE,
    passes=installed,
    fails=lambda: installed(namespace("team-b", exempt="true")),
)
def exempt(snapshot: Snapshot) -> Symptoms:
    """No namespace is exempt by the label rollcall.dev/exempt: an emergency switch that is easily forgotten.

    Source: docs/how-to/emergency.md.
    """
    for name, _ in _labelled(snapshot, EXEMPT_LABEL):
        yield Symptom(
            f"Namespace {name}",
            f"it has the label {EXEMPT_LABEL}",
            "the API server does not call Rollcall for it: gangs are neither checked nor made there",
            f"when the emergency is over: kubectl label namespace {name} {EXEMPT_LABEL}-",
        )
