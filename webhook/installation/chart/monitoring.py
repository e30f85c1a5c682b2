"""What watches Rollcall as templates: the files of `manifests/monitoring`, each where a value asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.installation.chart.template import conditional
from webhook.installation.names import NAMESPACE

# Each file, and the value by which it is there.
FILES = {
    "service-monitor.yaml": "monitoring.serviceMonitor",
    "alerts.yaml": "monitoring.alerts",
    "dashboard.yaml": "monitoring.dashboard",
}


def monitoring(texts: Mapping[str, str]) -> Mapping[str, str]:
    """The templates, of the texts by their files' names. What is a template to Prometheus or Grafana stays one."""
    return {name: conditional(f".Values.{FILES[name]}", _template(text)) for name, text in texts.items()}


def _template(text: str) -> str:
    escaped = text.replace("{{", '{{ "{{" }}')
    return escaped.replace(NAMESPACE, "{{ .Release.Namespace }}")
