{{- /*
Objects that Helm creates as hooks: for preflight, for the replace hook and for `helm test`.

  distrain.hooks.annotations  annotations of a hook
  distrain.hooks.theirs       the user's annotations that a hook may have
  distrain.hooks.metadata     metadata of an object that a hook's pod needs
  distrain.hooks.podMetadata  labels and annotations of a hook's pod
  distrain.hooks.pod          spec of a hook's pod, except ServiceAccount, containers, volumes and affinity
  distrain.hooks.container    fields of a hook's container, except image, command and mounts
*/}}

{{- /*
distrain.hooks.annotations
  Takes (dict "hook" <Helm's events> "weight" <int> "delete" <Helm's delete policies>).

  Argo CD and Flux understand Helm's hook annotations, so the chart needs no others.
*/}}
{{- define "distrain.hooks.annotations" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: {{ .delete }}
{{- end }}

{{- /*
distrain.hooks.theirs
  Takes annotations, or nothing. Renders JSON. Argo CD would obey the left-out annotations instead of Helm's. With a
  sync wave, for example, the replace hook would end the running job before preflight has checked the new one.
*/}}
{{- define "distrain.hooks.theirs" -}}
{{- omit (. | default dict) "argocd.argoproj.io/hook" "argocd.argoproj.io/hook-delete-policy" "argocd.argoproj.io/sync-wave" | toJson -}}
{{- end }}

{{- /*
distrain.hooks.metadata
  Takes (dict "root" <root context> "name" <name> "hook" <Helm's events> "weight" <int> "isClusterWide" <true if the
  object has no namespace>).

  If a hook's pod fails, the objects that the pod needs, such as its Role, have to be deleted too. Helm treats each of
  these objects as a hook of its own, which has succeeded once Helm has created the object. So Helm deletes the object
  because of hook-succeeded. Argo CD deletes the object because of hook-failed. So the delete policy contains both. For
  `helm test` the policy lacks hook-failed.
*/}}
{{- define "distrain.hooks.metadata" -}}
{{- $delete := eq .hook "test" | ternary "before-hook-creation,hook-succeeded" "before-hook-creation,hook-succeeded,hook-failed" -}}
name: {{ .name | quote }}
{{- if not .isClusterWide }}
namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
labels:
  {{- include "distrain.labels.resource" .root | nindent 2 }}
annotations:
  {{- include "distrain.hooks.annotations" (dict "hook" .hook "weight" .weight "delete" $delete) | nindent 2 }}
  {{- with include "distrain.hooks.theirs" .root.Values.commonAnnotations | fromJson }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /*
distrain.hooks.podMetadata
  Takes (dict "root" <root context> "role" <role> "hook" <Helm's events> "weight" <int>).

  A failed pod stays until the hook runs again, so that its log can be read. The pod of a successful `helm test` stays
  too, unless Helm prints its log. The annotation that makes Helm print the log is set only if hooks.printLog is true,
  because Flux's helm-controller crashes on it (https://github.com/fluxcd/helm-controller/issues/1562). A hook's pod
  gets no labels or annotations for a gang scheduler. Argo CD may change the label app.kubernetes.io/instance of a
  hook's pod, so the hook's NetworkPolicy selects the pod by the label distrain/instance.
*/}}
{{- define "distrain.hooks.podMetadata" -}}
labels:
  {{- $labels := include "distrain.labels.ownPod" . | fromJson | merge (dict "distrain/instance" .root.Job.names.instance) }}
  {{- $mesh := include "distrain.labels.mesh" . | fromJson }}
  {{- merge $labels (.root.Values.podLabels | default dict) (.root.Values.commonLabels | default dict) $mesh | toYaml | nindent 2 }}
annotations:
  {{- $annotations := include "distrain.annotations.ownPod" . | fromJson }}
  {{- $mesh := include "distrain.annotations.mesh" . | fromJson }}
  {{- $theirs := merge dict (.root.Values.podAnnotations | default dict) (.root.Values.commonAnnotations | default dict) }}
  {{- merge $annotations (include "distrain.hooks.theirs" $theirs | fromJson) $mesh | toYaml | nindent 2 }}
  {{- $isKept := and (eq .hook "test") (not .root.Values.hooks.printLog) }}
  {{- $delete := ternary "before-hook-creation" "before-hook-creation,hook-succeeded" $isKept }}
  {{- include "distrain.hooks.annotations" (dict "hook" .hook "weight" (.weight | default 0) "delete" $delete) | nindent 2 }}
  {{- if .root.Values.hooks.printLog }}
  helm.sh/hook-output-log-policy: hook-failed,hook-succeeded
  {{- end }}
{{- end }}

{{- /*
distrain.hooks.pod
  Takes the root context. The caller adds the affinity.

  A hook's pod always meets the Pod Security Standard `restricted`, whatever podSecurity says, because it needs no more
  rights. A hook's pod runs on nodes where the launcher may run, with the launcher's priority. The launcher's pod
  affinity is left out: hooks also run while the job has no pods, and an affinity to missing pods would keep the hook's
  pod Pending. A hook's pod also tolerates the taints that the workers tolerate, because the cluster may have no other
  nodes. A hook's pod calls the API server, so the token of its ServiceAccount is mounted. The grace period of a hook's
  pod is 0, because the pod has nothing to save. With a longer grace period, the pod could still run beside the next
  hook's pod, because Helm 4 does not wait until a pod is deleted.
*/}}
{{- define "distrain.hooks.pod" -}}
restartPolicy: Never
terminationGracePeriodSeconds: 0
automountServiceAccountToken: true
enableServiceLinks: false
{{- with include "distrain.pod.pullSecrets" . }}
{{ . }}
{{- end }}
{{- $launcher := .Job.sections.launcher }}
{{- with $launcher.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if ne (toString .Values.runAsUser) "cluster" }}
  runAsUser: {{ .Values.runAsUser | default 1000 | int64 }}
  runAsGroup: {{ .Values.runAsUser | default 1000 | int64 }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with $launcher.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat ($launcher.tolerations | default list) (.Job.sections.workers.tolerations | default list) | uniq }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /*
distrain.hooks.container
  Takes the root context.
*/}}
{{- define "distrain.hooks.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  requests:
    cpu: 100m
    memory: 512Mi
  limits:
    {{- with ((.Values.resources | default dict).limits | default dict).cpu }}
    cpu: {{ include "distrain.text.quantity" . | quote }}
    {{- end }}
    memory: 512Mi
{{- end }}
