"""Checks of the exceptions of the configuration: they end by themselves, and what they covered is refused again."""

from __future__ import annotations

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import NOW, excepting
from webhook.doctor.parts import NAMESPACES
from webhook.doctor.snapshot import Snapshot
from webhook.model.exceptions import ANNOUNCED, RuleException
from webhook.model.projections import name_of


@check(
    "exceptions/end",
    level=Level.WARNING,
    passes=lambda: excepting(NOW + 2 * ANNOUNCED),
    fails=lambda: excepting(NOW + ANNOUNCED / 7),
)
def end(snapshot: Snapshot) -> Symptoms:
    """No exception of the configuration ends within a week. An exception ends by itself, and from then on new workloads
    that it covered are refused again.

    Source: webhook/model/exceptions.py.
    """
    for one in snapshot.settings.exceptions.every:
        if one.ends_soon(snapshot.now):
            yield Symptom(
                _where(one),
                f"it {one.time_left(snapshot.now)}, at {one.ends}",
                f"new workloads that it covers are then refused again; {one.granted_by} granted it: {one.reason}",
                "change the workloads before, or grant it until a later date",
            )


@check(
    "exceptions/namespaces",
    level=Level.WARNING,
    passes=lambda: excepting(NOW + 2 * ANNOUNCED),
    fails=lambda: excepting(NOW + 2 * ANNOUNCED, "team-z"),
)
def namespaces(snapshot: Snapshot) -> Symptoms:
    """Every namespace of an exception that applies exists. Whoever may create namespaces can take the name of one that
    does not, and the exception covers what he creates there.

    Source: webhook/model/exceptions.py.
    """
    existing = {name_of(raw) for raw in snapshot.all(NAMESPACES)}
    for one in snapshot.settings.exceptions.every:
        if absent := sorted(() if one.has_ended(snapshot.now) else one.namespaces - existing):
            yield Symptom(
                _where(one),
                f"there is no namespace {', '.join(absent)}",
                "it covers whoever creates a namespace of that name",
                "remove the name from the exception, or create the namespace",
            )


@check(
    "exceptions/ended",
    level=Level.NOTE,
    passes=lambda: excepting(NOW + ANNOUNCED / 7),
    fails=lambda: excepting(NOW - ANNOUNCED),
)
def ended(snapshot: Snapshot) -> Symptoms:
    """The configuration has no exception that has ended. Such an exception has no effect.

    Source: webhook/model/exceptions.py.
    """
    for one in snapshot.settings.exceptions.every:
        if one.has_ended(snapshot.now):
            yield Symptom(
                _where(one),
                f"it {one.time_left(snapshot.now)}, at {one.ends}",
                "it has no effect, and a reader of the configuration may believe that it still applies",
                "delete it from the configuration",
            )


def _where(one: RuleException) -> str:
    return f"exception {one.name} ({', '.join(sorted(one.rules))}) of {', '.join(sorted(one.namespaces))}"
