{{- /*
The hook that ends the running job before an upgrade or a rollback whose job has another content.

A running job cannot take over another image or another command, and its name stays the same, so the old job has to be
gone before Helm creates the new one.

  distrain.replace.isNeeded  whether the hook is there
  distrain.replace.isWanted  whether the values want it
  distrain.replace.name      name of its objects
  distrain.replace.account   ServiceAccount of its pod
  distrain.replace.objects   what the job may be called in the cluster, as group/version/plural/name
  distrain.replace.rules     the rules of its Role
  distrain.replace.metadata  metadata of what the pod needs

All take the root context.
*/}}

{{- /*
distrain.replace.isNeeded, distrain.replace.isWanted
  Hooks are for a real cluster: what `helm template` prints is applied as a whole, hooks too. Without the right to make
  a Role an account has to be named.
*/}}
{{- define "distrain.replace.isNeeded" -}}
{{- and (include "distrain.replace.isWanted" .) .Job.isReal | empty | ternary "" "true" -}}
{{- end }}

{{- define "distrain.replace.isWanted" -}}
{{- $account := or .Values.rbac.create .Values.replace.serviceAccountName -}}
{{- and .Values.job.enabled .Values.replace.enabled $account | empty | ternary "" "true" -}}
{{- end }}

{{- define "distrain.replace.name" -}}
{{- include "distrain.names.helper" (dict "root" . "part" "replace") -}}
{{- end }}

{{- define "distrain.replace.account" -}}
{{- .Values.replace.serviceAccountName | default (include "distrain.replace.name" .) -}}
{{- end }}

{{- /*
distrain.replace.objects
  Renders a list. Other kinds are in it too, so that a change of job.kind ends the job of the old kind.
*/}}
{{- define "distrain.replace.objects" -}}
{{- $full := .Job.names.full -}}
{{- $objects := list -}}
{{- range $kind := .Kinds.kinds -}}
{{- $versions := include "distrain.kinds.served" (dict "root" $ "kind" $kind) | fromJsonArray -}}
{{- if and $kind.versions (eq $kind.name $.Job.kind) -}}
{{- $versions = list $.Job.version -}}
{{- end -}}
{{- with $versions -}}
{{- $objects = printf "%s/%s/%ss/%s" $kind.group (first .) (lower $kind.name) $full | append $objects -}}
{{- end -}}
{{- end -}}
{{- range $part := list "launcher" "worker" "keygen" -}}
{{- $objects = printf "batch/v1/jobs/%s-plain-%s" $full $part | append $objects -}}
{{- end -}}
{{- toJson $objects -}}
{{- end }}

{{- /*
distrain.replace.rules
  Get and delete, of these names alone.
*/}}
{{- define "distrain.replace.rules" -}}
{{- $names := dict -}}
{{- range $object := include "distrain.replace.objects" . | fromJsonArray -}}
{{- $parts := splitList "/" $object -}}
{{- $key := printf "%s/%s" (first $parts) (index $parts 2) -}}
{{- $_ := get $names $key | default list | concat (list (last $parts)) | sortAlpha | set $names $key -}}
{{- end -}}
{{- range $key, $called := $names -}}
- apiGroups: [{{ splitList "/" $key | first }}]
  resources: [{{ splitList "/" $key | last }}]
  resourceNames: {{ toJson $called }}
  verbs: [get, delete]
{{ end -}}
{{- end }}

{{- /*
distrain.replace.metadata
  After preflight, whose refusal must end nothing.
*/}}
{{- define "distrain.replace.metadata" -}}
name: {{ include "distrain.replace.name" . | quote }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "distrain.labels.resource" . | nindent 2 }}
annotations:
  {{- include "distrain.hooks.annotations" (dict "hook" "pre-upgrade,pre-rollback" "weight" 1 "delete" "before-hook-creation,hook-succeeded,hook-failed") | nindent 2 }}
{{- end }}
