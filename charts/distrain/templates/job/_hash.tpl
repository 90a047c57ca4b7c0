{{- /*
The content hash: a short hash of everything that cannot change in a running job. If the hash changes, the replace hook
ends the old job. The job's annotation distrain/content contains the hash.

  distrain.hash.content     the hash
  distrain.hash.fixed       the text that is hashed
  distrain.hash.fixedSpec   for a Kubeflow resource: the hashed fields of its spec
  distrain.hash.fixedPlain  for a Plain job: the hashed fields of its Jobs' specs
*/}}

{{- /*
distrain.hash.content
  Takes the root context. Computing the hash renders the whole job, so the hash is computed once and kept in .Job. The
  job of `helm test` gets the hash of the release's job.
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

  The ConfigMap with the scripts is not hashed, so that a new version of the chart with other scripts does not replace
  the job. Helm updates the ConfigMap in place.
*/}}
{{- define "distrain.hash.fixed" -}}
{{- $part := .Job.isPlain | ternary "distrain.hash.fixedPlain" "distrain.hash.fixedSpec" -}}
{{- $resource := include $part (dict "root" . "job" "") | fromJson -}}
{{- $parts := list .Job.version .Job.kind $resource (include "distrain.gang.queue" .) -}}
{{- with .Values.job.managedBy -}}
{{- /*
managedBy is immutable, so it is hashed. Other fields of runPolicy are not hashed if the operator applies their changes.
*/ -}}
{{- $parts = append $parts . -}}
{{- end -}}
{{- toJson $parts -}}
{{- end }}

{{- /*
distrain.hash.fixedSpec
  Takes (dict "root" <root context> "job" ""). Renders JSON.

  The pod templates are hashed: operators never change an existing pod, so only a new job gets a changed template.
  Fields that the operator applies to a running job (`live` in schemas/kinds.yaml) are not hashed. The number of workers
  is hashed only if the job has to be replaced when this number changes (.Job.isReplaced). The container's lifecycle
  hooks are not hashed, because they do not affect the training.
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

  A Job's failure policy and its pod template, including labels, are immutable, so they are hashed. The number of
  workers is hashed only if the job has to be replaced when this number changes (.Job.isReplaced). Otherwise the number
  can change while the job runs.
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
