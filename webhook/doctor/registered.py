"""Checks of Rollcall's own webhook configurations: they exist, match what would be printed, and are called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.examples import installed, snapshot, webhook_of
from webhook.doctor.parts import MUTATING_WEBHOOKS, NAMESPACES, POD_CLIQUE_SETS, SERVICE, VALIDATING_WEBHOOKS
from webhook.doctor.selectors import namespace_labels
from webhook.doctor.snapshot import Snapshot, Tried, known
from webhook.doctor.unreached import cause_of
from webhook.errors import FactsUnavailable
from webhook.installation.names import MUTATING, VALIDATING
from webhook.installation.webhooks import NEVER_HERE, webhook_configurations
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.selectors import selects

_BOTH = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_INSTALL = "rollcall manifests all --config FILE --image IMAGE | kubectl apply -f -"
_APPLY = "rollcall manifests webhooks --config FILE | kubectl apply -f -"
# A longer value would make the line unreadable.
_SHOWN = 60


@check(
    "webhooks/registered",
    passes=installed,
    fails=lambda: installed(without=("MutatingWebhookConfiguration",)),
)
def registered(snapshot: Snapshot) -> Symptoms:
    """Both webhook configurations are in the cluster. Without the mutating one pods are not stamped and the scheduler
    of a workload is not recorded. Without the validating one a workload that its scheduler cannot honour is admitted.

    Source: Kubernetes documentation, "Dynamic Admission Control".
    """
    for part, name in zip(_BOTH, (MUTATING, VALIDATING), strict=True):
        if snapshot.configuration(part) is None:
            yield Symptom(
                f"{part.resource.api.kind} {name}",
                "it is missing",
                "the API server does not call Rollcall: gangs are neither checked nor made",
                f"install it: {_APPLY if snapshot.one(SERVICE) or snapshot.address().url else _INSTALL}",
            )


def _later(raw: Manifest) -> None:
    if raw["kind"] == "MutatingWebhookConfiguration":
        raw["webhooks"][1]["objectSelector"] = {}
        del raw["webhooks"][0]


@check("webhooks/as-printed", passes=installed, fails=lambda: installed(changed=_later))
def as_printed(snapshot: Snapshot) -> Symptoms:
    """The configurations are what `rollcall manifests webhooks` prints for this configuration file. No webhook is
    missing or too many, and selectors, conditions, policies and times are the same. Another check covers caBundles.

    Source: Kubernetes API reference, admissionregistration/v1, for the fields that the API server fills in.
    """
    printed = webhook_configurations(snapshot.settings, snapshot.address(), snapshot.namespace, None)
    for part, wanted in zip(_BOTH, printed, strict=True):
        live = snapshot.configuration(part)
        if live is not None:
            where = f"{part.resource.api.kind} {name_of(live)}"
            yield from _differences(where, _named(wanted), _named(live))


def _named(configuration: Manifest) -> dict[str, Manifest]:
    hooks = map(mapping, sequence(configuration.get("webhooks")))
    return {str(hook.get("name")): _filled_in(hook) for hook in hooks}


def _differences(where: str, wanted: dict[str, Manifest], live: dict[str, Manifest]) -> Iterator[Symptom]:
    older = "it was made from another configuration file, by another version, or by hand"
    for name in sorted(wanted.keys() - live.keys()):
        yield Symptom(
            where,
            f"{name} is missing",
            "its objects are admitted without being checked or prepared",
            f"apply it: {_APPLY}",
        )
    for name in sorted(live.keys() - wanted.keys()):
        why = f"{older}; its requests still wait for an answer, but Rollcall does not judge them"
        yield Symptom(where, f"{name} would not be printed", why, f"apply what is printed: {_APPLY}")
    alike: dict[str, list[str]] = {}
    for name in sorted(wanted.keys() & live.keys()):
        fields = sorted(wanted[name].keys() | live[name].keys())
        told = [_told(field, live[name].get(field), wanted[name].get(field)) for field in fields]
        if differing := ", ".join(one for one in told if one):
            alike.setdefault(differing, []).append(name)
    for differing, names in alike.items():
        yield Symptom(f"{where}, {first_of(names)}", differing, older, f"apply what is printed: {_APPLY}")


def _told(field: str, live: Any, wanted: Any) -> str:
    """How a field differs; empty if it does not."""
    if live == wanted:
        return ""
    shown = [json.dumps(value, separators=(", ", ": ")) for value in (live, wanted)]
    if any(len(one) > _SHOWN for one in shown):
        return f"{field} differs"
    return f"{field} is {shown[0]} and not {shown[1]}"


def _filled_in(hook: Any) -> Manifest:
    """A webhook with the API server's defaults, and without its caBundle."""
    client = {key: value for key, value in mapping(hook.get("clientConfig")).items() if key != "caBundle"}
    if "service" in client:
        client["service"] = {"port": 443, **client["service"]}
    rules = [{"scope": "*", **rule} for rule in sequence(hook.get("rules"))]
    filled = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "matchConditions": [],
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    return {**filled, **hook, "clientConfig": client, "rules": rules}


def _everywhere(raw: Manifest) -> None:
    for hook in raw.get("webhooks", ()):
        hook["namespaceSelector"] = {}


@check("webhooks/out-of-the-way", passes=installed, fails=lambda: installed(changed=_everywhere))
def out_of_the_way(snapshot: Snapshot) -> Symptoms:
    """No webhook that must be answered (failurePolicy Fail) covers kube-system or Rollcall's own namespace. A cluster
    in which Rollcall is down must be able to start it again.

    Source: Kubernetes documentation, "Admission Webhook Good Practices" (avoid dependency loops).
    """
    namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    for name in (snapshot.namespace, *NEVER_HERE):
        labels = namespace_labels(name, namespaces)
        about = [
            where
            for where, hook in snapshot.hooks()
            if hook.get("failurePolicy", "Fail") == "Fail" and selects(hook.get("namespaceSelector"), labels)
        ]
        if about:
            yield Symptom(
                f"Namespace {name}",
                f"the webhooks cover it: {first_of(about)}",
                "while Rollcall is down its own pods, or those that a cluster needs to recover, may not be created",
                f"apply what is printed: {_APPLY}",
            )


_STRANGER = webhook_of("ValidatingWebhookConfiguration", "rollcall-old", "pods.validate.rollcall.dev")


@check("webhooks/registered-twice", level=Level.WARNING, passes=installed, fails=lambda: installed(_STRANGER))
def registered_twice(snapshot: Snapshot) -> Symptoms:
    """No other configuration has webhooks with Rollcall's names. One that an older or a second installation left behind
    makes the API server ask twice for every object, and refuse all objects when no server answers there.

    Source: webhook/installation/webhooks.py (`*.rollcall.dev`).
    """
    for part, own in zip(_BOTH, (MUTATING, VALIDATING), strict=True):
        for raw in snapshot.all(part):
            hooks = [str(hook.get("name")) for hook in map(mapping, sequence(raw.get("webhooks")))]
            if name_of(raw) != own and any(hook.endswith(".rollcall.dev") for hook in hooks):
                yield Symptom(
                    f"{part.resource.api.kind} {name_of(raw)}",
                    f"it registers {hooks[0]}, as {own} does",
                    "objects are judged twice, and refused when no server answers there",
                    f"remove it: kubectl delete {part.resource.plural} {name_of(raw)}",
                )


_BROKEN = Tried(
    None,
    'Internal error occurred: failed calling webhook "podcliquesets.mutate.rollcall.dev": failed to call webhook: '
    "tls: failed to verify certificate: x509: certificate signed by unknown authority",
)
_REFUSED = Tried(None, "rollcall/scheduler-unknown at metadata.labels[rollcall.dev/scheduler]: no profile")


@check("webhooks/answered", passes=lambda: snapshot(asked=_REFUSED), fails=lambda: snapshot(asked=_BROKEN))
def answered(snapshot: Snapshot) -> Symptoms:
    """The API server reaches Rollcall and trusts its certificate. The check creates a PodCliqueSet for a scheduler that
    does not exist, as a dry run: the rule for unknown schedulers must refuse it. Nothing is stored.

    Source: Kubernetes documentation, "Dry-run"; rule rollcall/scheduler-unknown, which nothing softens.
    """
    asked = None if snapshot.asked is None else known(snapshot.asked)
    if asked is None or "rollcall/scheduler-unknown" in asked.message:
        return
    where = f"the creation of a {POD_CLIQUE_SETS.resource.api.kind} (dry run)"
    if asked.stored is not None:
        yield Symptom(
            where,
            "the API server would have stored one for a scheduler that does not exist",
            "the API server did not call Rollcall, or got no answer and failurePolicy is Ignore: nothing is checked",
            "see the other findings on webhooks and server; the API server's log shows the call that failed",
        )
    elif ".rollcall.dev" in asked.message:
        yield Symptom(where, asked.message, *cause_of(asked.message, snapshot))
    else:
        # The API server reports only one of several refusals; or another webhook refused the object first.
        raise FactsUnavailable(f"another webhook or the API server refused the object first: {asked.message}")
