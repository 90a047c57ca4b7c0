{{- /*
Annotations of pods.

  distrain.annotations.ownPod   annotations that the chart sets on pods
  distrain.annotations.metrics  annotations by which a Prometheus finds the pods that serve metrics
  distrain.annotations.pod      all annotations of a role's pods, the user's included
*/}}

{{- /*
distrain.annotations.ownPod
  Takes no argument. Istio before 1.11 reads this annotation; later versions read the label in _labels.tpl.
*/}}
{{- define "distrain.annotations.ownPod" -}}
sidecar.istio.io/inject: "false"
{{- end }}

{{- /*
distrain.annotations.metrics
  Takes a role, as distrain.annotations.pod does. Renders a map, which may be empty.
*/}}
{{- define "distrain.annotations.metrics" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if and $monitoring.annotations (has .role .root.Job.metricsRoles) -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ int $monitoring.port | quote }}
prometheus.io/path: {{ $monitoring.path | quote }}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.annotations.pod
  Takes (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}
{{- define "distrain.annotations.pod" -}}
{{- $own := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- $gang := include "distrain.gang.podAnnotations" . | fromYaml -}}
{{- $metrics := include "distrain.annotations.metrics" . | fromYaml -}}
{{- $theirs := (get .root.Job.roles .role).annotations | default .root.Values.podAnnotations | default dict -}}
{{- merge $own $gang $theirs $metrics | toYaml -}}
{{- end }}
