"""`templates/_helpers.tpl`: which features a configuration has, and their combined result."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.backends.registry import installed_backends
from webhook.installation.chart.features import ALWAYS, ESCAPES, GATE, SELF_MANAGED, Feature
from webhook.installation.chart.network import network_helpers
from webhook.installation.chart.template import literal
from webhook.installation.exempt import own_users
from webhook.installation.names import SHARED_NAMESPACES
from webhook.installation.options import Reconciler
from webhook.validators.selection import DEFAULT_SCHEDULER

# Where the reconciler runs and whether certificates are self-managed: workloads and network depend on it.
MODES = (SELF_MANAGED, *(place.value for place in Reconciler))

_GENERAL = """\
{{- define "rollcall.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- /* Who makes the certificates, and where the reconciler runs. */}}
{{- define "rollcall.mode" -}}
{{- include "rollcall.own" . }}
{{- include "rollcall.network" . }}
{{- if eq (dig "certificates" "mode" "files" .Values.configuration) "selfManaged" }}
{{- if .Values.certManager.enabled }}
{{- fail "certManager.enabled: the reconciler makes the certificates (configuration.certificates.mode: selfManaged)" }}
{{- end -}}
selfManaged
{{- else -}}
{{ .Values.reconciler.placement }}
{{- end }}
{{- end }}

{{- /* The configuration file. */}}
{{- define "rollcall.configuration" -}}
{{- $names := list "default-scheduler" }}
{{- $own := false }}
{{- range dig "scheduler" "profiles" list .Values.configuration }}
{{- if and (has .name $names) (or (ne .name "default-scheduler") $own) }}
{{- fail (printf "configuration.scheduler.profiles: %q is there twice" .name) }}
{{- end }}
{{- $own = or $own (eq .name "default-scheduler") }}
{{- $names = append $names .name }}
{{- end }}
{{- $names = uniq $names }}
{{- $default := dig "scheduler" "defaultProfileName" "" .Values.configuration | default "default-scheduler" }}
{{- if not (has $default $names) }}
{{- $why := printf "%q is none of the profiles (%s)" $default (join ", " $names) }}
{{- fail (printf "configuration.scheduler.defaultProfileName: %s" $why) }}
{{- end }}
{{- toYaml (merge (dict "apiVersion" "rollcall.dev/v1alpha1" "kind" "RollcallConfiguration") .Values.configuration) }}
{{- end }}

{{- /* A name that no other configuration has. */}}
{{- define "rollcall.configurationName" -}}
rollcall-{{ include "rollcall.configuration" . | sha256sum | trunc 10 }}
{{- end }}

{{- define "rollcall.tracingPort" -}}
{{- $url := dig "tracing" "endpoint" "" .Values.configuration | urlParse }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}

{{- define "rollcall.apiServerPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.apiServerPorts }}
{{- $ports = append $ports (dict "protocol" "TCP" "port" (int .)) }}
{{- end }}
{{- toJson $ports }}
{{- end }}

{{- /* What the features that are there have, in their order, each once. */}}
{{- define "rollcall.gathered" -}}
{{- $found := list }}
{{- range $feature := .features }}
{{- range $one := index $.of $feature | default list }}
{{- if not (has $one $found) }}
{{- $found = append $found $one }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* One rule of a role, where any feature wants it. */}}
{{- define "rollcall.rule" }}
{{- $verbs := include "rollcall.gathered" (dict "features" .features "of" .verbs) | fromJsonArray }}
{{- if $verbs }}
{{ toYaml (list (merge (dict "verbs" $verbs) .rule)) }}
{{- end }}
{{- end }}

{{- /* Whether one of these features is there: a word, or nothing. */}}
{{- define "rollcall.any" -}}
{{- range $feature := .features }}
{{- if has $feature $.of }}yes{{ end }}
{{- end }}
{{- end }}
"""


def helpers(features: Sequence[Feature]) -> str:
    """The text of the file."""
    backends = [
        "".join(_profile_feature(feature) for feature in features if feature.scheduler == name)
        for name in installed_backends()
    ]
    ours = " ".join(f"(printf {literal(user)} .Release.Namespace)" for user in own_users("%s"))
    controllers = {name: backend.controllers for name, backend in installed_backends().items()}
    gated = {name: backend.gate for name, backend in installed_backends().items()}
    # This profile always exists, with its defaults.
    default = next(feature.name for feature in features if feature.scheduler == DEFAULT_SCHEDULER and _plain(feature))
    return f"""{_GENERAL}
{network_helpers()}
{{{{- /* Others live in these: none of their gangs would be judged. */}}}}
{{{{- define "rollcall.own" -}}}}
{{{{- if has .Release.Namespace (list {" ".join(literal(name) for name in SHARED_NAMESPACES)}) }}}}
{{{{- $why := "is no place for Rollcall, for no gang in it would be judged; take -n rollcall-system" }}}}
{{{{- fail (printf "namespace %q %s" .Release.Namespace $why) }}}}
{{{{- end }}}}
{{{{- end }}}}

{{{{- /* Whose gang objects are not judged: ours, those of the schedulers' controllers, and of the users named. */}}}}
{{{{- define "rollcall.exemptUsers" -}}}}
{{{{- $ours := list {ours} }}}}
{{{{- $users := dig "tenancy" "reconcilers" list .Values.configuration | default $ours }}}}
{{{{- $users = concat $users (dig "tenancy" "exemptUsers" list .Values.configuration | default list) }}}}
{{{{- $controllers := {literal(controllers)} }}}}
{{{{- range $profile := dig "scheduler" "profiles" list .Values.configuration }}}}
{{{{- $own := index $controllers $profile.name }}}}
{{{{- $users = concat $users (kindIs "slice" $profile.controllers | ternary $profile.controllers $own) }}}}
{{{{- $controllers = unset $controllers $profile.name }}}}
{{{{- end }}}}
{{{{- $users = concat $users (get $controllers {literal(DEFAULT_SCHEDULER)} | default list) }}}}
{{{{- uniq $users | sortAlpha | toJson }}}}
{{{{- end }}}}

{{{{- /* On what rights and hooks depend. */}}}}
{{{{- define "rollcall.features" -}}}}
{{{{- $found := list {literal(ALWAYS)} }}}}
{{{{- $gated := {literal(gated)} }}}}
{{{{- $named := list }}}}
{{{{- range $profile := dig "scheduler" "profiles" list .Values.configuration }}}}
{{{{- $named = append $named $profile.name }}}}
{{{{- $config := $profile.config | default dict }}}}
{"".join(backends)}{{{{- if ternary $profile.gate (index $gated $profile.name) (kindIs "bool" $profile.gate) }}}}
{{{{- $found = append $found {literal(GATE)} }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- if not (has {literal(DEFAULT_SCHEDULER)} $named) }}}}
{{{{- $found = append $found {literal(default)} }}}}
{{{{- end }}}}
{{{{- if dig "escapes" "delete" list .Values.configuration }}}}
{{{{- $found = append $found {literal(ESCAPES)} }}}}
{{{{- end }}}}
{{{{- if eq (include "rollcall.mode" .) {literal(SELF_MANAGED)} }}}}
{{{{- $found = append $found {literal(SELF_MANAGED)} }}}}
{{{{- end }}}}
{{{{- toJson (uniq $found) }}}}
{{{{- end }}}}
"""


def _plain(feature: Feature) -> bool:
    """Whether it is the feature of a profile without settings."""
    fields = installed_backends()[feature.scheduler].settings_model.model_fields
    return all(fields[key].default == value for key, value in feature.when.items())


def _profile_feature(feature: Feature) -> str:
    """The template condition for a profile feature: the profile exists, and its keys have the feature's values, set or
    by default.
    """
    backend = installed_backends()[feature.scheduler]
    conditions = [f"eq $profile.name {literal(feature.scheduler)}"]
    for key, value in feature.when.items():
        default = backend.settings_model.model_fields[key].default
        conditions.append(f"eq (dig {literal(key)} {literal(default)} $config | toString) {literal(_written(value))}")
    condition = conditions[0] if len(conditions) == 1 else "and " + " ".join(f"({one})" for one in conditions)
    return f"{{{{- if {condition} }}}}\n{{{{- $found = append $found {literal(feature.name)} }}}}\n{{{{- end }}}}\n"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
