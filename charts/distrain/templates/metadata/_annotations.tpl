{{- /*
Annotations of pods.

  distrain.annotations.pod     annotations of one role's pods, with the user's
  distrain.annotations.ownPod  the ones that the chart sets
*/}}

{{- /*
distrain.annotations.ownPod
  Takes nothing. Istio before 1.11 reads the annotation, later ones the label.
*/}}
{{- define "distrain.annotations.ownPod" -}}
sidecar.istio.io/inject: "false"
{{- end }}

{{- /*
distrain.annotations.pod
  Takes (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}
{{- define "distrain.annotations.pod" -}}
{{- $own := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- $gang := include "distrain.gang.podAnnotations" . | fromYaml -}}
{{- merge $own $gang (.root.Values.podAnnotations | default dict) | toYaml -}}
{{- end }}
