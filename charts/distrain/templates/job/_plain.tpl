{{- /*
Plain: what an MPI operator would make, from Kubernetes' own kinds. A file plain-*.yaml for each.

  distrain.plain.resource  all of them but what belongs to the SSH key's making
  distrain.plain.parts     names of the parts
  distrain.plain.fixed     what a running job cannot take over
  distrain.plain.shown     one part, when the job is Plain
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
  Takes (dict "root" <root context> "job" <the job's name>). Renders documents.
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
distrain.plain.fixed
  Takes the same. A Job's template and failure policy are immutable, labels included. How many workers it has is not, but
  a run of fixed size is another run at another.
*/}}
{{- define "distrain.plain.fixed" -}}
{{- $job := .root.Job -}}
{{- $specs := list -}}
{{- range $part := include "distrain.plain.parts" .root | fromJsonArray -}}
{{- if has $part (list "keygen" "workers" "launcher") -}}
{{- $spec := (include (printf "distrain.plain.%s" $part) $ | fromYaml).spec -}}
{{- range $job.isReplaced | ternary $job.facts.live (concat $job.facts.live $job.facts.size) -}}
{{- $_ := unset $spec . -}}
{{- end -}}
{{- $specs = append $specs $spec -}}
{{- end -}}
{{- end -}}
{{- dict "specs" $specs | toJson -}}
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
