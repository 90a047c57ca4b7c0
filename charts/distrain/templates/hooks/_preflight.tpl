{{- /*
The check that runs in the cluster before Helm creates or changes anything.

  distrain.preflight.name         name of its Pod, ConfigMap and ServiceAccount
  distrain.preflight.clusterName  name of its ClusterRole and ClusterRoleBinding
  distrain.preflight.metadata     metadata of what the Pod needs
  distrain.preflight.clusterRules  what its account may read of the cluster
  distrain.preflight.rules        what it may read of its namespace
*/}}

{{- /*
distrain.preflight.name
  Takes the root context.
*/}}
{{- define "distrain.preflight.name" -}}
{{- include "distrain.names.helper" (dict "root" . "part" "preflight") -}}
{{- end }}

{{- /*
distrain.preflight.clusterName
  Takes the root context. Releases of one name in two namespaces share no ClusterRole.
*/}}
{{- define "distrain.preflight.clusterName" -}}
{{- printf "distrain:%s:%s:preflight" .Release.Namespace .Job.names.full -}}
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

{{- /*
distrain.preflight.clusterRules, distrain.preflight.rules
  Take the root context. Render lists: all that decides where the job's pods can be placed, to read.

  No Secret and no ConfigMap. Neither decides over a place, and both may be made together with the job.
*/}}
{{- define "distrain.preflight.clusterRules" -}}
- apiGroups: [""]
  resources: [namespaces, nodes, persistentvolumes, pods]
  verbs: [list]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list]
{{- end }}

{{- define "distrain.preflight.rules" -}}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{{ .Release.Namespace | quote }}]
  verbs: [get]
- apiGroups: [""]
  resources: [limitranges, persistentvolumeclaims, resourcequotas]
  verbs: [list]
{{- end }}
