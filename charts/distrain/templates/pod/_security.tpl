{{- /*
What keeps the pods to the Pod Security Standard that podSecurity names.

  distrain.security.user       user id of the pods
  distrain.security.pod        securityContext of a pod
  distrain.security.container  securityContext of the chart's own containers
  distrain.security.sidecar    what the user's containers get unless they say otherwise

All take the root context, the container's a role.
*/}}

{{- define "distrain.security.user" -}}
{{- $default := eq .Values.podSecurity "restricted" | ternary 1000 0 -}}
{{- eq .Values.runAsUser nil | ternary $default .Values.runAsUser | int64 -}}
{{- end }}

{{- /*
distrain.security.pod
  Root gets no fsGroup: it would open the SSH key to a group, and ssh refuses such a key of its own user.
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
  RDMA pins memory, which takes IPC_LOCK.
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
