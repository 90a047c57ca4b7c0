{{- /*
Annotations of pods.

  distrain.annotations.ownPod  annotations that the chart sets on pods
  distrain.annotations.pod     all annotations of a role's pods, the user's included
*/}}

{{- /*
distrain.annotations.ownPod
  Takes no argument. Istio before 1.11 reads this annotation; later versions read the label in _labels.tpl.
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
