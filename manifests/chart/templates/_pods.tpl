{{- /* Fields of both kinds of Pods, and of their containers. */}}

{{- /* The spec of the Pods of `component`, without containers and volumes. `ports` are those that they listen on. */}}
{{- define "rollcall.podSpec" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  # Only this group can read the Secrets.
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
  {{- $lowest := 1024 }}
  {{- range .ports }}
  {{- $lowest = min $lowest . }}
  {{- end }}
  {{- if lt $lowest 1024 }}
  # Unprivileged processes may listen on this port and all higher ones.
  sysctls:
  - name: net.ipv4.ip_unprivileged_port_start
    value: {{ $lowest | quote }}
  {{- end }}
# Preferred, not required: a cluster with one node has all replicas there.
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "rollcall.labels" $.component | nindent 6 }}
  matchLabelKeys:
  - pod-template-hash
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "rollcall.volumes" -}}
# The token of the service account. Kubernetes would give an automatic one to all containers of a Pod.
- name: token
  projected:
    defaultMode: 288 # 0440
    sources:
    - serviceAccountToken:
        path: token
        expirationSeconds: 3607
    - configMap:
        name: kube-root-ca.crt
        items:
        - key: ca.crt
          path: ca.crt
- name: scratch
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
- name: configuration
  configMap:
    name: {{ include "rollcall.configurationName" . }}
    defaultMode: 292 # 0444
{{- end }}

{{- define "rollcall.volumeMounts" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
- name: scratch
  mountPath: /tmp
- name: configuration
  mountPath: /etc/rollcall/configuration
  readOnly: true
{{- end }}

{{- /* Image, security and probes of a container. `port` is the name of its port for health. */}}
{{- define "rollcall.container" -}}
image: {{ include "rollcall.image" .root | quote }}
{{- with .root.Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop:
    - ALL
  readOnlyRootFilesystem: true
# It may take a minute to start, and is restarted after half a minute without an answer.
startupProbe:
  httpGet:
    path: /healthz
    port: {{ .port }}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ .port }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ .port }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{- /* A port of a container. `onHost`: its Pods have the network of their nodes. */}}
{{- define "rollcall.containerPort" -}}
- name: {{ .name }}
  containerPort: {{ int .port }}
  protocol: TCP
  {{- if .onHost }}
  hostPort: {{ int .port }}
  {{- end }}
{{- end }}

{{- /* The reconciler, in its own Pods or in the server's. */}}
{{- define "rollcall.reconciler" -}}
{{- $port := int .Values.ports.reconciler }}
{{- $onHost := and .Values.hostNetwork (include "rollcall.sidecar" .) }}
- name: reconciler
  {{- include "rollcall.container" (dict "root" . "port" "reconciler") | nindent 2 }}
  args:
  - reconcile
  - --config=/etc/rollcall/configuration/configuration.yaml
  - --lease-namespace=$(POD_NAMESPACE)
  - --port={{ $port }}
  env:
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  ports:
  {{- include "rollcall.containerPort" (dict "name" "reconciler" "port" $port "onHost" $onHost) | nindent 2 }}
  resources:
    {{- toYaml .Values.reconciler.resources | nindent 4 }}
  volumeMounts:
  {{- include "rollcall.volumeMounts" . | nindent 2 }}
{{- end }}
