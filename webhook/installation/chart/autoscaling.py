"""A HorizontalPodAutoscaler for the servers, if a value asks for it; the number of replicas is then not set elsewhere.

It only measures the server's container: a reconciler in the same Pod works on one replica, whatever their number.

Source: Kubernetes documentation, "Horizontal Pod Autoscaling" (container resource metrics, stable since 1.30).
"""

from __future__ import annotations

from webhook.installation.chart.features import NAMESPACE
from webhook.installation.chart.template import Words, conditional
from webhook.installation.deployment import SERVER_COMPONENT, labels_of
from webhook.installation.kustomize import Dump
from webhook.installation.names import SERVER

# With autoscaling, `replicas` is omitted: each apply would reset the autoscaler's value.
REPLICAS = 'ternary "" .Values.replicas .Values.autoscaling.enabled'


def autoscaling(dump: Dump) -> str:
    """The text of the template."""
    words = Words()
    target = {"type": "Utilization", "averageUtilization": words.inline(".Values.autoscaling.cpuPercent")}
    used = {"name": "cpu", "container": "server", "target": target}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": SERVER, "namespace": NAMESPACE, "labels": labels_of(SERVER_COMPONENT)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": SERVER},
            "minReplicas": words.inline(".Values.replicas"),
            "maxReplicas": words.inline("max .Values.replicas .Values.autoscaling.maxReplicas"),
            "metrics": [{"type": "ContainerResource", "containerResource": used}],
        },
    }
    return conditional(".Values.autoscaling.enabled", f"---\n{words.resolved(dump(manifest))}")
