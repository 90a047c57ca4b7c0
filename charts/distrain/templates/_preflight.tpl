{{- /*
The check that runs in the cluster before Helm creates or changes anything.

  distrain.preflight.name         name of its Pod, ConfigMap and ServiceAccount
  distrain.preflight.clusterName  name of its ClusterRole and ClusterRoleBinding
  distrain.preflight.metadata     metadata of what the Pod needs
*/}}

{{- /*
distrain.preflight.name
  Takes the root context. Helm's own limit of 53 characters for a release leaves room.
*/}}
{{- define "distrain.preflight.name" -}}
{{- printf "%s-preflight" (.Release.Name | trunc 53 | trimSuffix "-") -}}
{{- end }}

{{- /*
distrain.preflight.clusterName
  Takes the root context. Releases of one name in two namespaces share no ClusterRole.
*/}}
{{- define "distrain.preflight.clusterName" -}}
{{- printf "distrain:%s:%s:preflight" .Release.Namespace .Release.Name -}}
{{- end }}

{{- /*
distrain.preflight.metadata
  Takes the root context. Renders labels and annotations.

  Helm applies hook-succeeded to them after a refusal too, as they had succeeded; Argo CD then applies hook-failed. The
  Pod has no hook-failed: a refusal stays readable until the next try.
*/}}
{{- define "distrain.preflight.metadata" -}}
labels:
  {{- include "distrain.labels.resource" . | nindent 2 }}
annotations:
  {{- include "distrain.hooks.annotations" (dict "hook" "pre-install,pre-upgrade" "weight" -1 "delete" "before-hook-creation,hook-succeeded,hook-failed") | nindent 2 }}
{{- end }}
