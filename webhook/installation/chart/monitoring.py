"""The files of `manifests/monitoring` as templates, each included if a value asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.installation.chart.template import conditional
from webhook.installation.names import NAMESPACE

# Each file, and the value that includes it.
FILES = {
    "service-monitor.yaml": "monitoring.serviceMonitor",
    "alerts.yaml": "monitoring.alerts",
    "dashboard.yaml": "monitoring.dashboard",
}


def monitoring(texts: Mapping[str, str]) -> Mapping[str, str]:
    """The templates, from the texts by file name. Template syntax of Prometheus and Grafana is escaped."""
    return {name: conditional(f".Values.{FILES[name]}", _template(text)) for name, text in texts.items()}


def _template(text: str) -> str:
    escaped = text.replace("{{", '{{ "{{" }}')
    return escaped.replace(NAMESPACE, "{{ .Release.Namespace }}")
