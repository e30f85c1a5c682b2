{{- /*
A feature is a part of the configuration that adds rules to roles, webhooks or the ValidatingAdmissionPolicy: a profile
with those of its settings that matter here ("volcano", "default-scheduler gangScheduling=true"), "gate", "escapes",
"admissionCheck" and "selfManaged". Each configuration has the feature "always". The files of the folder `files` list
what each feature adds.
*/}}

{{- /* The profiles of the configuration, as JSON. default-scheduler is always one of them. */}}
{{- define "rollcall.profiles" -}}
{{- $profiles := dig "scheduler" "profiles" list .Values.configuration | default list }}
{{- $names := list }}
{{- range $profiles }}
{{- $names = append $names .name }}
{{- end }}
{{- if not (has "default-scheduler" $names) }}
{{- $profiles = append $profiles (dict "name" "default-scheduler") }}
{{- end }}
{{- toJson $profiles }}
{{- end }}

{{- /* The features of the configuration, as JSON. */}}
{{- define "rollcall.features" -}}
{{- $backends := .Files.Get "files/profiles.yaml" | fromYaml }}
{{- $features := list "always" }}
{{- range $profile := include "rollcall.profiles" . | fromJsonArray }}
{{- $backend := index $backends $profile.name }}
{{- $feature := $profile.name }}
{{- range $key, $default := $backend.settings }}
{{- $feature = printf "%s %s=%v" $feature $key (dig $key $default ($profile.config | default dict)) }}
{{- end }}
{{- $features = append $features $feature }}
{{- if ternary $profile.gate $backend.gate (kindIs "bool" $profile.gate) }}
{{- $features = append $features "gate" }}
{{- end }}
{{- end }}
{{- if dig "escapes" "delete" list .Values.configuration }}
{{- $features = append $features "escapes" }}
{{- end }}
{{- if has (dig "kueue" "admissionCheck" "off" .Values.configuration) (list "audit" "on" true) }}
{{- $features = append $features "admissionCheck" }}
{{- end }}
{{- if include "rollcall.selfManaged" . }}
{{- $features = append $features "selfManaged" }}
{{- end }}
{{- uniq $features | toJson }}
{{- end }}

{{- /* What `features` add according to `of`, a list for each feature, as JSON. */}}
{{- define "rollcall.added" -}}
{{- $found := list }}
{{- range .features }}
{{- $found = concat $found (index $.of . | default list) }}
{{- end }}
{{- uniq $found | toJson }}
{{- end }}

{{- /* The rules of the role `role`, each with the verbs that the features need. */}}
{{- define "rollcall.rules" -}}
{{- $features := include "rollcall.features" .root | fromJsonArray }}
{{- $roles := tpl (.root.Files.Get "files/rights.yaml") .root | fromYaml }}
{{- $rules := list }}
{{- range index $roles .role }}
{{- $verbs := include "rollcall.added" (dict "features" $features "of" .verbs) | fromJsonArray }}
{{- if $verbs }}
{{- $rules = append $rules (set . "verbs" $verbs) }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* The users whose gang objects are not judged, as JSON: Rollcall, the schedulers' controllers, and others. */}}
{{- define "rollcall.exemptUsers" -}}
{{- $backends := .Files.Get "files/profiles.yaml" | fromYaml }}
{{- $users := list }}
{{- range list "rollcall" "rollcall-reconciler" }}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.Release.Namespace .) }}
{{- end }}
{{- $users = dig "tenancy" "reconcilers" list .Values.configuration | default $users }}
{{- $users = concat $users (dig "tenancy" "exemptUsers" list .Values.configuration | default list) }}
{{- range $profile := include "rollcall.profiles" . | fromJsonArray }}
{{- $backend := index $backends $profile.name }}
{{- $users = concat $users (kindIs "slice" $profile.controllers | ternary $profile.controllers $backend.controllers) }}
{{- end }}
{{- uniq $users | sortAlpha | toJson }}
{{- end }}
