{{- /*
Fields that make the pods meet the Pod Security Standard in podSecurity.

  distrain.security.user       user id of the pods
  distrain.security.pod        securityContext of a pod
  distrain.security.container  securityContext of the chart's containers
  distrain.security.sidecar    defaults of the securityContext of the user's containers

All take the root context, except container, which takes (dict "root" <root context> "role" <role>).
*/}}

{{- define "distrain.security.user" -}}
{{- $default := eq .Values.podSecurity "restricted" | ternary 1000 0 -}}
{{- eq .Values.runAsUser nil | ternary $default .Values.runAsUser | int64 -}}
{{- end }}

{{- /*
distrain.security.pod
  Root gets no fsGroup: it would make the SSH key readable by a group, and ssh refuses such a key.
*/}}
{{- define "distrain.security.pod" -}}
{{- $user := include "distrain.security.user" . -}}
{{- if eq .Values.podSecurity "restricted" -}}
runAsNonRoot: true
{{ end -}}
runAsUser: {{ $user }}
{{- if ne $user "0" }}
runAsGroup: {{ $user }}
fsGroup: {{ $user }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /*
distrain.security.container
  RDMA pins memory, which requires the capability IPC_LOCK.
*/}}
{{- define "distrain.security.container" -}}
{{- $restricted := eq .root.Values.podSecurity "restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: {{ $restricted }}
{{- if $restricted }}
capabilities:
  drop: [ALL]
{{- else if and .root.Values.network.rdma.resource (has .role .root.Job.rankRoles) }}
capabilities:
  add: [IPC_LOCK]
{{- end }}
{{- end }}

{{- define "distrain.security.sidecar" -}}
{{- if eq .Values.podSecurity "restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end -}}
{{- end }}
