"""Checks of Rollcall's own webhook configurations: they exist, match what would be printed, and are called. Where the
API server gets no answer, the likely cause.

Source of the error messages: Go's net and net/http, Kubernetes' webhook client and service resolver, and konnectivity;
on EKS "Address is not allowed" is reported for Pods outside of the VPC (kubernetes-sigs and Knative issues with that
text).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.errors import FactsUnavailable
from webhook.installation.names import MUTATING, SERVER, SERVING_PORT_NAME, VALIDATING
from webhook.installation.webhooks import NEVER_HERE, webhook_configurations
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, selects, sequence
from webhook.operations.diagnosis import Severity, Symptom, Symptoms, check, first_of, installed, snapshot, webhook_of
from webhook.operations.installation_checks import ready_endpoints
from webhook.operations.snapshot import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_CLIQUE_SETS_PART,
    SERVICE,
    VALIDATING_WEBHOOKS,
    DryRunAnswer,
    Snapshot,
    namespace_labels,
    require_read,
)

# The page with the solutions for each managed offering.
PAGE = "docs/how-to/managed-clusters.md"
_SILENT = (
    "context deadline exceeded",
    "Client.Timeout exceeded",
    "i/o timeout",
    "connection timed out",
    "no route to host",
    "network is unreachable",
    "Address is not allowed",
)
# The API server learns that its certificate is refused before or after it has sent its request.
_CUT = (": EOF", "remote error: tls:")
_NO_TUNNEL = ("No agent available", "No backend available")


class FailedCall(NamedTuple):
    """Why a call of the API server failed, and what to do."""

    why: str
    remedy: str


_UNKNOWN = FailedCall(
    "the API server cannot reach Rollcall, and refuses every gang",
    "see the other findings on webhooks and server: address, caBundle, certificate, endpoints",
)


def cause_of(message: str, snapshot: Snapshot) -> FailedCall:
    """Returns the likely cause of a call that failed with that message."""
    if "x509:" in message:
        return FailedCall(
            "the API server reaches a server but does not trust its certificate: every gang is refused",
            "see the findings on caBundle and certificate; rollcall certs verify makes the same handshakes",
        )
    if "no endpoints available" in message:
        return FailedCall(
            "no server behind the Service is ready: every gang is refused",
            f"find out why: kubectl -n {snapshot.namespace} get pods -l app.kubernetes.io/name={SERVER}",
        )
    if any(words in message for words in _NO_TUNNEL):
        return FailedCall(
            "the control plane's tunnel to the nodes has no connected agent: every gang is refused",
            "find out why konnectivity-agent does not run: kubectl -n kube-system get pods",
        )
    if any(words in message for words in _CUT):
        return FailedCall(
            "a server closes the connection before it answers, as it does if it requires a client certificate "
            "(--client-ca) that the API server does not present: every gang is refused",
            "let the API server present one, or serve without --client-ca: docs/explanation/serving.md, "
            '"Client certificates"',
        )
    if any(words in message for words in _SILENT):
        return _silence(snapshot)
    if "connection refused" in message:
        return _refusal(snapshot)
    return _UNKNOWN


def _silence(snapshot: Snapshot) -> FailedCall:
    """Returns the likely cause of a timeout: packets are dropped on the way, or the servers answer too late."""
    where, ready = _listening(snapshot)
    if not ready:
        return _UNKNOWN
    return FailedCall(
        f"{ready} ready, but the API server gets no answer: a managed control plane cannot reach Pods, or a "
        f"firewall or NetworkPolicy blocks the way; every gang is refused",
        f"let the control plane reach {where} (firewall, security group), or install with --host-network (chart: "
        f"hostNetwork): {PAGE}",
    )


def _refusal(snapshot: Snapshot) -> FailedCall:
    where, ready = _listening(snapshot)
    if not ready:
        return _UNKNOWN
    return FailedCall(
        f"{ready} ready, but no server listens where the API server calls: the addresses of the Pods lead it "
        f"into another network, or it calls another port; every gang is refused",
        f"compare the Service's targetPort with {where}; if a managed control plane has another network than "
        f"the Pods, install with --host-network (chart: hostNetwork): {PAGE}",
    )


def _listening(snapshot: Snapshot) -> tuple[str, str]:
    """Returns the servers' ports and how many are ready, as text; the second is empty if none is known to be."""
    try:
        if url := snapshot.address().url:
            return url, f"the server at {url} may be"
        ready = list(ready_endpoints(snapshot))
    except FactsUnavailable:
        return "the servers", ""
    ports = sorted({port for endpoint in ready for name, port in endpoint.ports.items() if name == SERVING_PORT_NAME})
    where = f"port {', '.join(map(str, ports))} of the Pods" if ports else "the servers"
    count = f"{len(ready)} {'servers are' if len(ready) > 1 else 'server is'}"
    return where, count if ready else ""


_BOTH = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_INSTALL = "rollcall manifests all --config FILE --image IMAGE | kubectl apply -f -"
_APPLY = "rollcall manifests webhooks --config FILE | kubectl apply -f -"
# A longer value would make the line unreadable.
_SHOWN = 60


@check("webhooks/registered", passes=installed, fails=lambda: installed(without=("MutatingWebhookConfiguration",)))
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
                f"install it: {_APPLY if snapshot.single(SERVICE) or snapshot.address().url else _INSTALL}",
            )


def _later(raw: Manifest) -> None:
    if raw["kind"] == "MutatingWebhookConfiguration":
        raw["webhooks"][1]["objectSelector"] = {}
        del raw["webhooks"][0]


@check("webhooks/as-printed", passes=installed, fails=lambda: installed(changed=_later))
def printed_webhooks(snapshot: Snapshot) -> Symptoms:
    """The configurations are what `rollcall manifests webhooks` prints for this configuration file. No webhook is
    missing or too many, and selectors, conditions, policies and times are the same. Another check covers caBundles.

    Source: Kubernetes API reference, admissionregistration/v1, for the fields that the API server fills in.
    """
    printed = webhook_configurations(snapshot.settings, snapshot.address(), snapshot.namespace, None)
    for part, expected in zip(_BOTH, printed, strict=True):
        live = snapshot.configuration(part)
        if live is not None:
            where = f"{part.resource.api.kind} {name_of(live)}"
            yield from _differences(where, _hooks_by_name(expected), _hooks_by_name(live))


def _hooks_by_name(configuration: Manifest) -> dict[str, Manifest]:
    hooks = map(mapping, sequence(configuration.get("webhooks")))
    return {str(hook.get("name")): _filled_in(hook) for hook in hooks}


def _differences(where: str, printed: dict[str, Manifest], live: dict[str, Manifest]) -> Iterator[Symptom]:
    older = "it was made from another configuration file, by another version, or by hand"
    for name in sorted(printed.keys() - live.keys()):
        yield Symptom(
            where,
            f"{name} is missing",
            "its objects are admitted without being checked or prepared",
            f"apply it: {_APPLY}",
        )
    for name in sorted(live.keys() - printed.keys()):
        why = f"{older}; its requests still wait for an answer, but Rollcall does not judge them"
        yield Symptom(where, f"{name} would not be printed", why, f"apply what is printed: {_APPLY}")
    alike: dict[str, list[str]] = {}
    for name in sorted(printed.keys() & live.keys()):
        fields = sorted(printed[name].keys() | live[name].keys())
        differences = [_field_difference(field, live[name].get(field), printed[name].get(field)) for field in fields]
        if differing := ", ".join(difference for difference in differences if difference):
            alike.setdefault(differing, []).append(name)
    for differing, names in alike.items():
        yield Symptom(f"{where}, {first_of(names)}", differing, older, f"apply what is printed: {_APPLY}")


def _field_difference(field: str, live: Any, printed: Any) -> str:
    """Returns how a field differs; empty if it does not."""
    if live == printed:
        return ""
    shown = [json.dumps(value, separators=(", ", ": ")) for value in (live, printed)]
    if any(len(text) > _SHOWN for text in shown):
        return f"{field} differs"
    return f"{field} is {shown[0]} and not {shown[1]}"


def _filled_in(hook: Any) -> Manifest:
    """Returns a webhook with the API server's defaults, and without its caBundle."""
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


@check("webhooks/registered-twice", level=Severity.WARNING, passes=installed, fails=lambda: installed(_STRANGER))
def registered_twice(snapshot: Snapshot) -> Symptoms:
    """No other configuration has webhooks with Rollcall's names. One that an older or a second installation left behind
    makes the API server ask twice for every object, and refuse all objects when no server answers there.

    Source: webhook/installation/webhooks.py (`*.rollcall.dev`).
    """
    for part, our_name in zip(_BOTH, (MUTATING, VALIDATING), strict=True):
        for raw in snapshot.all(part):
            hooks = [str(hook.get("name")) for hook in map(mapping, sequence(raw.get("webhooks")))]
            if name_of(raw) != our_name and any(hook.endswith(".rollcall.dev") for hook in hooks):
                yield Symptom(
                    f"{part.resource.api.kind} {name_of(raw)}",
                    f"it registers {hooks[0]}, as {our_name} does",
                    "objects are judged twice, and refused when no server answers there",
                    f"remove it: kubectl delete {part.resource.plural} {name_of(raw)}",
                )


_BROKEN = DryRunAnswer(
    None,
    'Internal error occurred: failed calling webhook "podcliquesets.mutate.rollcall.dev": failed to call webhook: '
    "tls: failed to verify certificate: x509: certificate signed by unknown authority",
)
_REFUSED = DryRunAnswer(None, "rollcall/scheduler-unknown at metadata.labels[rollcall.dev/scheduler]: no profile")


@check("webhooks/answered", passes=lambda: snapshot(refusal=_REFUSED), fails=lambda: snapshot(refusal=_BROKEN))
def answered(snapshot: Snapshot) -> Symptoms:
    """The API server reaches Rollcall and trusts its certificate. The check creates a PodCliqueSet for a scheduler that
    does not exist, as a dry run: the rule for unknown schedulers must refuse it. Nothing is stored.

    Source: Kubernetes documentation, "Dry-run"; rule rollcall/scheduler-unknown, which nothing softens.
    """
    trial = None if snapshot.refusal is None else require_read(snapshot.refusal)
    if trial is None or "rollcall/scheduler-unknown" in trial.message:
        return
    where = f"the creation of a {POD_CLIQUE_SETS_PART.resource.api.kind} (dry run)"
    if trial.stored is not None:
        yield Symptom(
            where,
            "the API server would have stored one for a scheduler that does not exist",
            "the API server did not call Rollcall, or got no answer and failurePolicy is Ignore: nothing is checked",
            "see the other findings on webhooks and server; the API server's log shows the call that failed",
        )
    elif ".rollcall.dev" in trial.message:
        yield Symptom(where, trial.message, *cause_of(trial.message, snapshot))
    else:
        # The API server reports only one of several refusals; or another webhook refused the object first.
        raise FactsUnavailable(f"another webhook or the API server refused the object first: {trial.message}")
