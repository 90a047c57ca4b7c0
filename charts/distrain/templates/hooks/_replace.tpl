{{- /*
The replace hook ends the running job before an upgrade or a rollback that changes the job's content.

The image and the command of a running job cannot change, and the new job has the same name. So the old job has to be
gone before Helm creates the new one.

  distrain.replace.objects  for each kind of job: the objects to delete, as group/version/plural/name
  distrain.replace.rules    rules of the hook's Role

Both templates take the root context.
*/}}

{{- /*
distrain.replace.objects
  Renders a JSON list. The list contains every kind, so that a change of job.kind ends the job of the old kind.
*/}}
{{- define "distrain.replace.objects" -}}
{{- $full := .Job.names.full -}}
{{- $objects := list -}}
{{- range $kind := .Kinds.kinds -}}
{{- $versions := include "distrain.versions.served" (dict "root" $ "kind" $kind) | fromJsonArray -}}
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
  Renders rules that allow the hook to get and delete the objects of distrain.replace.objects, and no other objects.
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
