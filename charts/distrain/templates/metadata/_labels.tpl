{{- /*
Labels, and the metadata of the release's objects.

  distrain.labels.metadata  metadata of an object that Helm creates
  distrain.labels.resource  all labels of an object that Helm creates, including the user's
  distrain.labels.own       labels that the chart sets on an object that Helm creates
  distrain.labels.selector  label selector of the pods that hold ranks
  distrain.labels.peers     for a role whose pods hold ranks: distrain.labels.selector; for another role: label selector
                            of the role's own pods
  distrain.labels.ownPod    labels that the chart sets on a role's pods
  distrain.labels.mesh      label that turns off Istio's ambient mode for a role's pods
  distrain.labels.pod       all labels of a role's pods, including the user's
*/}}

{{- /*
distrain.labels.metadata
  Takes (dict "root" <root context> "name" <name> "weight" <hook weight in a test> "labels" <more labels> "annotations"
  <more annotations> "job" <the job's name>). "job" is given only for objects that the replace hook deletes. These
  objects get the content hash as an annotation.
*/}}
{{- define "distrain.labels.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "distrain.labels.resource" .root | nindent 2 }}
  {{- with .labels }}
  {{- . | nindent 2 }}
  {{- end }}
{{- $common := .root.Values.commonAnnotations | default dict }}
{{- if hasKey .root "variant" }}
{{- $common = include "distrain.hooks.theirs" $common | fromJson }}
annotations:
  helm.sh/hook: {{ .root.variant }}
  helm.sh/hook-weight: {{ .weight | default "-1" | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- else if .job }}
annotations:
  distrain/content: {{ include "distrain.hash.content" .root | quote }}
{{- else if or .annotations $common }}
annotations:
{{- end }}
{{- with merge (dict) (.annotations | default dict) $common }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /*
distrain.labels.resource, distrain.labels.own
  Take the root context.

  If Argo CD tracks its objects by labels, it replaces the value of app.kubernetes.io/instance by the Application's
  name, in each object that it creates, but not in the pods of a job. So the replace hook recognizes the job by the
  label distrain/instance.
*/}}
{{- define "distrain.labels.resource" -}}
{{- include "distrain.labels.own" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "distrain.labels.own" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/name: distrain
app.kubernetes.io/instance: {{ .Job.names.instance | quote }}
distrain/instance: {{ .Job.names.instance | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /*
distrain.labels.selector
  Takes the root context. A PyTorchJob's Master holds ranks, as its Workers do.
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
distrain.labels.peers
  Takes (dict "root" <root context> "role" <role>).
*/}}
{{- define "distrain.labels.peers" -}}
{{- if has .role .root.Job.rankRoles -}}
{{- include "distrain.labels.selector" .root -}}
{{- else -}}
matchLabels:
  app.kubernetes.io/name: distrain
  app.kubernetes.io/instance: {{ .root.Job.names.instance | quote }}
  app.kubernetes.io/component: {{ .role }}
{{- end -}}
{{- end }}

{{- /*
distrain.labels.ownPod
  Takes (dict "root" <root context> "role" <role>). Renders JSON.

  Pods have no label with the chart's version, because then every new version of the chart would change the pods.
  Istio's sidecar is off by default: it could keep the launcher's pod running after mpirun has ended, and would proxy
  the ranks' traffic.
*/}}
{{- define "distrain.labels.ownPod" -}}
{{- dict
  "app.kubernetes.io/name" "distrain"
  "app.kubernetes.io/instance" .root.Job.names.instance
  "app.kubernetes.io/component" .role
  "sidecar.istio.io/inject" (include "distrain.mesh.injects" (merge (dict "mesh" "istio") .))
  | toJson
-}}
{{- end }}

{{- /*
distrain.labels.mesh
  Takes (dict "root" <root context> "role" <role>). Renders JSON, which may be {}. A label of the user overrides the
  chart's label.
*/}}
{{- define "distrain.labels.mesh" -}}
{{- if and (include "distrain.mesh.isMarked" .) (eq (include "distrain.mesh.injects" (merge (dict "mesh" "istio") .)) "false") -}}
{"istio.io/dataplane-mode": "none"}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.labels.pod
  Takes (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}
{{- define "distrain.labels.pod" -}}
{{- $own := include "distrain.labels.ownPod" . | fromJson -}}
{{- $gang := include "distrain.gang.podLabels" . | fromJson -}}
{{- $theirs := (get .root.Job.roles .role).labels | default .root.Values.podLabels | default dict -}}
{{- $mesh := include "distrain.labels.mesh" . | fromJson -}}
{{- merge $own $gang $theirs (.root.Values.commonLabels | default dict) $mesh | toYaml -}}
{{- end }}
