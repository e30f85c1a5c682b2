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

{{- /* What listens where, and what cannot be had together. */}}
{{- define "rollcall.network" -}}
{{- $ports := list }}
{{- range $name := list "serving" "next" "health" "reconciler" }}
{{- $port := index $.Values.ports $name | int }}
{{- if has $port $ports }}
{{- fail (printf "ports.%s: another of the ports is %d, too" $name $port) }}
{{- end }}
{{- $ports = append $ports $port }}
{{- if and $.Values.hostNetwork (lt $port 1024) }}
{{- fail (printf "ports.%s: with hostNetwork Rollcall, which has no privileges, cannot listen on %d" $name $port) }}
{{- end }}
{{- if and $.Values.hostNetwork (eq $port 10250) }}
{{- fail (printf "ports.%s: with hostNetwork port %d is the kubelet's; choose another and open it" $name $port) }}
{{- end }}
{{- end }}
{{- if and .Values.hostNetwork .Values.networkPolicy.from }}
{{- fail "networkPolicy.from: NetworkPolicies have no effect with hostNetwork; use the nodes' firewall" }}
{{- end }}
{{- end }}

{{- /* What lets processes without privileges listen on these ports, the lowest too. */}}
{{- define "rollcall.sysctls" -}}
{{- $lowest := 1024 }}
{{- range . }}
{{- $lowest = min $lowest . }}
{{- end }}
{{- $found := list }}
{{- if lt $lowest 1024 }}
{{- $found = list (dict "name" "net.ipv4.ip_unprivileged_port_start" "value" (toString $lowest)) }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* Whose certificates callers must show: arguments, mounts and volumes of the server. */}}
{{- define "rollcall.clients" -}}
{{- $found := dict "arguments" list "mounts" list "volumes" list }}
{{- $names := .Values.clientCertificates.names }}
{{- if and $names (not .Values.clientCertificates.authority) }}
{{- fail "clientCertificates.names: they need clientCertificates.authority" }}
{{- end }}
{{- with .Values.clientCertificates.authority }}
{{- $name := regexReplaceAll "^[a-z]+/" . "" }}
{{- $arguments := (list "--client-ca=/etc/rollcall/clients/ca.crt") }}
{{- range $names }}
{{- $arguments = append $arguments (printf "--client-name=%s" .) }}
{{- end }}
{{- $mounts := list (dict "name" "clients" "mountPath" "/etc/rollcall/clients" "readOnly" true) }}
{{- $volumes := list (dict "name" "clients" "projected" (dict "defaultMode" 292 "sources" (list (dict "configMap" (dict "name" $name "items" (list (dict "key" "ca.crt" "path" "ca.crt"))))))) }}
{{- if hasPrefix "secret/" . }}
{{- $volumes = list (dict "name" "clients" "projected" (dict "defaultMode" 292 "sources" (list (dict "secret" (dict "name" $name "items" (list (dict "key" "ca.crt" "path" "ca.crt"))))))) }}
{{- end }}
{{- $found = dict "arguments" $arguments "mounts" $mounts "volumes" $volumes }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* Others live in these: none of their gangs would be judged. */}}
{{- define "rollcall.own" -}}
{{- if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") }}
{{- $why := "is no place for Rollcall, for no gang in it would be judged; take -n rollcall-system" }}
{{- fail (printf "namespace %q %s" .Release.Namespace $why) }}
{{- end }}
{{- end }}

{{- /* Whose gang objects are not judged: ours, those of the schedulers' controllers, and of the users named. */}}
{{- define "rollcall.exemptUsers" -}}
{{- $ours := list (printf "system:serviceaccount:%s:rollcall" .Release.Namespace) (printf "system:serviceaccount:%s:rollcall-reconciler" .Release.Namespace) }}
{{- $users := dig "tenancy" "reconcilers" list .Values.configuration | default $ours }}
{{- $users = concat $users (dig "tenancy" "exemptUsers" list .Values.configuration | default list) }}
{{- $controllers := (dict "default-scheduler" (list "system:serviceaccount:kube-system:job-controller" "system:kube-controller-manager") "koord-scheduler" (list "system:serviceaccount:koordinator-system:koord-scheduler") "volcano" (list "system:serviceaccount:volcano-system:volcano-controllers" "system:serviceaccount:volcano-system:volcano-scheduler") "kai-scheduler" (list "system:serviceaccount:kai-scheduler:pod-grouper" "system:serviceaccount:kai-scheduler:podgroup-controller" "system:serviceaccount:kai-scheduler:queue-controller" "system:serviceaccount:kai-scheduler:scheduler") "lpx-scheduler" list "scheduler-plugins-scheduler" list) }}
{{- range $profile := dig "scheduler" "profiles" list .Values.configuration }}
{{- $own := index $controllers $profile.name }}
{{- $users = concat $users (kindIs "slice" $profile.controllers | ternary $profile.controllers $own) }}
{{- $controllers = unset $controllers $profile.name }}
{{- end }}
{{- $users = concat $users (get $controllers "default-scheduler" | default list) }}
{{- uniq $users | sortAlpha | toJson }}
{{- end }}

{{- /* On what rights and hooks depend. */}}
{{- define "rollcall.features" -}}
{{- $found := list "always" }}
{{- $gated := (dict "default-scheduler" false "koord-scheduler" true "volcano" false "kai-scheduler" false "lpx-scheduler" false "scheduler-plugins-scheduler" false) }}
{{- $named := list }}
{{- range $profile := dig "scheduler" "profiles" list .Values.configuration }}
{{- $named = append $named $profile.name }}
{{- $config := $profile.config | default dict }}
{{- if and (eq $profile.name "default-scheduler") (eq (dig "gangScheduling" false $config | toString) "false") }}
{{- $found = append $found "default-scheduler gangScheduling=false" }}
{{- end }}
{{- if and (eq $profile.name "default-scheduler") (eq (dig "gangScheduling" false $config | toString) "true") }}
{{- $found = append $found "default-scheduler gangScheduling=true" }}
{{- end }}
{{- if eq $profile.name "koord-scheduler" }}
{{- $found = append $found "koord-scheduler" }}
{{- end }}
{{- if eq $profile.name "volcano" }}
{{- $found = append $found "volcano" }}
{{- end }}
{{- if eq $profile.name "kai-scheduler" }}
{{- $found = append $found "kai-scheduler" }}
{{- end }}
{{- if eq $profile.name "lpx-scheduler" }}
{{- $found = append $found "lpx-scheduler" }}
{{- end }}
{{- if eq $profile.name "scheduler-plugins-scheduler" }}
{{- $found = append $found "scheduler-plugins-scheduler" }}
{{- end }}
{{- if ternary $profile.gate (index $gated $profile.name) (kindIs "bool" $profile.gate) }}
{{- $found = append $found "gate" }}
{{- end }}
{{- end }}
{{- if not (has "default-scheduler" $named) }}
{{- $found = append $found "default-scheduler gangScheduling=false" }}
{{- end }}
{{- if dig "escapes" "delete" list .Values.configuration }}
{{- $found = append $found "escapes" }}
{{- end }}
{{- if eq (include "rollcall.mode" .) "selfManaged" }}
{{- $found = append $found "selfManaged" }}
{{- end }}
{{- toJson (uniq $found) }}
{{- end }}
