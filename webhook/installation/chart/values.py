"""The chart's values, each with default, description and schema. `values.yaml`, its schema and the README's table are
generated from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.installation.containers import RECONCILER_RESOURCES, SERVER_RESOURCES
from webhook.installation.deployment import PRIORITY_CLASS
from webhook.installation.kustomize import Dump
from webhook.installation.names import HEALTH_PORT, NEXT_PORT, RECONCILER_PORT, SERVING_PORT
from webhook.installation.network import API_SERVER_PORTS
from webhook.installation.pod_network import DnsPolicy
from webhook.model.reading import Manifest

_STRING: Manifest = {"type": "string"}
_FLAG: Manifest = {"type": "boolean"}
_COUNT: Manifest = {"type": "integer", "minimum": 1}
_WORDS: Manifest = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECT: Manifest = {"type": "object"}
_OBJECTS: Manifest = {"type": "array", "items": {"type": "object"}}
_PORT: Manifest = {"type": "integer", "minimum": 1, "maximum": 65535}
_PORTS: Manifest = {"type": "array", "minItems": 1, "items": _PORT}
# Enough to detect a typing error: no space, no tag in the repository, and no repository in the tag.
_REPOSITORY: Manifest = {"type": "string", "pattern": r"^[A-Za-z0-9\[][^\s@]*$"}
_TAG: Manifest = {"type": "string", "pattern": r"^[A-Za-z0-9_.@:-]*$"}
_PULLED: Manifest = {"enum": ["", "Always", "IfNotPresent", "Never"]}
_BASE64: Manifest = {"type": "string", "pattern": "^[A-Za-z0-9+/=]*$"}


class Value(NamedTuple):
    """One value: its path, default and JSON schema."""

    path: str
    default: object
    what: str
    schema: Manifest


VALUES = (
    Value("image.repository", "rollcall", "Where the image is: yours, built from the Dockerfile.", _REPOSITORY),
    Value("image.tag", "", "Its tag; the chart's appVersion unless set.", _TAG),
    Value("image.pullPolicy", "", "`Always`, `IfNotPresent` or `Never`; Kubernetes' default unless set.", _PULLED),
    Value("imagePullSecrets", [], "As in a Pod.", _OBJECTS),
    Value("replicas", 2, "How many servers there are; with `autoscaling` how many at least.", _COUNT),
    Value(
        "autoscaling.enabled",
        False,
        "Whether a HorizontalPodAutoscaler says how many servers there are. It needs the API metrics.k8s.io.",
        _FLAG,
    ),
    Value("autoscaling.maxReplicas", 6, "How many servers there are at most.", _COUNT),
    Value(
        "autoscaling.cpuPercent",
        200,
        "The CPU that servers use on average, in percent of `resources.requests.cpu`; one process fills a core, 400 "
        "percent of the default.",
        _COUNT,
    ),
    Value("resources", SERVER_RESOURCES, "Of the server's container.", _OBJECT),
    Value("reconciler.replicas", 2, "How many reconcilers there are where they have a Deployment; one writes.", _COUNT),
    Value(
        "reconciler.placement",
        "deployment",
        "`deployment`: in Pods and with rights of its own. `moving`: the same, and sidecars of an earlier installation "
        "keep their rights meanwhile. `sidecar`: in the server's Pods, which then have the rights of both; not where "
        "the reconciler makes the certificates.",
        {"enum": ["deployment", "moving", "sidecar"]},
    ),
    Value("reconciler.resources", RECONCILER_RESOURCES, "Of its container.", _OBJECT),
    Value("priorityClassName", PRIORITY_CLASS, "Of all Pods; empty for none.", _STRING),
    Value("nodeSelector", {}, "Of all Pods.", _WORDS),
    Value("tolerations", [], "Of all Pods.", _OBJECTS),
    Value("affinity", {}, "Of all Pods, besides their spread over nodes and zones.", _OBJECT),
    Value("podAnnotations", {}, "Of all Pods.", _WORDS),
    Value(
        "hostNetwork",
        False,
        "Whether the server's Pods have the network of their nodes, for API servers that cannot reach Pods "
        "(docs/how-to/managed-clusters.md).",
        _FLAG,
    ),
    Value(
        "dnsPolicy",
        "",
        "Of the server's Pods; `ClusterFirstWithHostNet` with `hostNetwork`, else Kubernetes' default unless set.",
        {"enum": ["", *(policy.value for policy in DnsPolicy)]},
    ),
    Value("ports.serving", SERVING_PORT, "Where containers listen for AdmissionReviews.", _PORT),
    Value("ports.next", NEXT_PORT, "Where they show the next certificate.", _PORT),
    Value("ports.health", HEALTH_PORT, "Where the server tells health and metrics.", _PORT),
    Value("ports.reconciler", RECONCILER_PORT, "Where the reconciler tells health and metrics.", _PORT),
    Value("networkPolicy.enabled", True, "Whether there are NetworkPolicies.", _FLAG),
    Value("networkPolicy.from", [], "Who may call the server, as in a NetworkPolicy; anybody unless set.", _OBJECTS),
    Value(
        "networkPolicy.apiServerPorts",
        list(API_SERVER_PORTS),
        "Where the API servers listen: of their Service, and behind it.",
        _PORTS,
    ),
    Value("monitoring.serviceMonitor", False, "Whether there is a ServiceMonitor (Prometheus' operator).", _FLAG),
    Value("monitoring.alerts", False, "Whether there is a PrometheusRule with the alerts.", _FLAG),
    Value("monitoring.dashboard", False, "Whether there is a ConfigMap with the dashboard, for Grafana.", _FLAG),
    Value(
        "certManager.enabled",
        False,
        "Has cert-manager make the certificates, with `configuration.certificates.mode: files`.",
        _FLAG,
    ),
    Value(
        "certificates.caBundle",
        "",
        "The authority of a certificate of your own (Secret rollcall-tls): PEM in base64. Empty where cert-manager or "
        "the reconciler fills it in.",
        _BASE64,
    ),
    Value(
        "clientCertificates.authority",
        "",
        "The ConfigMap or Secret (`configmap/NAME`, `secret/NAME`) whose `ca.crt` has the authorities of callers: the "
        "API server must show a certificate. None is asked for unless set.",
        {"type": "string", "pattern": r"^((configmap|secret)/[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$", "maxLength": 263},
    ),
    Value(
        "clientCertificates.names",
        [],
        "For which names it must be; any unless set.",
        {"type": "array", "items": {"type": "string", "minLength": 1}},
    ),
)
CONFIGURATION = "The RollcallConfiguration (docs/reference/configuration.md). Rights, hooks and network follow from it."


def values_text(configuration: Manifest, dump: Dump) -> str:
    """The text of `values.yaml`."""
    tree: dict[str, Any] = {}
    for value in VALUES:
        *groups, key = value.path.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[key] = value
    lines = ["# The values of the chart rollcall, each with its default."]
    lines += _lines(tree, "", dump)
    lines += ["", f"# {CONFIGURATION}", *dump({"configuration": configuration}).splitlines()]
    return "\n".join(lines) + "\n"


def values_schema(configuration: Manifest) -> Manifest:
    """`values.schema.json`; `configuration` is the schema of the configuration file."""
    root = _closed({})
    for value in VALUES:
        *groups, key = value.path.split(".")
        place = root
        for group in groups:
            place = place["properties"].setdefault(group, _closed({}))
        place["properties"][key] = {**value.schema, "description": value.what}
    root["properties"]["configuration"] = {**configuration, "description": CONFIGURATION}
    # A null removes a default, and the templates would use an empty value.
    _require_all(root)
    # Helm sets this value if the chart is part of another.
    root["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def values_table(written: Mapping[str, str]) -> Iterator[str]:
    """The rows of the README's table; `written` has each default in one line."""
    yield "| value | default | what it does |"
    yield "|---|---|---|"
    for value in VALUES:
        yield f"| `{value.path}` | `{written[value.path]}` | {value.what} |"
    yield f"| `configuration` | | {CONFIGURATION} |"


def _require_all(schema: dict[str, Any]) -> None:
    """Require all keys: each has a default, so a missing key was removed. Keys of the configuration are optional,
    because Rollcall has their defaults.
    """
    schema["required"] = sorted(schema["properties"])
    for group in schema["properties"].values():
        if group.get("additionalProperties") is False and "description" not in group:
            _require_all(group)


def _closed(properties: Manifest) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _lines(tree: Mapping[str, Any], indent: str, dump: Dump) -> Iterable[str]:
    for key, value in tree.items():
        if isinstance(value, Value):
            yield f"{indent}# {value.what}"
            yield from (f"{indent}{line}" for line in dump({key: value.default}).splitlines())
        else:
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ", dump)
