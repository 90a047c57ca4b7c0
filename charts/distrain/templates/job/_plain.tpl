{{- /*
Plain: the chart itself renders the objects that an MPI operator would create. Each part has a file plain-*.yaml.

  distrain.plain.parts     names of the parts, as a JSON list
  distrain.plain.resource  all parts
  distrain.plain.shown     the given part; empty if the job is not Plain or does not need the part
*/}}

{{- /*
distrain.plain.parts
  Takes the root context.
*/}}
{{- define "distrain.plain.parts" -}}
{{- $parts := list "service" "hostfile" -}}
{{- if .Job.makesPodGroup -}}
{{- $parts = append $parts "podgroup" -}}
{{- end -}}
{{- if .Job.makesKey -}}
{{- $parts = concat $parts (list "ssh-secret" "keygen") -}}
{{- end -}}
{{- concat $parts (list "workers" "launcher") | toJson -}}
{{- end }}

{{- /*
distrain.plain.resource
  Takes (dict "root" <root context> "job" <the job's name>). Renders YAML documents. The documents do not include the
  RBAC objects for the Job that makes the SSH key.
*/}}
{{- define "distrain.plain.resource" -}}
{{- range $index, $part := include "distrain.plain.parts" .root | fromJsonArray -}}
{{- if $index }}
---
{{ end -}}
{{- include (printf "distrain.plain.%s" $part) $ -}}
{{- end -}}
{{- end }}

{{- /*
distrain.plain.shown
  Takes (dict "root" <root context> "part" <name of the part>).
*/}}
{{- define "distrain.plain.shown" -}}
{{- $root := .root -}}
{{- include "distrain.context" $root -}}
{{- if and $root.Values.job.enabled $root.Job.isPlain -}}
{{- if has .part (include "distrain.plain.parts" $root | fromJsonArray) -}}
{{- include (printf "distrain.plain.%s" .part) (dict "root" $root "job" $root.Job.names.job) -}}
{{- end -}}
{{- end -}}
{{- end }}
