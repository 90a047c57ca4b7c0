{{- /*
Rules on the labels and annotations of the release's objects, and on its ServiceAccount.

  distrain.validate.metadata.common   commonLabels and commonAnnotations have no key that the chart or an operator sets
  distrain.validate.metadata.account  serviceAccount.annotations is set only if the chart creates the ServiceAccount
*/}}

{{- /*
distrain.validate.metadata.common
  The pods get the common labels too. Selectors and operators find the pods by labels that the chart or the operator
  sets, so a common label must not replace such a label.
*/}}
{{- define "distrain.validate.metadata.common" -}}
{{- range $key, $_ := .Values.commonLabels -}}
{{- if or (regexMatch "^app\\.kubernetes\\.io/(component|instance|managed-by|name|version)$" $key) (regexMatch "^(batch\\.kubernetes\\.io|distrain|helm\\.sh|kueue\\.x-k8s\\.io|rbac\\.authorization\\.kubeflow\\.org|scheduling\\.x-k8s\\.io|training\\.kubeflow\\.org)/" $key) (has $key (list "controller-uid" "job-name" "sidecar.istio.io/inject")) -}}
{{- printf "distrain: commonLabels: %s is a label that the chart or an operator sets; remove it\n" $key -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.commonAnnotations -}}
{{- if or (regexMatch "^(helm\\.sh|distrain)/" $key) (has $key (list "scheduling.k8s.io/group-name" "sidecar.istio.io/inject")) -}}
{{- printf "distrain: commonAnnotations: %s is an annotation that the chart sets; remove it\n" $key -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.metadata.account" -}}
{{- if (.Values.serviceAccount | default dict).annotations -}}
{{- if .Values.serviceAccountName -}}
{{- printf "distrain: serviceAccount.annotations: is set, but serviceAccountName %q is your own ServiceAccount; annotate it with kubectl annotate serviceaccount, and remove serviceAccount.annotations\n" .Values.serviceAccountName -}}
{{- else if not .Values.rbac.create -}}
{{- "distrain: serviceAccount.annotations: is set, but with rbac.create=false the chart creates no ServiceAccount; name your own ServiceAccount in serviceAccountName, and annotate that one\n" -}}
{{- end -}}
{{- end -}}
{{- end }}
