"""The values for the network: the ports, the host network, and the allowed callers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.installation.chart.template import Place, Words, literal, put
from webhook.installation.client_certificates import ClientCertificates
from webhook.installation.names import RECONCILER, SERVER, SERVING_PORT_NAME
from webhook.installation.network import API_SERVER_PORTS
from webhook.installation.pod_network import FIRST_UNPRIVILEGED, KUBELET_PORT, DnsPolicy, Ports
from webhook.model.reading import Manifest

# Placeholder ports that occur nowhere else in the text.
PORTS = Ports(serving=65501, next=65502, health=65503, reconciler=65504)
TRACING_PORT = 65533
# Names of container ports that differ from the name of their value.
_VALUES = {SERVING_PORT_NAME: "serving"}
_NAME = "thenameofclients"

CLIENTS = 'include "rollcall.clients" $ | fromJson'


def network_helpers() -> str:
    """The named templates that these values need."""
    return f"""\
{{{{- /* What listens where, and what cannot be had together. */}}}}
{{{{- define "rollcall.network" -}}}}
{{{{- $ports := list }}}}
{{{{- range $name := list {" ".join(literal(name) for name in Ports._fields)} }}}}
{{{{- $port := index $.Values.ports $name | int }}}}
{{{{- if has $port $ports }}}}
{{{{- fail (printf "ports.%s: another of the ports is %d, too" $name $port) }}}}
{{{{- end }}}}
{{{{- $ports = append $ports $port }}}}
{{{{- if and $.Values.hostNetwork (lt $port {FIRST_UNPRIVILEGED}) }}}}
{{{{- fail (printf "ports.%s: with hostNetwork Rollcall, which has no privileges, cannot listen on %d" $name $port) }}}}
{{{{- end }}}}
{{{{- if and $.Values.hostNetwork (eq $port {KUBELET_PORT}) }}}}
{{{{- fail (printf "ports.%s: with hostNetwork port %d is the kubelet's; choose another and open it" $name $port) }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- if and .Values.hostNetwork .Values.networkPolicy.from }}}}
{{{{- fail "networkPolicy.from: NetworkPolicies have no effect with hostNetwork; use the nodes' firewall" }}}}
{{{{- end }}}}
{{{{- end }}}}

{{{{- /* What lets processes without privileges listen on these ports, the lowest too. */}}}}
{{{{- define "rollcall.sysctls" -}}}}
{{{{- $lowest := {FIRST_UNPRIVILEGED} }}}}
{{{{- range . }}}}
{{{{- $lowest = min $lowest . }}}}
{{{{- end }}}}
{{{{- $found := list }}}}
{{{{- if lt $lowest {FIRST_UNPRIVILEGED} }}}}
{{{{- $found = list (dict "name" "net.ipv4.ip_unprivileged_port_start" "value" (toString $lowest)) }}}}
{{{{- end }}}}
{{{{- toJson $found }}}}
{{{{- end }}}}

{{{{- /* Whose certificates callers must show: arguments, mounts and volumes of the server. */}}}}
{{{{- define "rollcall.clients" -}}}}
{{{{- $found := dict "arguments" list "mounts" list "volumes" list }}}}
{{{{- $names := .Values.clientCertificates.names }}}}
{{{{- if and $names (not .Values.clientCertificates.authority) }}}}
{{{{- fail "clientCertificates.names: they need clientCertificates.authority" }}}}
{{{{- end }}}}
{{{{- with .Values.clientCertificates.authority }}}}
{{{{- $name := regexReplaceAll "^[a-z]+/" . "" }}}}
{{{{- $arguments := {literal(ClientCertificates("configmap", _NAME).arguments)} }}}}
{{{{- range $names }}}}
{{{{- $arguments = append $arguments (printf "--client-name=%s" .) }}}}
{{{{- end }}}}
{{{{- $mounts := list {literal(ClientCertificates("configmap", _NAME).mount)} }}}}
{{{{- $volumes := list {_named(ClientCertificates("configmap", _NAME).volume)} }}}}
{{{{- if hasPrefix "secret/" . }}}}
{{{{- $volumes = list {_named(ClientCertificates("secret", _NAME).volume)} }}}}
{{{{- end }}}}
{{{{- $found = dict "arguments" $arguments "mounts" $mounts "volumes" $volumes }}}}
{{{{- end }}}}
{{{{- toJson $found }}}}
{{{{- end }}}}
"""


def with_ports(text: str) -> str:
    """`text` with the port placeholders replaced by the values."""
    for name, number in PORTS._asdict().items():
        text = text.replace(str(number), f"{{{{ int $.Values.ports.{name} }}}}")
    return text


def places(deployment: Manifest) -> Iterator[Place]:
    """Where these values stand in a Deployment: only the server is called."""
    pod = ("spec", "template", "spec")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    listens = " ".join(f"$.Values.ports.{_value(port)}" for container in containers for port in container["ports"])
    low_ports = f'include "rollcall.sysctls" (list {listens}) | fromJsonArray'
    yield Place((*pod, "securityContext", "sysctls"), low_ports, optional=True)
    if deployment["metadata"]["name"] != SERVER:
        return
    on_host = literal(DnsPolicy.CLUSTER_FIRST_WITH_HOST_NET.value)
    dns_policy = f'.Values.dnsPolicy | default (ternary {on_host} "" .Values.hostNetwork)'
    yield Place((*pod, "hostNetwork"), ".Values.hostNetwork", optional=True)
    yield Place((*pod, "dnsPolicy"), dns_policy, optional=True)
    rolling = ("spec", "strategy", "rollingUpdate")
    yield Place((*rolling, "maxUnavailable"), "ternary 1 0 .Values.hostNetwork")
    yield Place((*rolling, "maxSurge"), "ternary 0 1 .Values.hostNetwork")
    for index, container in enumerate(containers):
        for number, port in enumerate(container["ports"]):
            at = (*pod, "containers", index, "ports", number, "hostPort")
            yield Place(at, f"ternary (int .Values.ports.{_value(port)}) 0 .Values.hostNetwork", optional=True)


def with_clients(deployment: Manifest, words: Words) -> Manifest:
    """The server's Deployment with the authorities of client certificates, each after the serving pair."""
    if deployment["metadata"]["name"] != SERVER:
        return deployment
    pod: tuple[str | int, ...] = ("spec", "template", "spec")
    server, volumes = deployment["spec"]["template"]["spec"]["containers"][0], (*pod, "volumes")
    arguments, mounts = ((*pod, "containers", 0, key) for key in ("args", "volumeMounts"))
    found = put(deployment, arguments, [*server["args"], words.each(f"({CLIENTS}).arguments")])
    pair, *others = server["volumeMounts"]
    found = put(found, mounts, [pair, words.each(f"({CLIENTS}).mounts"), *others])
    pair, *others = deployment["spec"]["template"]["spec"]["volumes"]
    return put(found, volumes, [pair, words.each(f"({CLIENTS}).volumes"), *others])


def network_policy(policy: Manifest, words: Words) -> Manifest:
    """The policy with values for the API servers' ports and the callers; the port for traces follows from the
    configuration.
    """
    name = policy["metadata"]["name"]
    if name == SERVER:
        policy = put(policy, ("spec", "ingress", 0, "from"), words.optional(".Values.networkPolicy.from"))
    for index, rule in enumerate(policy["spec"].get("egress", ())):
        ports: list[Any] = [port["port"] for port in rule["ports"]]
        place: tuple[str | int, ...] = ("spec", "egress", index)
        if ports == list(API_SERVER_PORTS):
            policy = put(policy, (*place, "ports"), words.inline('include "rollcall.apiServerPorts" .'))
        elif ports == [TRACING_PORT]:
            policy = put(policy, (*place, "ports", 0, "port"), words.inline('include "rollcall.tracingPort" .'))
        elif name == RECONCILER and "to" in rule:
            to_servers = f"ternary list {literal(rule['to'])} .Values.hostNetwork"
            policy = put(policy, (*place, "to"), words.optional(to_servers))
    return policy


def _value(port: Manifest) -> str:
    """The name of the value for a container's port."""
    name: str = port["name"]
    return _VALUES.get(name, name)


def _named(volume: Manifest) -> str:
    return literal(volume).replace(literal(_NAME), "$name")
