{{- /*
Annotations of pods.

  distrain.annotations.ownPod   annotations that the chart sets on pods
  distrain.annotations.mesh     annotation that switches Linkerd's proxy on or off for a role's pods
  distrain.annotations.metrics  annotations with which Prometheus finds the pods that serve metrics
  distrain.annotations.pod      all annotations of a role's pods, the user's included
*/}}

{{- /*
distrain.annotations.ownPod
  Takes (dict "root" <root context> "role" <role>). Renders JSON. Istio before 1.11 reads this annotation; later
  versions read the label in _labels.tpl.
*/}}
{{- define "distrain.annotations.ownPod" -}}
{{- dict "sidecar.istio.io/inject" (include "distrain.mesh.injects" (merge (dict "mesh" "istio") .)) | toJson -}}
{{- end }}

{{- /*
distrain.annotations.mesh
  Takes (dict "root" <root context> "role" <role>). Renders JSON, which may be {}. An annotation of the user overrides
  the chart's annotation.
*/}}
{{- define "distrain.annotations.mesh" -}}
{{- if include "distrain.mesh.isMarked" . -}}
{{- $injects := include "distrain.mesh.injects" (merge (dict "mesh" "linkerd") .) -}}
{{- dict "linkerd.io/inject" (eq $injects "true" | ternary "enabled" "disabled") | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.annotations.metrics
  Takes a role, as distrain.annotations.pod does. Renders JSON, which may be {}.
*/}}
{{- define "distrain.annotations.metrics" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if and $monitoring.annotations (has .role .root.Job.metricsRoles) -}}
{{- dict
  "prometheus.io/scrape" "true"
  "prometheus.io/port" (int $monitoring.port | toString)
  "prometheus.io/path" $monitoring.path
  | toJson
-}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.annotations.pod
  Takes (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}
{{- define "distrain.annotations.pod" -}}
{{- $own := include "distrain.annotations.ownPod" . | fromJson -}}
{{- $gang := include "distrain.gang.podAnnotations" . | fromJson -}}
{{- $metrics := include "distrain.annotations.metrics" . | fromJson -}}
{{- $theirs := (get .root.Job.roles .role).annotations | default .root.Values.podAnnotations | default dict -}}
{{- $mesh := include "distrain.annotations.mesh" . | fromJson -}}
{{- merge $own $gang $theirs $metrics $mesh | toYaml -}}
{{- end }}
