{{- /*
Labels and annotations.

  distrain.labels.resource   labels of the resources that Helm creates
  distrain.labels.pod        labels of one role's pods, the user's included
  distrain.labels.ownPod     those of them that the chart sets
  distrain.annotations.pod   annotations of the pods, the user's included
  distrain.annotations.ownPod  those of them that the chart sets
*/}}

{{- /*
distrain.labels.resource
  Takes the root context.
*/}}
{{- define "distrain.labels.resource" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: distrain
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /*
distrain.labels.ownPod
  Takes (dict "root" <root context> "role" "launcher" or "worker").

  No chart version: it would change the pods at every chart release. A mesh's sidecar would keep the launcher's pod
  alive after mpirun has ended, and stands between the ranks.
*/}}
{{- define "distrain.labels.ownPod" -}}
app.kubernetes.io/name: distrain
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
sidecar.istio.io/inject: "false"
{{- end }}

{{- /*
distrain.labels.pod
  Takes the same as distrain.labels.ownPod.
*/}}
{{- define "distrain.labels.pod" -}}
{{- $own := include "distrain.labels.ownPod" . | fromYaml -}}
{{- merge $own (.root.Values.podLabels | default dict) | toYaml -}}
{{- end }}

{{- /*
distrain.annotations.ownPod
  Takes nothing. Istio before 1.11 reads the annotation, later ones the label.
*/}}
{{- define "distrain.annotations.ownPod" -}}
sidecar.istio.io/inject: "false"
{{- end }}

{{- /*
distrain.annotations.pod
  Takes the root context.
*/}}
{{- define "distrain.annotations.pod" -}}
{{- $own := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- merge $own (.Values.podAnnotations | default dict) | toYaml -}}
{{- end }}
