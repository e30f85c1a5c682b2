"""Webhook configurations, their neighbours and the net: the finding for each change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.installation.installed_objects import installed_objects
from webhook.installation.net_policy import net_policy
from webhook.installation.parameters import Options, ReconcilerPlace
from webhook.model.reading import Manifest
from webhook.operations.certificate_checks import HOST
from webhook.operations.diagnosis import Severity, configured, installed, snapshot, webhook_of
from webhook.operations.snapshot import MUTATING_WEBHOOKS, DryRunAnswer, Unread
from webhook.operations.snapshot_reader import Endpoint, endpoints

MUTATING, VALIDATING = "MutatingWebhookConfiguration m-rollcall", "ValidatingWebhookConfiguration v-rollcall"
PODS = f"{MUTATING}, pods.mutate.rollcall.dev"


def of_pods(change: Callable[[Manifest], None]) -> Callable[[Manifest], None]:
    """A change of the one hook."""

    def changed(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            if hook["name"] == "pods.mutate.rollcall.dev":
                change(hook)

    return changed


CHANGES: dict[str, tuple[Callable[[Manifest], None], list[tuple[str, str]]]] = {
    "what the API server fills in is no difference": (
        lambda hook: hook.update(matchConditions=[], namespaceSelector=hook["namespaceSelector"]),
        [],
    ),
    "a caBundle is another check's": (lambda hook: hook["clientConfig"].update(caBundle="eA=="), []),
    "a time": (lambda hook: hook.update(timeoutSeconds=30), [(PODS, "timeoutSeconds is 30 and not 5")]),
    "a time that is left to the API server": (
        lambda hook: hook.pop("timeoutSeconds"),
        [(PODS, "timeoutSeconds is 10 and not 5")],
    ),
    "reinvocation": (
        lambda hook: hook.update(reinvocationPolicy="Never"),
        [(PODS, 'reinvocationPolicy is "Never" and not "IfNeeded"')],
    ),
    "two fields at once, one of them long": (
        lambda hook: hook.update(matchPolicy="Exact", namespaceSelector={}),
        [(PODS, 'matchPolicy is "Exact" and not "Equivalent", namespaceSelector differs')],
    ),
    "a condition": (
        lambda hook: hook.update(matchConditions=[{"name": "mine", "expression": "true"}]),
        [(PODS, 'matchConditions is [{"name": "mine", "expression": "true"}] and not []')],
    ),
    "another name": (
        lambda hook: hook.update(name="all.mutate.rollcall.dev"),
        [
            (MUTATING, "pods.mutate.rollcall.dev is missing"),
            (MUTATING, "all.mutate.rollcall.dev would not be printed"),
        ],
    ),
}


@pytest.mark.parametrize(("change", "wanted"), CHANGES.values(), ids=CHANGES)
def test_differences_from_the_printed_webhooks_are_reported(
    change: Callable[[Manifest], None], wanted: list[tuple[str, str]]
) -> None:
    found = reported(installed(changed=of_pods(change)), "webhooks/as-printed")
    assert found == [(Severity.ERROR, *one) for one in wanted]


def test_a_change_of_many_webhooks_is_reported_once_per_configuration() -> None:
    def ignoring(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["failurePolicy"] = "Ignore"

    found = reported(installed(changed=ignoring), "webhooks/as-printed")
    assert [(where, said) for _, where, said in found] == [
        (f"{MUTATING}, owned-pods.mutate.rollcall.dev and 4 more", 'failurePolicy is "Ignore" and not "Fail"'),
        (f"{VALIDATING}, group-pods.validate.rollcall.dev and 6 more", 'failurePolicy is "Ignore" and not "Fail"'),
    ]


OUT = {
    "its own namespace": (["kube-system", "kube-node-lease"], "Fail", ["Namespace rollcall-system"]),
    "kube-system": (["rollcall-system", "kube-node-lease"], "Fail", ["Namespace kube-system"]),
    "leases of nodes": (["rollcall-system", "kube-system"], "Fail", ["Namespace kube-node-lease"]),
    "an ignored failure": ([], "Ignore", []),
}


@pytest.mark.parametrize(("left_out", "policy", "wanted"), OUT.values(), ids=OUT)
def test_webhooks_that_select_a_recovery_namespace_are_reported(
    left_out: list[str], policy: str, wanted: list[str]
) -> None:
    def changed(hook: Manifest) -> None:
        outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": left_out}
        hook["namespaceSelector"] = {"matchExpressions": [outside]}
        hook["failurePolicy"] = policy

    found = reported(installed(changed=of_pods(changed)), "webhooks/out-of-the-way")
    asked = "the webhooks cover it: MutatingWebhookConfiguration m-rollcall, pods.mutate.rollcall.dev"
    assert found == [(Severity.ERROR, where, asked) for where in wanted]


def test_webhooks_with_a_url_are_compared_with_that_url() -> None:
    def by_url(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            path = "validate" if raw["kind"].startswith("Validating") else "mutate"
            hook["clientConfig"] = {"url": f"https://rollcall.example.com:8443/{path}"}

    assert reported(installed(changed=by_url), "webhooks/as-printed", "server/service", "server/endpoints") == []


def test_without_the_right_to_read_webhooks_they_are_unknown() -> None:
    why = Unread("the MutatingWebhookConfiguration objects", "HTTP 403", "list them")
    seen = installed()
    blind = replace(seen, parts={**seen.parts, MUTATING_WEBHOOKS: why})
    for check in ("webhooks/registered", "webhooks/as-printed", "webhooks/order", "webhooks/ca-bundle"):
        assert unknown(blind, check) == [
            "the MutatingWebhookConfiguration objects could not be read: HTTP 403; it takes the right to list them"
        ]


# As an API server writes it; `rollcall doctor` recognises it by the name of our webhook.
UNANSWERED = 'failed calling webhook "x.rollcall.dev": EOF'
ANSWERS: dict[str, tuple[DryRunAnswer, list[str], list[str]]] = {
    "stored": (
        DryRunAnswer({}),
        [Text("stored")],
        [],
    ),
    "refused by the rule": (DryRunAnswer(None, "rollcall/scheduler-unknown"), [], []),
    "no answer": (
        DryRunAnswer(None, UNANSWERED),
        [UNANSWERED],
        [],
    ),
    "refused by another webhook": (
        DryRunAnswer(None, 'admission webhook "pcs.validating.webhooks.grove.io" denied the request'),
        [],
        [Text('admission webhook "pcs.validating.webhooks.grove.io" denied the request')],
    ),
}


@pytest.mark.parametrize(("asked", "wanted", "not_known"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_of_the_api_server_to_the_probe_is_interpreted(
    asked: DryRunAnswer, wanted: list[str], not_known: list[str]
) -> None:
    known = snapshot(refusal=asked)
    assert unknown(known, "webhooks/answered") == not_known
    if not not_known:
        assert [found for _, _, found in reported(known, "webhooks/answered")] == wanted


ORDER: dict[str, tuple[str, str, list[tuple[Severity, str]]]] = {
    "Koordinator by its own name": ("koordinator-mutating-webhook-configuration", "mpod-create.koordinator.sh", []),
    "Kueue by its own name": ("kueue-mutating-webhook-configuration", "mpod.kb.io", []),
    "LeaderWorkerSet by its own name": ("lws-mutating-webhook-configuration", "mpod.kb.io", []),
    "KAI by its own name": ("mutating-kai-admission", "admission.kai-scheduler.svc", []),
    "Koordinator by another": (
        "site-koordinator",
        "mpod-create.koordinator.sh",
        [(Severity.ERROR, Text("Koordinator", "after m-rollcall"))],
    ),
    "Kueue by another": ("z-kueue", "mpod.kb.io", [(Severity.NOTE, Text("Kueue", "after m-rollcall"))]),
    "Kueue by none of its own": (
        "queues",
        "mclusterqueue.kb.io",
        [(Severity.NOTE, Text("Kueue", "after m-rollcall"))],
    ),
    "LeaderWorkerSet by another": (
        "serving",
        "mleaderworkerset.kb.io",
        [(Severity.NOTE, Text("LeaderWorkerSet", "after m-rollcall"))],
    ),
    "JobSet by another": (
        "training",
        "mutate-jobset-x-k8s-io-v1alpha2-jobset.x-k8s.io",
        [(Severity.NOTE, Text("JobSet", "after m-rollcall"))],
    ),
    "JobSet by its own name": ("jobset-mutating-webhook-configuration", "mpod.kb.io", []),
    "Trainer, which changes no pods": (
        "defaulter.trainer.kubeflow.org",
        "defaulter.trainjob.trainer.kubeflow.org",
        [],
    ),
    "KAI before ours, of no profile": (
        "kai-admission",
        "admission.kai-scheduler.svc",
        [(Severity.NOTE, Text("KAI", "before m-rollcall"))],
    ),
    "Volcano's pods": (
        "volcano-admission-service-pods-mutate",
        "mutatepod.volcano.sh",
        [(Severity.WARNING, Text("Volcano", "after m-rollcall"))],
    ),
    "another webhook before ours": ("istio-sidecar-injector", "sidecar-injector.istio.io", []),
}


@pytest.mark.parametrize(("name", "hook", "wanted"), ORDER.values(), ids=ORDER)
def test_the_order_of_other_mutating_webhooks(name: str, hook: str, wanted: list[tuple[Severity, str]]) -> None:
    other = webhook_of("MutatingWebhookConfiguration", name, hook)
    found = reported(installed(other), "webhooks/order", "webhooks/unknown-neighbour")
    assert found == [(level, f"MutatingWebhookConfiguration {name}", said) for level, said in wanted]


def test_a_webhook_that_does_not_select_gang_pods_is_ignored() -> None:
    other = {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "operations": ["*"]}]}
    narrow = {"objectSelector": {"matchLabels": {"app": "web"}}}
    for fields in (other, narrow):
        hook = webhook_of("MutatingWebhookConfiguration", "zz", "a.example.com", **fields)
        assert reported(installed(hook), "webhooks/order", "webhooks/unknown-neighbour") == []


def changing(kind: str, **spec: Any) -> list[Manifest]:
    """The net as it is printed for Deny, with other fields in the objects of a kind."""
    printed = net_policy(configured(registration={"net": "Deny"}), "rollcall-system")
    return [{**raw, "spec": raw["spec"] | (spec if raw["kind"] == kind else {})} for raw in printed]


POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
NETS: dict[str, tuple[str, list[Manifest], list[tuple[str, str]]]] = {
    "off, and none": ("off", [], []),
    "off, and a foreign policy": ("off", [{**changing("")[0], "metadata": {"name": "theirs"}}], []),
    "off, and left": (
        "off",
        changing(""),
        [
            (f"{POLICY} rollcall-net", Text("exists")),
            (f"{BINDING} rollcall-net", Text("exists")),
            (f"{BINDING} rollcall-net-opted-in", Text("exists")),
        ],
    ),
    "wanted, and there": ("Deny", changing(""), []),
    "filled in by the API server": ("Deny", changing(POLICY, failurePolicy="Fail"), []),
    "wanted, and a binding is missing": (
        "Deny",
        changing("")[:2],
        [(f"{BINDING} rollcall-net-opted-in", "it is missing")],
    ),
    "of another configuration": (
        "Deny",
        changing(POLICY, validations=[]),
        [(f"{POLICY} rollcall-net", Text("validations"))],
    ),
    "bound otherwise": (
        "Deny",
        changing(BINDING, validationActions=["Audit"]),
        [
            (f"{BINDING} rollcall-net", "its validationActions are Audit and not Deny"),
            (f"{BINDING} rollcall-net-opted-in", "its validationActions are Audit and not Deny"),
        ],
    ),
}


@pytest.mark.parametrize(("wanted", "objects", "said"), NETS.values(), ids=NETS)
def test_the_net_must_match_the_configuration(
    wanted: str, objects: list[Manifest], said: list[tuple[str, str]]
) -> None:
    found = reported(installed(*objects, settings=configured(registration={"net": wanted})), "net/registered")
    assert found == [(Severity.WARNING, *one) for one in said]


OPTIONS = {
    "files": Options("rollcall:1"),
    "cert-manager": Options("rollcall:1", cert_manager=True),
    "self-managed": Options("rollcall:1", reconciler=ReconcilerPlace.DEPLOYMENT),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_all_our_manifests_pass_the_registration_checks(name: str) -> None:
    """Only the checks of applied objects, not those of running components."""
    modes = {"self-managed": {"mode": "selfManaged"}}.get(name, {})
    settings = configured(registration={"net": "Deny"}, certificates=modes)
    snapshot = installed(*installed_objects(settings, OPTIONS[name]), settings=settings, without=_PRINTED)
    checks = ("webhooks/registered", "webhooks/as-printed", "webhooks/out-of-the-way", "webhooks/registered-twice")
    assert reported(snapshot, *checks, "net/registered", "server/service", "server/disruption-budget") == []
    assert list(endpoints(snapshot)) == [Endpoint(f"10.0.0.{number}", 8443, HOST) for number in (0, 1)]


_PRINTED = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Service", "PodDisruptionBudget")


def test_webhooks_without_an_installation_would_refuse_every_gang() -> None:
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    everything_else = installed(without=kinds)
    nothing = installed(without=(*kinds, "Service"))
    assert all("manifests webhooks " in one for one in remedies(everything_else, "webhooks/registered"))
    assert all("manifests all " in one for one in remedies(nothing, "webhooks/registered"))
