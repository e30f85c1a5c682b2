{{- /* The webhooks that both configurations have. `path` is "mutate" or "validate", `root` the root context. */}}
{{- define "rollcall.webhooks" -}}
- name: podcliquesets.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" . | nindent 2 }}
  namespaceSelector:
    matchExpressions:
    {{- include "rollcall.judgedNamespaces" .root | nindent 4 }}
  rules:
  - apiGroups: [grove.io]
    apiVersions: [v1alpha1]
    resources: [podcliquesets]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  matchConditions:
  {{- include "rollcall.notLeaving" . | nindent 2 }}
- name: pods.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" . | nindent 2 }}
  namespaceSelector:
    matchExpressions:
    {{- include "rollcall.judgedNamespaces" .root | nindent 4 }}
  # Every pod that names a PodGang; no other webhook is for such a pod.
  objectSelector:
    matchExpressions:
    - key: grove.io/podgang
      operator: Exists
  rules:
  {{- include "rollcall.newPods" . | nindent 2 }}
  {{- if eq .path "validate" }}
  {{- include "rollcall.unsealed" . | nindent 2 }}
  {{- end }}
- name: owned-pods.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" . | nindent 2 }}
  namespaceSelector:
    matchExpressions:
    {{- include "rollcall.judgedNamespaces" .root | nindent 4 }}
  objectSelector:
    matchExpressions:
    - key: rollcall.dev/scheduler
      operator: Exists
    - key: grove.io/podgang
      operator: DoesNotExist
  rules:
  {{- include "rollcall.newPods" . | nindent 2 }}
# Opted-in workloads. The label that opts in is on the workload, or (next webhook) on its namespace.
- name: workloads.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" . | nindent 2 }}
  namespaceSelector:
    matchExpressions:
    {{- include "rollcall.judgedNamespaces" .root | nindent 4 }}
  objectSelector:
    matchExpressions:
    - key: rollcall.dev/scheduler
      operator: Exists
  rules:
  {{- include "rollcall.workloadRules" (dict "root" .root "kinds" .kinds "of" "workloads") | nindent 2 }}
  matchConditions:
  {{- include "rollcall.notLeaving" . | nindent 2 }}
- name: workloads-of-namespaces.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" . | nindent 2 }}
  namespaceSelector:
    matchExpressions:
    {{- include "rollcall.judgedNamespaces" .root | nindent 4 }}
    - key: rollcall.dev/scheduler
      operator: Exists
  rules:
  {{- include "rollcall.workloadRules" (dict "root" .root "kinds" .kinds "of" "workloadsOfNamespaces") | nindent 2 }}
  matchConditions:
  {{- include "rollcall.notLeaving" . | nindent 2 }}
  {{- include "rollcall.unlabelled" . | nindent 2 }}
{{- if include "rollcall.selfManaged" .root }}
# Called only by dry runs of the reconciler: it sees whether the API server trusts the next certificate.
- name: next.{{ .path }}.rollcall.dev
  {{- include "rollcall.webhook" (merge (dict "endpoint" "next" "port" 8444 "failurePolicy" "Ignore") .) | nindent 2 }}
  namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ .root.Release.Namespace }}
  objectSelector:
    matchLabels:
      rollcall.dev/next-certificate: {{ .path }}
  rules:
  - apiGroups: ['']
    apiVersions: [v1]
    resources: [configmaps]
    operations: [CREATE]
    scope: Namespaced
{{- end }}
{{- end }}

{{- /*
The rules about workloads: those of the kinds that are built in and not disabled, and those of the shapes of the
configuration, which replace built-in ones of the same kind.
*/}}
{{- define "rollcall.workloadRules" -}}
{{- $left := list }}
{{- range dig "workloads" "disabled" list .root.Values.configuration | default list }}
{{- with index $.kinds.shapes . }}
{{- $left = append $left (printf "%s/%s" .group .plural) }}
{{- end }}
{{- end }}
{{- $own := list }}
{{- range include "rollcall.shapes" .root | fromJsonArray }}
{{- $left = append $left (printf "%s/%s" .for.group .for.plural) }}
{{- if or (eq $.of "workloads") (ne (default "namespace" .optIn) "workload") }}
{{- $what := dict "apiGroups" (list .for.group) "apiVersions" (list (first .for.versions)) "resources" (list .for.plural) }}
{{- $own = append $own (merge $what (dict "operations" (list "CREATE" "UPDATE") "scope" "Namespaced")) }}
{{- end }}
{{- end }}
{{- $rules := list }}
{{- range index .kinds .of }}
{{- if not (has (printf "%s/%s" (first .apiGroups) (first .resources)) $left) }}
{{- $rules = append $rules . }}
{{- end }}
{{- end }}
{{- concat $rules $own | toYaml }}
{{- end }}

{{- /* Whether the controller of a pod is of a kind that is neither built in nor in a shape of the configuration. */}}
{{- define "rollcall.unknownKind" -}}
{{- $left := list }}
{{- range dig "workloads" "disabled" list .root.Values.configuration | default list }}
{{- with index $.kinds.shapes . }}
{{- $left = append $left .controller }}
{{- end }}
{{- end }}
{{- $known := list }}
{{- range .kinds.knownControllers }}
{{- if not (has . $left) }}
{{- $known = append $known . }}
{{- end }}
{{- end }}
{{- range $spec := include "rollcall.shapes" .root | fromJsonArray }}
{{- $known = append $known (printf "%s.%s" $spec.for.kind $spec.for.group) }}
{{- $gang := $spec.gang | default dict }}
{{- if and (ne (default "all" $gang.over) "none") (not $gang.leftTo) }}
{{- range $part := $spec.parts }}
{{- with dig "pod" "chain" list $part }}
{{- $nearest := first . }}
{{- $known = append $known (printf "%s.%s" $nearest.kind $nearest.group | trimSuffix ".") }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $named := "(o.apiVersion.contains('/') ? o.kind + '.' + o.apiVersion.split('/')[0] : o.kind)" }}
{{- $texts := list }}
{{- range uniq $known | sortAlpha }}
{{- $texts = append $texts (. | quote) }}
{{- end }}
{{- $unknown := printf "o.?controller.orValue(false) && !(%s in [%s])" $named (join ", " $texts) }}
- name: unknown-kind
  expression: {{ printf "object.metadata.?ownerReferences.orValue([]).exists(o, %s)" $unknown | toJson }}
{{- end }}

{{- /* What all webhooks have in common. `endpoint`, `port` and `failurePolicy` are optional. */}}
{{- define "rollcall.webhook" -}}
{{- $registration := .root.Values.configuration.registration | default dict -}}
clientConfig:
  service:
    namespace: {{ .root.Release.Namespace }}
    name: rollcall
    path: /{{ .endpoint | default .path }}
    port: {{ .port | default 443 }}
  {{- with .root.Values.certificates.caBundle }}
  caBundle: {{ . }}
  {{- end }}
matchPolicy: Equivalent
failurePolicy: {{ .failurePolicy | default (dig "failurePolicy" "Fail" $registration) }}
timeoutSeconds: {{ dig "timeoutSeconds" 5 $registration }}
sideEffects: None
admissionReviewVersions: [v1]
{{- if eq .path "mutate" }}
reinvocationPolicy: IfNeeded
{{- end }}
{{- end }}

{{- /* Pods of Grove's operator that are sealed and have nothing that a rule looks for are not judged. */}}
{{- define "rollcall.unsealed" -}}
{{- $sealed := list }}
{{- range include "rollcall.profiles" .root | fromJsonArray }}
{{- with index $.kinds.sealedPods .name }}
{{- $sealed = append $sealed (printf "(%s)" .) }}
{{- end }}
{{- end }}
{{- if and $sealed (eq (dig "registration" "failurePolicy" "Fail" .root.Values.configuration) "Fail") }}
{{- $named := list }}
{{- $anywhere := list }}
{{- $account := "system:serviceaccount:*:" }}
{{- $default := list (printf "%sgrove-operator" $account) }}
{{- range dig "tenancy" "groveOperators" $default .root.Values.configuration | default list }}
{{- if hasPrefix $account . }}
{{- $anywhere = append $anywhere (trimPrefix $account .) }}
{{- else }}
{{- $named = append $named . }}
{{- end }}
{{- end }}
{{- $user := "request.userInfo.username" }}
{{- $users := list }}
{{- with $named }}
{{- $users = append $users (printf "%s in %s" $user (sortAlpha . | toJson)) }}
{{- end }}
{{- with $anywhere }}
{{- $parts := printf "%s.split(\":\")" $user }}
{{- $start := printf "(%s.startsWith(\"system:serviceaccount:\") && %s.size() == 4" $user $parts }}
{{- $users = append $users (printf "%s && %s[3] in %s)" $start $parts (sortAlpha . | toJson)) }}
{{- end }}
{{- $who := $users | empty | ternary "false" (printf "(%s)" (join " || " $users)) }}
{{- $controlled := "object.metadata.?ownerReferences[?0].?controller.orValue(false)" }}
matchConditions:
- name: unsealed
  expression: {{ printf "!(%s && %s && (%s))" $who $controlled (sortAlpha $sealed | join " || ") | toJson }}
{{- end }}
{{- end }}

{{- define "rollcall.judgedNamespaces" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ include "rollcall.excludedNamespaces" . }}
- key: rollcall.dev/exempt
  operator: DoesNotExist
{{- end }}

{{- define "rollcall.newPods" -}}
- apiGroups: ['']
  apiVersions: [v1]
  resources: [pods]
  operations: [CREATE]
  scope: Namespaced
{{- end }}

{{- /* Only the stored object shows that it is being deleted. A request may contain anything. */}}
{{- define "rollcall.notLeaving" -}}
- name: not-leaving
  expression: request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)
{{- end }}

{{- /* Pods that the webhooks for pods and for owned pods do not cover. */}}
{{- define "rollcall.otherPods" -}}
objectSelector:
  matchExpressions:
  - key: grove.io/podgang
    operator: DoesNotExist
  - key: rollcall.dev/scheduler
    operator: DoesNotExist
{{- end }}

{{- /* Another webhook covers workloads with the label. */}}
{{- define "rollcall.unlabelled" -}}
- name: unlabelled
  expression: '!has(object.metadata.labels) || !("rollcall.dev/scheduler" in object.metadata.labels)'
{{- end }}

{{- /*
Some schedulers write status into the object itself, and that must not wait for Rollcall. Neither must the removal of
finalizers. A change of the spec is judged even during deletion.
*/}}
{{- define "rollcall.changed" -}}
- name: changed
  expression: >-
    request.operation == 'CREATE'
    || has(object.spec) != has(oldObject.spec)
    || (has(object.spec) && object.spec != oldObject.spec)
    || has(object.metadata.labels) != has(oldObject.metadata.labels)
    || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)
    || has(object.metadata.annotations) != has(oldObject.metadata.annotations)
    || (has(object.metadata.annotations) && object.metadata.annotations != oldObject.metadata.annotations)
{{- end }}
