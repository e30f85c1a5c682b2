"""The page `docs/reference/metrics.md`, made from the registries of the two processes: every registered metric, with
the possible values of its labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from webhook.backends.registry import installed_backends
from webhook.cluster.access import Access
from webhook.cluster.sockets import trusting_system
from webhook.config.file import ShadowEntry, choosing_settings, shadow_of
from webhook.config.settings import Enforcement, Settings
from webhook.model.facts import NO_FACTS
from webhook.model.findings import Exceptions, RuleException
from webhook.reconciler.manager import Reconciler
from webhook.server.metrics import ConnectionMetrics
from webhook.server.state import ServerState

_HEAD = """\
# Metrics

Made by `rollcall metrics --output markdown`. Both processes answer `GET /metrics` in Prometheus' text format. Every
series exists from the start, at zero, so a rate or an alert does not have to wait for a first event. All label values
are known at the start: the configuration decides which schedulers, rules and kinds there are, and here all of them are
enabled. [Observability](../how-to/observability.md) says which metrics matter, and what to do when.
"""

# Labels with more values than fit in a table, or that another page lists.
_ELSEWHERE = {
    "rule": "the ids of the [rules](rules/index.md)",
    "version": "the version",
    "exception": "the names of the [exceptions](configuration.md#exceptions)",
    "shadow": "the [shadows](configuration.md#shadow)",
}
SERVER, RECONCILER = "rollcall serve", "rollcall reconcile"
# The label of a bucket, which every histogram has.
_BUCKET = "le"


class MetricFamily(NamedTuple):
    """One metric: its exposed name, its type, and the values of each label."""

    name: str
    kind: str
    help: str
    labels: Mapping[str, tuple[str, ...]]
    # For a metric about kinds of several groups: these kinds, as kubectl writes them.
    kinds: tuple[str, ...] = ()


def reference_settings() -> Settings:
    """Returns the settings with which all metrics have values: topology objects are written, there is an exception, and
    every scheduler is a shadow, too.
    """
    fed = {"topologyBinding": "name", "topologyObjects": "write"}
    backends = installed_backends().items()
    settings = choosing_settings(
        {name: fed for name, backend in backends if set(fed) <= set(backend.settings_model.model_fields)}
    )
    nothing: frozenset[str] = frozenset()
    exception = RuleException("name", nothing, nothing, "", "", datetime.max.replace(tzinfo=UTC))
    shadows = (shadow_of(ShadowEntry(name), settings, Enforcement()) for name in installed_backends())
    return replace(settings, exceptions=Exceptions([exception]), shadows=tuple(shadows))


def metrics_of(settings: Settings) -> dict[str, list[MetricFamily]]:
    # No request is sent: all series exist before the first answer.
    nowhere = Access("https://localhost", trusting_system(), lambda: None)
    state = ServerState(settings, NO_FACTS, None)
    state.follow(nowhere)
    reconciler = Reconciler(settings, nowhere)
    # The reconciler's port registers these.
    ConnectionMetrics(reconciler.metrics.registry)
    registries = {SERVER: state.metrics.registry, RECONCILER: reconciler.metrics.registry}
    return {process: families(registry) for process, registry in registries.items()}


def families(registry: CollectorRegistry) -> list[MetricFamily]:
    metric_families = []
    for metric in registry.collect():
        values: dict[str, dict[str, None]] = {}
        for sample in metric.samples:
            for label, value in sample.labels.items():
                if label != _BUCKET:
                    values.setdefault(label, {})[value] = None
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = {label: tuple(sorted(label_values)) for label, label_values in values.items()}
        of_kinds = (sample.labels for sample in metric.samples if sample.labels.keys() >= {"kind", "group"})
        kinds = {f"{labelled['kind']}.{labelled['group']}".rstrip(".") for labelled in of_kinds}
        metric_families.append(MetricFamily(name, metric.type, metric.documentation, labels, tuple(sorted(kinds))))
    return sorted(metric_families)


def reference(processes: Mapping[str, Iterable[MetricFamily]]) -> str:
    lines = [_HEAD]
    for process, metric_families in processes.items():
        lines += [f"## {process}", "", "| metric | type | labels | what it is |", "|---|---|---|---|"]
        lines += [
            f"| `{family.name}` | {family.kind} | {_labels(family)} | {family.help} |" for family in metric_families
        ]
        lines.append("")
    return "\n".join(lines)


def _labels(family: MetricFamily) -> str:
    if family.kinds:
        return f"`group`, `kind`: {', '.join(f'`{kind}`' for kind in family.kinds)}"
    parts = []
    for label, values in family.labels.items():
        listed = ", ".join(f"`{value}`" for value in values)
        parts.append(f"`{label}`: {_ELSEWHERE.get(label, listed)}")
    return "; ".join(parts)
