{{- /* The labels of an object. The argument is its component ("server" or "reconciler"), or "" for none. */}}
{{- define "rollcall.labels" -}}
app.kubernetes.io/name: rollcall
app.kubernetes.io/part-of: rollcall
{{- with . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "rollcall.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- /* "true" if the reconciler makes the certificates, else empty. */}}
{{- define "rollcall.selfManaged" -}}
{{- if eq (dig "certificates" "mode" "files" .Values.configuration) "selfManaged" }}true{{ end }}
{{- end }}

{{- /* "true" if the reconciler runs in the server's Pods, else empty. */}}
{{- define "rollcall.sidecar" -}}
{{- if not (include "rollcall.selfManaged" .) }}
{{- if eq .Values.reconciler.placement "sidecar" }}true{{ end }}
{{- end }}
{{- end }}

{{- /* The configuration file. */}}
{{- define "rollcall.configuration" -}}
{{- toYaml (merge (dict "apiVersion" "rollcall.dev/v1alpha1" "kind" "RollcallConfiguration") .Values.configuration) }}
{{- end }}

{{- /* The text of the files that the configuration names as shadows, by name, as JSON. */}}
{{- define "rollcall.shadowFiles" -}}
{{- $files := dict }}
{{- range dig "shadow" list .Values.configuration | default list }}
{{- if kindIs "map" . }}
{{- $_ := set $files .config (index $.Values.shadowConfigurations .config | toYaml) }}
{{- end }}
{{- end }}
{{- toJson $files }}
{{- end }}

{{- /* The name of the ConfigMap, with a hash of its content. */}}
{{- define "rollcall.configurationName" -}}
{{- $shadows := include "rollcall.shadowFiles" . }}
{{- $text := include "rollcall.configuration" . -}}
rollcall-{{ eq $shadows "{}" | ternary $text (print $text $shadows) | sha256sum | trunc 10 }}
{{- end }}

{{- /* The port that traces are sent to. */}}
{{- define "rollcall.tracingPort" -}}
{{- $url := dig "tracing" "endpoint" "" .Values.configuration | urlParse }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}

{{- /* The namespaces in which nothing is judged, as JSON. */}}
{{- define "rollcall.excludedNamespaces" -}}
{{- $excluded := dig "registration" "excludedNamespaces" list .Values.configuration }}
{{- $excluded = without $excluded .Release.Namespace }}
{{- toJson (concat (list "kube-system" "kube-node-lease") $excluded (list .Release.Namespace)) }}
{{- end }}
