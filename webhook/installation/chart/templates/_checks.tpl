{{- /* Fails if values contradict each other. The schema checks each value by itself. */}}
{{- define "rollcall.checkValues" -}}
{{- include "rollcall.checkNamespace" . }}
{{- include "rollcall.checkProfiles" . }}
{{- include "rollcall.checkShadows" . }}
{{- include "rollcall.checkCertificates" . }}
{{- include "rollcall.checkNetwork" . }}
{{- end }}

{{- /* Gangs in Rollcall's own namespace are not judged, so others must not use it. */}}
{{- define "rollcall.checkNamespace" -}}
{{- if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") }}
{{- $why := "is not for Rollcall: others use it, and gangs in Rollcall's namespace are not judged" }}
{{- fail (printf "namespace %q %s; use -n rollcall-system" .Release.Namespace $why) }}
{{- end }}
{{- end }}

{{- define "rollcall.checkProfiles" -}}
{{- $names := list }}
{{- range dig "scheduler" "profiles" list .Values.configuration }}
{{- if has .name $names }}
{{- fail (printf "configuration.scheduler.profiles: %q is listed twice" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- /* This profile always exists. */}}
{{- $names = prepend $names "default-scheduler" | uniq }}
{{- $default := dig "scheduler" "defaultProfileName" "" .Values.configuration | default "default-scheduler" }}
{{- if not (has $default $names) }}
{{- $why := printf "%q is not one of the profiles (%s)" $default (join ", " $names) }}
{{- fail (printf "configuration.scheduler.defaultProfileName: %s" $why) }}
{{- end }}
{{- end }}

{{- define "rollcall.checkShadows" -}}
{{- range dig "shadow" list .Values.configuration | default list }}
{{- if kindIs "map" . }}
{{- if eq .config "configuration.yaml" }}
{{- fail "configuration.shadow: configuration.yaml is the name of the configuration itself" }}
{{- end }}
{{- if not (hasKey $.Values.shadowConfigurations .config) }}
{{- fail (printf "configuration.shadow: shadowConfigurations has no %q" .config) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rollcall.checkCertificates" -}}
{{- if and .Values.certManager.enabled (include "rollcall.selfManaged" .) }}
{{- fail "certManager.enabled: the reconciler makes the certificates (configuration.certificates.mode: selfManaged)" }}
{{- end }}
{{- if and .Values.clientCertificates.names (not .Values.clientCertificates.authority) }}
{{- fail "clientCertificates.names: they need clientCertificates.authority" }}
{{- end }}
{{- end }}

{{- define "rollcall.checkNetwork" -}}
{{- $ports := list }}
{{- range $name := list "serving" "next" "health" "reconciler" }}
{{- $port := index $.Values.ports $name | int }}
{{- if has $port $ports }}
{{- fail (printf "ports.%s: another port is also %d" $name $port) }}
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
