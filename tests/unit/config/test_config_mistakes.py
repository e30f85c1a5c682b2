"""Mistakes in the configuration file: each with path, value and allowed values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.config.configurations import HEAD, KOORD, problems_of, scheduler
from webhook.config.file import settings_from
from webhook.installation.installed_objects import port_of

KEYS = (
    "apiVersion, kind, scheduler, enforcement, namespaces, registration, escapes, audit, serving, certificates, "
    "tracing, tenancy, grove, kueue, fit, remedies, workloads, exceptions, shadow"
)

MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "not a mapping": ([1], ["the document: [1]: is not a RollcallConfiguration"]),
    "another kind": (
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {}},
        [
            'kind: "ConfigMap": ... (allowed: RollcallConfiguration)',
        ],
    ),
    "an empty document": (
        {},
        [
            "apiVersion: is required (allowed: rollcall.dev/v1alpha1)",
            "kind: is required (allowed: RollcallConfiguration)",
        ],
    ),
    "an unknown key": (
        {**HEAD, "schedulers": {}},
        [f"schedulers: {{}}: is an unknown key; did you mean scheduler? (allowed: {KEYS})"],
    ),
    "a profile without a name": (scheduler({}, KOORD), ["scheduler.profiles[0].name: is required"]),
    "an unknown scheduler": (
        scheduler({"name": "koordinator"}, KOORD),
        [
            'scheduler.profiles[0].name: "koordinator": ... '
            "(allowed: default-scheduler, koord-scheduler, volcano, kai-scheduler, lpx-scheduler, "
            "scheduler-plugins-scheduler)"
        ],
    ),
    "a duplicate profile": (scheduler(KOORD, KOORD), ['scheduler.profiles[1].name: "koord-scheduler": appears twice']),
    "a default that is no profile": (
        scheduler(KOORD, default="volcano"),
        [
            'scheduler.defaultProfileName: "volcano": ... (allowed: koord-scheduler, default-scheduler)',
        ],
    ),
    "a default that is not a string": (
        scheduler(default=7),  # type: ignore[arg-type]
        ["scheduler.defaultProfileName: 7: must be a string..."],
    ),
    "an unknown value": (
        scheduler({**KOORD, "config": {"gangMode": "strict"}}),
        [
            'scheduler.profiles[0].config.gangMode: "strict": is not allowed; did you mean Strict or NonStrict? '
            "(allowed: Strict, NonStrict)"
        ],
    ),
    "an unknown key of a backend": (
        scheduler({**KOORD, "config": {"timeout": 3}}),
        [
            "scheduler.profiles[0].config.timeout: 3: is an unknown key (allowed: gangMode, matchPolicy, "
            "scheduleTimeoutSeconds, defaultQoSClass, topologyKeyMappings, awareNetworkTopology, topologyBinding, "
            "topologyObjects, enableRuntimeQuota, enableCheckParentQuota, disableDefaultQuota)"
        ],
    ),
    "a timeout below one": (
        scheduler({**KOORD, "config": {"scheduleTimeoutSeconds": 0}}),
        ["scheduler.profiles[0].config.scheduleTimeoutSeconds: 0: input should be greater than or equal to 1"],
    ),
    "a number as text": (
        scheduler({**KOORD, "config": {"scheduleTimeoutSeconds": "30"}}),
        ['scheduler.profiles[0].config.scheduleTimeoutSeconds: "30": input should be a valid integer'],
    ),
    "an API that there never was": (
        scheduler(KOORD, {"name": "default-scheduler", "config": {"apiGeneration": "v2"}}),
        [
            'scheduler.profiles[1].config.apiGeneration: "v2": is not allowed '
            "(allowed: auto, v1alpha1, v1alpha2, v1beta1)"
        ],
    ),
    "a version that is none": (
        scheduler({**KOORD, "schedulerVersion": "latest"}),
        ['scheduler.profiles[0].schedulerVersion: "latest": is not a version...'],
    ),
    "a version that YAML takes for a number": (
        scheduler({**KOORD, "schedulerVersion": 1.10}),
        ["scheduler.profiles[0].schedulerVersion: 1.1: must be a string..."],
    ),
    "a version that is too old": (
        scheduler({**KOORD, "schedulerVersion": "1.4.1"}),
        ['scheduler.profiles[0].schedulerVersion: "1.4.1": koord-scheduler before 1.5.0 ...'],
    ),
    "an unknown mode": (
        {**HEAD, "enforcement": {"mode": "enforce"}},
        ['enforcement.mode: "enforce": is not allowed (allowed: deny, warn, audit, off)'],
    ),
    "a rule that fails closed, softened": (
        scheduler({**KOORD, "enforcement": {"rules": {"koordinator/divergent-topology": "warn"}}}),
        ['scheduler.profiles[0].enforcement.rules[koordinator/divergent-topology]: "warn": ... (allowed: deny)'],
    ),
    "a namespace with a scheduler that is no profile": (
        scheduler(KOORD, namespaces={"team-a": {"scheduler": "volcano", "enforcement": "no"}}),
        [
            'namespaces.team-a.enforcement: "no": is not allowed (allowed: deny, warn, audit, off)',
            'namespaces.team-a.scheduler: "volcano": ... (allowed: koord-scheduler, default-scheduler)',
        ],
    ),
    "a policy that there is not": (
        {**HEAD, "registration": {"failurePolicy": "fail"}},
        ['registration.failurePolicy: "fail": is not allowed; did you mean Fail? (allowed: Fail, Ignore)'],
    ),
    "a timeout above the API server's": (
        {**HEAD, "registration": {"timeoutSeconds": 31}},
        ["registration.timeoutSeconds: 31: input should be less than or equal to 30"],
    ),
    "a queue that cannot be, and keys that no label has or that speak of no queue": (
        scheduler(
            {
                "name": "kai-scheduler",
                "config": {"defaultQueue": "Team A", "queueLabelKey": "example.com/team", "nodePoolLabelKey": "a b"},
            },
            default="default-scheduler",
        ),
        [
            'scheduler.profiles[0].config.defaultQueue: "Team A": is not ... of a Queue',
            "scheduler.profiles[0].config.queueLabelKey: \"example.com/team\": must have 'queue' ...",
            'scheduler.profiles[0].config.nodePoolLabelKey: "a b": is not a valid label key',
        ],
    ),
    "a KAI that is too old": (
        scheduler({"name": "kai-scheduler", "schedulerVersion": "0.14.2"}, default="default-scheduler"),
        ['scheduler.profiles[0].schedulerVersion: "0.14.2": kai-scheduler before 0.15.0 ...'],
    ),
    "an audit too often": (
        {**HEAD, "audit": {"openReports": "yes", "everyMinutes": 1}},
        [
            'audit.openReports: "yes": is not allowed (allowed: false, true)',
            "audit.everyMinutes: 1: input should be greater than or equal to 5",
        ],
    ),
    "a kind of escape that there is not": (
        {**HEAD, "escapes": {"delete": ["lost"], "after": 1}},
        [
            'escapes.delete[0]: "lost": is not allowed (allowed: unmutated, stale, foreign)',
            "escapes.after: 1: is an unknown key (allowed: delete)",
        ],
    ),
    "a namespace that cannot be": (
        {**HEAD, "registration": {"excludedNamespaces": ["Team_A"]}},
        ['registration.excludedNamespaces[0]: "Team_A": ... a namespace'],
    ),
    "an exemption for everybody": (
        {**HEAD, "tenancy": {"exemptUsers": ["system:anonymous", "system:serviceaccounts:team-a"]}},
        [
            f'tenancy.exemptUsers[{index}]: "{name}": stands for many users...'
            for index, name in enumerate(("system:anonymous", "system:serviceaccounts:team-a"))
        ],
    ),
    "users without a name, and by a pattern": (
        {**HEAD, "tenancy": {"reconcilers": [""], "exemptUsers": ["system:serviceaccount:*:argocd"]}},
        [
            'tenancy.reconcilers[0]: "": ... a user...',
            'tenancy.exemptUsers[0]: "system:serviceaccount:*:argocd": has a *...',
        ],
    ),
    "an operator by another pattern than that of a namespace": (
        {**HEAD, "tenancy": {"groveOperators": ["system:serviceaccount:*:*"]}},
        ['tenancy.groveOperators[0]: "system:serviceaccount:*:*": has a *...'],
    ),
    "controllers that are everybody": (
        scheduler({**KOORD, "controllers": ["system:authenticated"]}),
        ['scheduler.profiles[0].controllers[0]: "system:authenticated": stands for many users...'],
    ),
    "an authority that ends before what it signed": (
        {**HEAD, "certificates": {"mode": "selfManaged", "caValidityDays": 90, "leafValidityDays": 30}},
        ["certificates.leafValidityDays: 30: ... 29 days ..."],
    ),
    "an overlap that outlasts an authority": (
        {
            **HEAD,
            "certificates": {
                "mode": "selfManaged",
                "caValidityDays": 10,
                "leafValidityDays": 3,
                "overlapSeconds": 86_400,
            },
        },
        ["certificates.leafValidityDays: 3: ... 2 days ..."],
    ),
    "an overlap in which certificates are renewed": (
        {**HEAD, "certificates": {"mode": "selfManaged", "leafValidityDays": 1, "overlapSeconds": 28_945}},
        ["certificates.overlapSeconds: 28945: ... 57888 s ..."],
    ),
    "a collector that is no URL": (
        {**HEAD, "tracing": {"endpoint": "otel:4318"}},
        ['tracing.endpoint: "otel:4318": is not an http:// ...'],
    ),
    "many at once, on every level": (
        {
            "apiVersion": "v1",
            "kind": "RollcallConfiguration",
            "extra": 1,
            "scheduler": {
                "bar": 2,
                "defaultProfileName": "nobody",
                "profiles": [{**KOORD, "gate": "yes", "config": {"gangMode": "x"}}, "text"],
            },
        },
        [
            'apiVersion: "v1": is not allowed (allowed: rollcall.dev/v1alpha1)',
            f"extra: 1: is an unknown key (allowed: {KEYS})",
            "scheduler.bar: 2: is an unknown key (allowed: profiles, defaultProfileName, optOut)",
            'scheduler.profiles[0].gate: "yes": is not allowed (allowed: false, true)',
            'scheduler.profiles[0].config.gangMode: "x": is not allowed (allowed: Strict, NonStrict)',
            'scheduler.profiles[1]: "text": must be a mapping',
            'scheduler.defaultProfileName: "nobody": ... (allowed: koord-scheduler, default-scheduler)',
        ],
    ),
}


def problems(document: Any) -> list[str]:
    return problems_of(lambda document: settings_from(document, "rollcall.yaml"), document)


@pytest.mark.parametrize(("document", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_path_value_and_allowed_values(document: Any, expected: list[str]) -> None:
    require_like(problems(document), expected)


@pytest.mark.parametrize(
    "held",
    [
        {"mode": "selfManaged", "caValidityDays": 91},
        {"mode": "selfManaged", "leafValidityDays": 1, "overlapSeconds": 28_944},
        # Another system maintains the certificates, so these settings have no effect.
        {"mode": "files", "caValidityDays": 1, "leafValidityDays": 825, "overlapSeconds": 86_400},
    ],
)
def test_certificate_lifetimes_must_leave_time_for_a_rotation(held: dict[str, Any]) -> None:
    found = settings_from({**HEAD, "certificates": held}, "rollcall.yaml").certificates
    assert found.self_managed is (held["mode"] == "selfManaged")


@pytest.mark.parametrize(
    ("endpoint", "port"),
    {
        "http://otel": 80,
        "https://otel.example.com/v1/traces": 443,
        "http://token@otel:4318/v1/traces?a=b": 4318,
        "http://[fd00::1]:65535": 65535,
        "http://[::1/": None,
        "http://otel:65536": None,
        "http://otel:0": None,
        "http://otel:http": None,
        "http://": None,
        "http://:4318": None,
        "http://a b/": None,
        "grpc://otel:4317": None,
    }.items(),
)
def test_a_collector_s_url_needs_a_host_and_a_valid_port(endpoint: str, port: int | None) -> None:
    document = {**HEAD, "tracing": {"endpoint": endpoint}}
    if port is None:
        assert len(problems(document)) == 1
    else:
        assert port_of(settings_from(document, "test").tracing.endpoint) == port


def test_the_error_about_an_unknown_rule_offers_the_rules_with_a_similar_id() -> None:
    (problem,) = problems({**HEAD, "enforcement": {"rules": {"koordinator/mnvl": "warn"}}})
    assert problem.startswith('enforcement.rules[koordinator/mnvl]: "warn": ')
    assert "; did you mean koordinator/mnnvl" in problem
    assert len(problem) < 256


def test_the_error_about_a_rule_that_resembles_none_offers_none() -> None:
    (problem,) = problems({**HEAD, "enforcement": {"rules": {"zzzzzz": "warn"}}})
    assert problem.startswith('enforcement.rules[zzzzzz]: "warn": ')
    assert "did you mean" not in problem
