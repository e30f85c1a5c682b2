"""The templates: each object of an installation in each mode, with the values in their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from webhook.config.settings import Serving, Settings, Tracing
from webhook.installation.cert_manager import INJECTED
from webhook.installation.chart.autoscaling import REPLICAS, autoscaling
from webhook.installation.chart.features import NAMESPACE, SELF_MANAGED, Feature, roles
from webhook.installation.chart.helpers import MODES, helpers
from webhook.installation.chart.hooks import configuration_template
from webhook.installation.chart.net import net_template
from webhook.installation.chart.network import PORTS, TRACING_PORT, network_policy, places, with_clients, with_ports
from webhook.installation.chart.rights import of_features, role_rules
from webhook.installation.chart.template import Place, Words, conditional, put, resolved
from webhook.installation.chart.uninstalling import uninstalling
from webhook.installation.everything import TOPICS
from webhook.installation.kustomize import Dump
from webhook.installation.names import SERVER
from webhook.installation.options import Configuration, Options, Reconciler
from webhook.installation.pod_network import Network
from webhook.model.reading import Manifest

# A placeholder that occurs nowhere else in the text.
_DRAIN_SECONDS = 99_000
_FEATURES = '{{- $features := include "rollcall.features" . | fromJsonArray }}\n'
_EXCLUDED = (
    '{{- $excluded := dig "registration" "excludedNamespaces" list .Values.configuration }}\n'
    "{{- $excluded = without $excluded .Release.Namespace }}\n"
)
_NOT_EXEMPT = '{{- $notExempt := printf "!(request.userInfo.username in %s)" (include "rollcall.exemptUsers" .) }}\n'
_HEAD = {
    "rights": _FEATURES,
    # YAML 1.1 reads a plain `off` as false.
    "net": f"""\
{_FEATURES}{_EXCLUDED}\
{{{{- $net := dig "registration" "net" "off" .Values.configuration | default "off" }}}}
""",
    "webhooks": f"{_FEATURES}{_EXCLUDED}"
    + """\
{{- $failurePolicy := dig "registration" "failurePolicy" %(failure_policy)s .Values.configuration }}
{{- $timeoutSeconds := dig "registration" "timeoutSeconds" %(timeout_seconds)s .Values.configuration }}
{{- $annotations := dict }}
{{- if .Values.certManager.enabled }}
{{- $annotations = dict "%(injected)s" (printf "%%s/%(server)s" .Release.Namespace) }}
{{- end }}
""",
}
_MODE = '{{- $mode := include "rollcall.mode" . }}\n'
# Conditions of the topics and objects that depend on a value.
_WHERE = {
    "quota": 'eq .Values.priorityClassName "system-cluster-critical"',
    "certificates": ".Values.certManager.enabled",
    "network": ".Values.networkPolicy.enabled",
}
_WHERE_TRACED = 'dig "tracing" "endpoint" "" .Values.configuration'
_NOTES = """\
Rollcall {{ .Chart.AppVersion }} is in the namespace {{ .Release.Namespace }}.
{{- $mode := include "rollcall.mode" . }}
{{- if eq $mode "selfManaged" }}

The reconciler makes the certificates now and fills the caBundle in. Until then gang pods are refused
{{- else if .Values.certManager.enabled }}

cert-manager makes the certificates now and fills the caBundle in. Until then gang pods are refused
{{- else if .Values.certificates.caBundle }}

The Secret rollcall-tls is yours to keep. Until a server has read it gang pods are refused
{{- else }}

Nobody fills the caBundle in: set certificates.caBundle, certManager.enabled, or the configuration's
certificates.mode: selfManaged. Until then gang pods are refused
{{- end }}
{{- if eq (dig "registration" "failurePolicy" "Fail" .Values.configuration) "Ignore" }}, or rather admitted as they are
{{- end }}. Wait for

  kubectl -n {{ .Release.Namespace }} rollout status deployment/rollcall
{{- if .Values.hostNetwork }}

The nodes' network is for namespaces of the Pod Security level privileged alone, and no NetworkPolicy has an effect
there:

  kubectl label namespace {{ .Release.Namespace }} --overwrite pod-security.kubernetes.io/enforce=privileged
{{- else }}

The namespace should enforce the Pod Security level that all Pods here keep to:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
{{- end }}

When admission blocks what it should not, docs/how-to/emergency.md is one page.
"""


_POD = ("spec", "template", "spec")
_OF_PODS = (
    Place(("spec", "template", "metadata", "annotations"), ".Values.podAnnotations", optional=True),
    Place((*_POD, "priorityClassName"), ".Values.priorityClassName", optional=True),
    Place((*_POD, "nodeSelector"), ".Values.nodeSelector", optional=True),
    Place((*_POD, "tolerations"), ".Values.tolerations", optional=True),
    Place((*_POD, "affinity"), ".Values.affinity", optional=True),
    Place((*_POD, "imagePullSecrets"), ".Values.imagePullSecrets", optional=True),
)


def templates(features: Sequence[Feature], dump: Dump) -> Mapping[str, str]:
    """The text of each template by its name."""
    always = features[0].settings
    plain = Settings(always.profiles, always.default, serving=Serving(drain_seconds=_DRAIN_SECONDS))
    plain = replace(plain, tracing=Tracing(f"https://traces:{TRACING_PORT}"))
    found = {
        "_helpers.tpl": helpers(features),
        "NOTES.txt": _NOTES,
        "autoscaling.yaml": autoscaling(dump),
        "uninstalling.yaml": resolved(uninstalling(features, dump)),
    }
    for topic in TOPICS:
        if topic == "webhooks":
            found[f"{topic}.yaml"] = _webhooks(features, dump)
        elif topic == "net":
            found[f"{topic}.yaml"] = _HEAD[topic] + net_template(features, dump)
        elif topic != "namespace":
            found[f"{topic}.yaml"] = _topic(topic, plain, features, dump)
    return found


def _webhooks(features: Sequence[Feature], dump: Dump) -> str:
    registration = Settings({}, "").registration
    head = _NOT_EXEMPT + _HEAD["webhooks"] % {
        "failure_policy": f'"{registration.failure_policy}"',
        "timeout_seconds": registration.timeout_seconds,
        "injected": INJECTED,
        "server": SERVER,
    }
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return head + "".join(f"---\n{configuration_template(kind, features, dump)}" for kind in kinds)


def _topic(topic: str, settings: Settings, features: Sequence[Feature], dump: Dump) -> str:
    """The objects of a topic: once if all modes have the same, else once for each mode."""
    by_object: dict[tuple[str, str], dict[str, str]] = {}
    for mode, made in _modes(topic, settings):
        for manifest in made:
            key = (manifest["kind"], manifest["metadata"]["name"])
            by_object.setdefault(key, {})[mode] = _object(manifest, features, dump)
    text = "".join(_of_modes(key, texts, features) for key, texts in by_object.items())
    where = _WHERE.get(topic)
    return _MODE + _HEAD.get(topic, "") + (text if where is None else conditional(where, text))


def _modes(topic: str, settings: Settings) -> Iterator[tuple[str, list[Manifest]]]:
    for mode in MODES:
        own = mode == SELF_MANAGED
        options = Options(
            image="theimage",
            namespace=NAMESPACE,
            configuration=Configuration("thename", "thetext"),
            reconciler=Reconciler.DEPLOYMENT if own else Reconciler(mode),
            cert_manager=not own,
            network=Network(PORTS),
        )
        chosen = replace(settings, certificates=replace(settings.certificates, self_managed=own))
        yield mode, TOPICS[topic](chosen, options)


def _of_modes(key: tuple[str, str], texts: Mapping[str, str], features: Sequence[Feature]) -> str:
    by_text: dict[str, list[str]] = {}
    for mode, text in texts.items():
        by_text.setdefault(text, []).append(mode)
    found = ""
    for text, modes in by_text.items():
        names = " ".join(f'"{mode}"' for mode in modes)
        found += text if len(modes) == len(MODES) else conditional(f"has $mode (list {names})", text)
    condition = of_features(*key, features, lambda feature: roles(feature.settings)) if "Role" in key[0] else ""
    if key[1] == "rollcall-tracing":
        condition = _WHERE_TRACED
    elif key == ("NetworkPolicy", SERVER):
        condition = "not .Values.hostNetwork"
    return conditional(condition, found) if condition and len(texts) == len(MODES) else found


def _object(manifest: Manifest, features: Sequence[Feature], dump: Dump) -> str:
    """One YAML document, with the values in their places."""
    words, kind, name = Words(), manifest["kind"], manifest["metadata"]["name"]
    if kind in {"Role", "ClusterRole"}:
        head = {key: value for key, value in manifest.items() if key != "rules"}
        return "---\n" + words.resolved(dump(head)) + role_rules(kind, name, features)
    if kind == "ConfigMap":
        whole = {**manifest, "metadata": {**manifest["metadata"], "name": words.inline(_NAMED)}}
        text = words.resolved(dump({key: value for key, value in whole.items() if key != "data"}))
        (file,) = manifest["data"]
        return f'---\n{text}data:\n  {file}: |\n    {{{{- include "rollcall.configuration" . | nindent 4 }}}}\n'
    if kind == "Deployment":
        for place in (*_places(manifest), *places(manifest)):
            word = (words.optional if place.optional else words.inline)(place.expression)
            manifest = put(manifest, place.path, word)
        manifest = with_clients(manifest, words)
    if kind == "NetworkPolicy":
        manifest = network_policy(manifest, words)
    return "---\n" + with_ports(words.resolved(dump(manifest)))


_NAMED = 'include "rollcall.configurationName" .'
_DRAINED = '(dig "serving" "drainSeconds" %d .Values.configuration | int)'


def _places(deployment: Manifest) -> Iterator[Place]:
    if deployment["metadata"]["name"] == SERVER:
        yield Place(("spec", "replicas"), REPLICAS, optional=True)
    else:
        yield Place(("spec", "replicas"), ".Values.reconciler.replicas")
    yield from _OF_PODS
    pod = deployment["spec"]["template"]["spec"]
    grace = pod["terminationGracePeriodSeconds"] - _DRAIN_SECONDS
    if grace > 0:
        drained = _DRAINED % Serving().drain_seconds
        yield Place((*_POD, "terminationGracePeriodSeconds"), f"add {grace} {drained}")
    for index, container in enumerate(pod["containers"]):
        place = (*_POD, "containers", index)
        values = ".Values" if container["name"] == "server" else ".Values.reconciler"
        yield Place((*place, "image"), 'include "rollcall.image" . | quote')
        yield Place((*place, "imagePullPolicy"), ".Values.image.pullPolicy", optional=True)
        yield Place((*place, "resources"), f"toJson {values}.resources")
    for index, volume in enumerate(pod["volumes"]):
        if volume["name"] == "configuration":
            yield Place((*_POD, "volumes", index, "configMap", "name"), _NAMED)
