"""The alerts, the dashboard and the ServiceMonitor: the processes expose the metrics that they query, and each alert is
documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.cli.metric_reference import RECONCILER, SERVER, MetricFamily, metrics_of, reference_settings
from webhook.installation.names import HEALTH_PORT, LABELS, NAMESPACE, RECONCILER_PORT

CHECKOUT = Path(__file__).parents[3]
MONITORING = CHECKOUT / "manifests" / "monitoring"
# What Prometheus adds to whatever it scrapes by a ServiceMonitor, and the bucket of a histogram.
SCRAPED = {"job", "instance", "namespace", "pod", "service", "container", "endpoint"}
BUCKET = "le"
# What API servers count of the calls that fail, as tests/e2e/test_total_outage.py sees it.
_HOOKS = frozenset({"pods.mutate.rollcall.dev", "next.validate.rollcall.dev"})
_ERRORS = frozenset({"calling_webhook_error", "apiserver_internal_error", "no_error"})
OF_API_SERVERS: dict[str, dict[str, frozenset[str]]] = {
    "apiserver_admission_webhook_rejection_count": {"name": _HOOKS, "error_type": _ERRORS},
    "apiserver_admission_webhook_fail_open_count": {"name": _HOOKS},
}

_SELECTED = re.compile(r"\b((?:rollcall|process|apiserver)_[a-z_]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\bby\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\$labels\.([a-z_]+)|\{\{([a-z_]+)\}\}")


@pytest.fixture(scope="module")
def exposed() -> dict[str, MetricFamily]:
    """Every metric of both processes by name, a histogram by those of its series."""
    found: dict[str, MetricFamily] = {}
    for families in metrics_of(reference_settings()).values():
        for family in families:
            names = [family.name]
            if family.kind == "histogram":
                names = [f"{family.name}_{part}" for part in ("bucket", "sum", "count")]
            for name in names:
                known = found.get(name)
                labels = dict(family.labels) if known is None else {**known.labels, **family.labels}
                found[name] = family._replace(labels=labels)
    return found


def manifest(name: str) -> dict[str, Any]:
    found = yaml.safe_load((MONITORING / name).read_text())
    assert isinstance(found, dict)
    return found


def alerts() -> list[dict[str, Any]]:
    return [rule for group in manifest("alerts.yaml")["spec"]["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return dict(json.loads(manifest("dashboard.yaml")["data"]["rollcall.json"]))


def queries() -> Iterator[tuple[str, str]]:
    """The Prometheus queries with their sources, and the labels that are shown."""
    for rule in alerts():
        yield f"{rule['expr']} {' '.join(_shown(str(rule['annotations'])))}", rule["alert"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield f"{target['expr']} {' '.join(_shown(target['legendFormat']))}", panel["title"]


def _shown(text: str) -> Iterator[str]:
    """Each label of a message, as if it were grouped by."""
    return (f"by ({first or second})" for first, second in _SHOWN.findall(text))


@pytest.mark.parametrize(("query", "whose"), [pytest.param(*one, id=one[1]) for one in queries()])
def test_every_queried_metric_is_exposed_with_the_queried_labels(
    query: str, whose: str, exposed: dict[str, MetricFamily]
) -> None:
    selected = _SELECTED.findall(query)
    assert selected, whose
    known: set[str] = set(SCRAPED)
    for name, matchers in selected:
        assert name in exposed or name in OF_API_SERVERS, f"{whose} asks for {name}"
        labels = OF_API_SERVERS.get(name) or exposed[name].labels
        known |= {*labels, *({BUCKET} if name.endswith("_bucket") else ())}
        for label, operator, value in _MATCHER.findall(matchers):
            assert label in labels or label in SCRAPED, f"{whose}: {name} has no label {label}"
            if label in labels:
                wanted = re.compile(value if "~" in operator else re.escape(value))
                assert any(wanted.fullmatch(one) for one in labels[label]), f"{whose}: {label} is never {value}"
    for grouped in _GROUPED.findall(query):
        assert {label.strip() for label in grouped.split(",")} <= known, whose


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in alerts()])
def test_every_alert_has_a_description_and_a_link(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^### (.+)$", (CHECKOUT / page).read_text(), re.MULTILINE)
    assert rule["alert"] in headings
    assert anchor == rule["alert"].lower()
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_every_documented_alert_exists() -> None:
    page = (CHECKOUT / "docs" / "how-to" / "observability.md").read_text()
    told = re.findall(r"^### (Rollcall.+)$", page, re.MULTILINE)
    assert sorted(told) == sorted(rule["alert"] for rule in alerts())
    assert set(re.findall(r"\]\(#(rollcall[a-z]+)\)", page)) <= {name.lower() for name in told}


def test_the_dashboard_queries_each_important_metric(exposed: dict[str, MetricFamily]) -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = {name for query, _ in queries() for name, _ in _SELECTED.findall(query)}
    # Metrics that are neither on the dashboard nor in an alert are listed on purpose.
    assert {family.name for family in exposed.values()} - {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in shown
    } == {
        "process_max_fds",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "rollcall_admission_checks_answered_total",
        "rollcall_admission_checks_pending",
        "rollcall_audit_finished_timestamp_seconds",
        "rollcall_audit_seconds",
        "rollcall_build_info",
        "rollcall_ca_bundle_writes_total",
        "rollcall_cache_lists_total",
        "rollcall_certificate_reloads_total",
        "rollcall_certificate_repairs_total",
        "rollcall_draining",
        "rollcall_escaped_pods_deleted_total",
        "rollcall_exceptions_used_total",
        "rollcall_leaf_expiry_timestamp_seconds",
        "rollcall_lease_lost_total",
        "rollcall_left_alone_total",
        "rollcall_namespaces_held_back",
        "rollcall_opted_out_workloads_total",
        "rollcall_remedies_waiting",
        "rollcall_retries_total",
        "rollcall_rotations_total",
        "rollcall_shadow_seconds_total",
        "rollcall_shadow_unjudged_total",
    }


def test_the_service_monitor_finds_the_ports_of_both_processes() -> None:
    monitor = manifest("service-monitor.yaml")["spec"]
    assert monitor["selector"]["matchLabels"] == LABELS
    assert monitor["namespaceSelector"]["matchNames"] == [NAMESPACE]
    # Else `endpoint`, which of the two was called, would be the name of the port.
    assert all(endpoint["honorLabels"] for endpoint in monitor["endpoints"])
    asked = {endpoint["port"] for endpoint in monitor["endpoints"]}
    served = {
        port["name"]: port["port"]
        for service in yaml.safe_load_all((CHECKOUT / "manifests" / "self-managed" / "services.yaml").read_text())
        for port in service["spec"]["ports"]
    }
    assert {served[name] for name in asked} == {HEALTH_PORT, RECONCILER_PORT}


def test_both_processes_describe_their_common_metrics_in_the_same_way() -> None:
    found = metrics_of(reference_settings())
    server, reconciler = ({one.name: one for one in found[process]} for process in (SERVER, RECONCILER))
    for name in server.keys() & reconciler.keys():
        assert (server[name].kind, server[name].help) == (reconciler[name].kind, reconciler[name].help)
