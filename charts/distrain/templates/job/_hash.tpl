{{- /*
The content hash: a short hash of everything that a running job cannot take over. Another hash means another job, so the
replace hook ends the old one. The annotation distrain/content holds the hash.

  distrain.hash.content     the hash
  distrain.hash.fixed       the text that is hashed
  distrain.hash.fixedSpec   fields of a Kubeflow resource's spec in that text
  distrain.hash.fixedPlain  fields of a Plain job's specs in that text
*/}}

{{- /*
distrain.hash.content
  Takes the root context. The hash needs a rendering of the whole job, so it is kept in .Job. The job of `helm test` has
  the hash of the release's job.
*/}}
{{- define "distrain.hash.content" -}}
{{- if not .Job.hash -}}
{{- $_ := include "distrain.hash.fixed" . | sha256sum | trunc 8 | set .Job "hash" -}}
{{- end -}}
{{- .Job.hash -}}
{{- end }}

{{- /*
distrain.hash.fixed
  Takes the root context. The job is rendered without a name, so that its name is not hashed.

  The scripts' ConfigMap is not part of it: it changes in place, so that another version of the chart replaces no job.
*/}}
{{- define "distrain.hash.fixed" -}}
{{- $part := .Job.isPlain | ternary "distrain.hash.fixedPlain" "distrain.hash.fixedSpec" -}}
{{- $resource := include $part (dict "root" . "job" "") | fromJson -}}
{{- $parts := list .Job.version .Job.kind $resource (include "distrain.gang.queue" .) -}}
{{- with .Values.job.managedBy -}}
{{- /* It is immutable, also where the other fields of the run policy are live. */ -}}
{{- $parts = append $parts . -}}
{{- end -}}
{{- toJson $parts -}}
{{- end }}

{{- /*
distrain.hash.fixedSpec
  Takes (dict "root" <root context> "job" ""). Renders JSON.

  Operators create a pod once and never change it. They apply new sizes and some fields of the run policy while the job
  runs (`live` in schemas/kinds.yaml). What is run before a pod ends does not affect the training.
*/}}
{{- define "distrain.hash.fixedSpec" -}}
{{- $job := .root.Job -}}
{{- $spec := (include "distrain.job.resource" . | fromYaml).spec -}}
{{- range $role, $replica := get $spec $job.facts.replicas -}}
{{- $_ := unset (first $replica.template.spec.containers) "lifecycle" -}}
{{- if not $job.isReplaced -}}
{{- $_ := unset $replica "replicas" -}}
{{- end -}}
{{- end -}}
{{- range $job.facts.live -}}
{{- $path := splitList "." . -}}
{{- $object := $spec -}}
{{- range initial $path -}}
{{- $object = get $object . -}}
{{- end -}}
{{- $_ := unset $object (last $path) -}}
{{- end -}}
{{- toJson $spec -}}
{{- end }}

{{- /*
distrain.hash.fixedPlain
  Takes (dict "root" <root context> "job" ""). Renders JSON.

  A Job's pod template, with its labels, and its failure policy are immutable. The number of workers can change, but a
  job that is replaced at another size keeps it in the hash.
*/}}
{{- define "distrain.hash.fixedPlain" -}}
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
