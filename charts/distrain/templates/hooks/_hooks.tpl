{{- /*
Parts of the pods that Helm runs as hooks: preflight's and the test's.

  distrain.hooks.annotations  annotations of a hook
  distrain.hooks.podMetadata  labels and annotations of a hook's pod
  distrain.hooks.pod          a hook's pod but its ServiceAccount, containers and volumes
  distrain.hooks.container    a hook's container but its image, command and mounts
*/}}

{{- /*
distrain.hooks.annotations
  Takes (dict "hook" <Helm's events> "weight" <int> "delete" <Helm's delete policies>).

  Helm's own annotations alone: Argo CD and Flux read them too.
*/}}
{{- define "distrain.hooks.annotations" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: {{ .delete }}
{{- end }}

{{- /*
distrain.hooks.podMetadata
  Takes (dict "root" <root context> "role" <role> "hook" <Helm's events> "weight" <int>). Renders labels and annotations.

  A Pod that failed stays, for its log, until the next one is made; the test's stays too when it has succeeded, unless
  Helm prints what it measured. The labels and annotations of a gang stay away.
  Helm prints the log only where a value asks for it: Flux's helm-controller crashes on the annotation that does so
  (https://github.com/fluxcd/helm-controller/issues/1562).
*/}}
{{- define "distrain.hooks.podMetadata" -}}
labels:
  {{- merge (include "distrain.labels.ownPod" . | fromYaml) (.root.Values.podLabels | default dict) | toYaml | nindent 2 }}
annotations:
  {{- merge (include "distrain.annotations.ownPod" . | fromYaml) (.root.Values.podAnnotations | default dict) | toYaml | nindent 2 }}
  {{- $isKept := and (eq .hook "test") (not .root.Values.hooks.printLog) }}
  {{- $delete := ternary "before-hook-creation" "before-hook-creation,hook-succeeded" $isKept }}
  {{- include "distrain.hooks.annotations" (dict "hook" .hook "weight" (.weight | default 0) "delete" $delete) | nindent 2 }}
  {{- if .root.Values.hooks.printLog }}
  helm.sh/hook-output-log-policy: hook-failed,hook-succeeded
  {{- end }}
{{- end }}

{{- /*
distrain.hooks.pod
  Takes the root context.

  Whatever podSecurity says, these pods need none of it. They tolerate what the job's pods tolerate, as there may be no
  other nodes. Their token is mounted: talking to the API server is what they are for. They have nothing to put in order
  when they are ended, and Helm 4 makes the next one without waiting for the last to be gone.
*/}}
{{- define "distrain.hooks.pod" -}}
restartPolicy: Never
terminationGracePeriodSeconds: 0
automountServiceAccountToken: true
enableServiceLinks: false
{{- with include "distrain.pod.pullSecrets" . }}
{{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.runAsUser | default 1000 | int64 }}
  runAsGroup: {{ .Values.runAsUser | default 1000 | int64 }}
  seccompProfile:
    type: RuntimeDefault
{{- with concat (.Values.launcher.tolerations | default list) (.Values.workers.tolerations | default list) | uniq }}
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
    memory: 512Mi
{{- end }}
