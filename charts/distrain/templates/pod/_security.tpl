{{- /*
Fields that make the pods meet the Pod Security Standard in podSecurity.

  distrain.security.user       user id of the pods; empty if the cluster chooses it
  distrain.security.pod        securityContext of a role's pods
  distrain.security.container  securityContext of the chart's containers
  distrain.security.over       the chart's securityContext, overridden by the user's fields
  distrain.security.sidecar    default securityContext of the user's containers

distrain.security.pod, container and containerDefault take (dict "root" <root context> "role" <role>). All other
templates take the root context.
*/}}

{{- define "distrain.security.user" -}}
{{- $default := eq .Values.podSecurity "restricted" | ternary 1000 0 -}}
{{- if ne (toString .Values.runAsUser) "cluster" -}}
{{- eq .Values.runAsUser nil | ternary $default .Values.runAsUser | int64 -}}
{{- end -}}
{{- end }}

{{- /*
distrain.security.pod
  For root there is no fsGroup: with it, a group could read the SSH key, and ssh refuses a key that a group can read.
*/}}
{{- define "distrain.security.pod" -}}
{{- $ours := include "distrain.security.podDefault" .root -}}
{{- with (get .root.Job.roles .role).securityContext -}}
{{- include "distrain.security.over" (dict "ours" $ours "theirs" .) -}}
{{- else -}}
{{- $ours -}}
{{- end -}}
{{- end }}

{{- define "distrain.security.podDefault" -}}
{{- if eq .Values.podSecurity "restricted" -}}
runAsNonRoot: true
{{ end -}}
{{- with .Job.user -}}
runAsUser: {{ . }}
{{- if ne . "0" }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{ end -}}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "distrain.security.container" -}}
{{- $ours := include "distrain.security.containerDefault" . -}}
{{- with (get .root.Job.roles .role).containerSecurityContext -}}
{{- include "distrain.security.over" (dict "ours" $ours "theirs" .) -}}
{{- else -}}
{{- $ours -}}
{{- end -}}
{{- end }}

{{- /*
distrain.security.containerDefault
  RDMA pins memory, which requires the capability IPC_LOCK.
*/}}
{{- define "distrain.security.containerDefault" -}}
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

{{- /*
distrain.security.over
  Takes (dict "ours" <the chart's securityContext, as YAML> "theirs" <the user's>). The user's capabilities are added to
  the chart's. Every other field that the user sets replaces the chart's field. Kubernetes refuses a privileged
  container with allowPrivilegeEscalation false.
*/}}
{{- define "distrain.security.over" -}}
{{- $merged := fromYaml .ours -}}
{{- $capabilities := $merged.capabilities | default dict -}}
{{- range $key, $value := .theirs -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- range $key, $added := .theirs.capabilities -}}
{{- $_ := concat (get $capabilities $key | default list) $added | uniq | set $capabilities $key -}}
{{- end -}}
{{- with $capabilities -}}
{{- $_ := set $merged "capabilities" . -}}
{{- end -}}
{{- if and .theirs.privileged (not (hasKey .theirs "allowPrivilegeEscalation")) -}}
{{- $_ := unset $merged "allowPrivilegeEscalation" -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end }}

{{- define "distrain.security.sidecar" -}}
{{- if eq .Values.podSecurity "restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end -}}
{{- end }}
