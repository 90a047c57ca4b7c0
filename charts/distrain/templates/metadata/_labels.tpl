{{- /*
Labels, and the metadata that holds them.

  distrain.labels.metadata  metadata of a resource that Helm creates
  distrain.labels.resource  labels of a resource that Helm creates
  distrain.labels.selector  selects the pods that train
  distrain.labels.pod       labels of one role's pods, with the user's
  distrain.labels.ownPod    the ones that the chart sets
*/}}

{{- /*
distrain.labels.metadata
  Takes (dict "root" <root context> "name" <name> "weight" <when a test's hook makes it> "labels" <more labels>
  "job" <the job's name, for an object that a change of the job's content replaces>).
*/}}
{{- define "distrain.labels.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "distrain.labels.resource" .root | nindent 2 }}
  {{- with .labels }}
  {{- . | nindent 2 }}
  {{- end }}
{{- if hasKey .root "variant" }}
annotations:
  helm.sh/hook: {{ .root.variant }}
  helm.sh/hook-weight: {{ .weight | default "-1" | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- else if .job }}
annotations:
  distrain/content: {{ include "distrain.names.hash" .root | quote }}
{{- end }}
{{- end }}

{{- /*
distrain.labels.resource
  Takes the root context.
*/}}
{{- define "distrain.labels.resource" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: distrain
app.kubernetes.io/instance: {{ .Job.names.instance | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /*
distrain.labels.selector
  Takes the root context. Renders a label selector: a PyTorchJob's Master trains as its Workers do.
*/}}
{{- define "distrain.labels.selector" -}}
matchLabels:
  app.kubernetes.io/name: distrain
  app.kubernetes.io/instance: {{ .Job.names.instance | quote }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: [master, worker]
{{- end }}

{{- /*
distrain.labels.ownPod
  Takes (dict "root" <root context> "role" <role>).

  No chart version: it would change the pods at every chart release. A mesh's sidecar would keep the launcher's pod
  alive after mpirun has ended, and stands between the ranks.
*/}}
{{- define "distrain.labels.ownPod" -}}
app.kubernetes.io/name: distrain
app.kubernetes.io/instance: {{ .root.Job.names.instance | quote }}
app.kubernetes.io/component: {{ .role }}
sidecar.istio.io/inject: "false"
{{- end }}

{{- /*
distrain.labels.pod
  Takes (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}
{{- define "distrain.labels.pod" -}}
{{- $own := include "distrain.labels.ownPod" . | fromYaml -}}
{{- $gang := include "distrain.gang.podLabels" . | fromYaml -}}
{{- merge $own $gang (.root.Values.podLabels | default dict) | toYaml -}}
{{- end }}
