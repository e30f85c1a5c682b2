{{- /*
A feature is a part of the configuration that adds rules to roles, webhooks or the ValidatingAdmissionPolicy: a profile
A feature is a part of the configuration that adds rules to roles, webhooks or the ValidatingAdmissionPolicy: a profile
with those of its settings that matter here ("volcano", "default-scheduler gangScheduling=true"), each of these with the
audit ("audit volcano") and as a shadow ("shadow volcano"), "gate", "escapes", "remedies CAUSE", "admissionCheck" and
"selfManaged". Each configuration has the feature "always". The files of the folder `files` list what each feature adds.
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

{{- /* The WorkloadShapes of the configuration, as JSON: the `spec` of each. */}}
{{- define "rollcall.shapes" -}}
{{- $shapes := list }}
{{- range dig "workloads" "shapes" list .Values.configuration | default list }}
{{- $shapes = append $shapes .spec }}
{{- end }}
{{- toJson $shapes }}
{{- end }}

{{- /*
The kinds of the built-in shapes that the configuration disables, as JSON: group and plural. LeaderWorkerSets need
StatefulSets, whatever the configuration says.
*/}}
{{- define "rollcall.disabledKinds" -}}
{{- $shapes := (.Files.Get "files/webhooks.yaml" | fromYaml).shapes }}
{{- $found := list }}
{{- range dig "workloads" "disabled" list .Values.configuration | default list }}
{{- with index $shapes . }}
{{- if ne .plural "statefulsets" }}
{{- $found = append $found (printf "%s/%s" .group .plural) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* The feature of the profile `profile`: its scheduler, and those of its settings that matter here. */}}
{{- define "rollcall.feature" -}}
{{- $feature := .profile.name }}
{{- $config := .profile.config | default dict }}
{{- range $key, $default := (index .backends .profile.name).settings }}
{{- $feature = printf "%s %s=%v" $feature $key (dig $key $default $config) }}
{{- end }}
{{- $feature }}
{{- end }}

{{- /* The features of what the shadows of the configuration judge by, as JSON: the server reads their facts. */}}
{{- define "rollcall.shadowFeatures" -}}
{{- $backends := .Files.Get "files/profiles.yaml" | fromYaml }}
{{- $found := list }}
{{- range $shadow := dig "shadow" list .Values.configuration | default list }}
{{- if kindIs "map" $shadow }}
{{- $values := dict "Values" (dict "configuration" (index $.Values.shadowConfigurations $shadow.config)) }}
{{- $found = concat $found (include "rollcall.profiles" $values | fromJsonArray) }}
{{- else }}
{{- $profile := dict "name" $shadow }}
{{- range include "rollcall.profiles" $ | fromJsonArray }}
{{- if eq .name $shadow }}
{{- $profile = . }}
{{- end }}
{{- end }}
{{- $found = append $found $profile }}
{{- end }}
{{- end }}
{{- $features := list }}
{{- range $found }}
{{- $feature := include "rollcall.feature" (dict "profile" . "backends" $backends) }}
{{- $features = append $features (printf "shadow %s" $feature) }}
{{- end }}
{{- uniq $features | toJson }}
{{- end }}

{{- /* The features of the configuration, as JSON. */}}
{{- define "rollcall.features" -}}
{{- $backends := .Files.Get "files/profiles.yaml" | fromYaml }}
{{- $features := list "always" }}
{{- range $profile := include "rollcall.profiles" . | fromJsonArray }}
{{- $backend := index $backends $profile.name }}
{{- $features = append $features (include "rollcall.feature" (dict "profile" $profile "backends" $backends)) }}
{{- if ternary $profile.gate $backend.gate (kindIs "bool" $profile.gate) }}
{{- $features = append $features "gate" }}
{{- end }}
{{- end }}
{{- if dig "audit" "openReports" false .Values.configuration }}
{{- range $feature := $features }}
{{- $features = append $features (printf "audit %s" $feature) }}
{{- end }}
{{- end }}
{{- if dig "escapes" "delete" list .Values.configuration }}
{{- $features = append $features "escapes" }}
{{- end }}
{{- range dig "remedies" "causes" list .Values.configuration }}
{{- $features = append $features (printf "remedies %s" .) }}
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
{{- if eq .role "ClusterRole/rollcall-serve" }}
{{- $features = concat $features (include "rollcall.shadowFeatures" .root | fromJsonArray) | uniq }}
{{- end }}
{{- $roles := tpl (.root.Files.Get "files/rights.yaml") .root | fromYaml }}
{{- $left := include "rollcall.disabledKinds" .root | fromJsonArray }}
{{- $rules := list }}
{{- $every := list }}
{{- range index $roles .role }}
{{- $verbs := include "rollcall.added" (dict "features" $features "of" .verbs) | fromJsonArray }}
{{- $kind := printf "%s/%s" (first .apiGroups) (first .resources | trimSuffix "/finalizers") }}
{{- if $verbs }}
{{- $every = append $every (set . "verbs" $verbs) }}
{{- if not (has $kind $left) }}
{{- $rules = append $rules . }}
{{- end }}
{{- end }}
{{- end }}
{{- concat $rules (include "rollcall.shapeRules" (dict "root" .root "role" .role "rules" $every) | fromJsonArray) | toYaml }}
{{- end }}

{{- /*
The rules about the kinds of the configuration's shapes, as JSON: each kind that has gangs needs what Deployments need,
and what stands between such a workload and its pods what ReplicaSets need. Any kind is read to answer Kueue, and listed
for the audit. `rules` are those of the role, also of built-in kinds that are disabled.
*/}}
{{- define "rollcall.shapeRules" -}}
{{- $found := list }}
{{- range $spec := include "rollcall.shapes" .root | fromJsonArray }}
{{- $gang := $spec.gang | default dict }}
{{- $hasGangs := and (ne (default "all" $gang.over) "none") (not $gang.leftTo) }}
{{- range $rule := $.rules }}
{{- $resource := first $rule.resources }}
{{- if and $hasGangs (has $resource (list "deployments" "deployments/finalizers")) }}
{{- $plural := replace "deployments" $spec.for.plural $resource }}
{{- $what := dict "apiGroups" (list $spec.for.group) "resources" (list $plural) }}
{{- $found = append $found (merge $what (dict "verbs" $rule.verbs)) }}
{{- else if and (eq $resource "deployments") (ne $.role "ClusterRole/rollcall-serve") }}
{{- $verbs := has "get" $rule.verbs | ternary (list "get") list }}
{{- if dig "audit" "openReports" false $.root.Values.configuration }}
{{- $verbs = append $verbs "list" }}
{{- end }}
{{- if $verbs }}
{{- $what := dict "apiGroups" (list $spec.for.group) "resources" (list $spec.for.plural) }}
{{- $found = append $found (merge $what (dict "verbs" $verbs)) }}
{{- end }}
{{- else if and $hasGangs (eq $resource "replicasets") }}
{{- range $part := $spec.parts }}
{{- range $link := dig "pod" "chain" list $part }}
{{- if $link.group }}
{{- $what := dict "apiGroups" (list $link.group) "resources" (list $link.plural) }}
{{- $found = append $found (merge $what (dict "verbs" $rule.verbs)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- uniq $found | toJson }}
{{- end }}

{{- /*
An expression for whether a workload that is not Grove's made a pod, with the kinds of the configuration's shapes. A
pod has the label of its scheduler only if it is in a gang.
*/}}
{{- define "rollcall.owned" -}}
{{- $made := list }}
{{- range $spec := include "rollcall.shapes" .root | fromJsonArray }}
{{- range $part := $spec.parts }}
{{- $chain := dig "pod" "chain" list $part }}
{{- $nearest := $chain | empty | ternary $spec.for (append $chain dict | first) }}
{{- if $nearest.group }}
{{- $made = append $made (printf "(o.kind == %q && o.apiVersion.split('/')[0] == %q)" $nearest.kind $nearest.group) }}
{{- end }}
{{- end }}
{{- end }}
{{- $made | empty | ternary .expression (printf "%s || %s)" (trimSuffix ")" .expression) (uniq $made | join " || ")) }}
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
