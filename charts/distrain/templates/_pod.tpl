{{- /*
Parts of a pod that launcher and workers share.

  distrain.pod.common        the pod but its containers and volumes
  distrain.pod.container     a container but its command, environment, resources and mounts
  distrain.pod.image         the image
  distrain.pod.resources     resources of a container
  distrain.pod.volumes       volumes of one role's pods
  distrain.pod.volumeMounts  mounts of one role's container
*/}}

{{- /*
distrain.pod.common
  Takes the root context.

  With distrain.pod.container it passes the Pod Security Standard `restricted`. Nothing in the pods talks to the API
  server, so they get no token; the variables that Kubernetes makes of every Service would only add to the ranks'
  environment.
*/}}
{{- define "distrain.pod.common" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- /*
distrain.pod.container
  Takes the root context.
*/}}
{{- define "distrain.pod.container" -}}
image: {{ include "distrain.pod.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /*
distrain.pod.image
  Takes the root context.
*/}}
{{- define "distrain.pod.image" -}}
{{- $repository := .Values.image.repository | default (printf "distrain/%s" .Values.framework) -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.resources
  Takes (dict "cpu" <quantity or nil> "memory" <quantity or nil> "gpus" <int> "gpuResource" <name>).
  Renders nothing when there is nothing to ask for.

  GPUs stand under limits alone: Kubernetes copies the limit of an extended resource into the request, and rejects a
  pod whose two figures differ. Memory is requested and limited alike: a pod that uses more than it requested is the
  first to be killed when its node runs short. CPU has no limit: a throttled rank holds up all the others.
*/}}
{{- define "distrain.pod.resources" -}}
{{- $requests := dict -}}
{{- $limits := dict -}}
{{- with .cpu -}}
{{- $_ := set $requests "cpu" (toString .) -}}
{{- end -}}
{{- with .memory -}}
{{- $_ := set $requests "memory" . -}}
{{- $_ := set $limits "memory" . -}}
{{- end -}}
{{- with .gpus -}}
{{- $_ := set $limits $.gpuResource (int .) -}}
{{- end -}}
{{- $resources := dict -}}
{{- with $requests -}}
{{- $_ := set $resources "requests" . -}}
{{- end -}}
{{- with $limits -}}
{{- $_ := set $resources "limits" . -}}
{{- end -}}
{{- with $resources -}}
resources:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.volumes
  Takes (dict "root" <root context> "role" "launcher" or "worker" "job" <the job's name>).

  /tmp is the one place where a pod can write, as its root file system is read-only: Open MPI's session, sshd's
  configuration, the frameworks' caches. Only the workers mount the user's volumes: a disk that one node alone can
  attach would keep the launcher from starting elsewhere.
*/}}
{{- define "distrain.pod.volumes" -}}
- name: scripts
  configMap:
    name: {{ include "distrain.names.scripts" .job }}
    defaultMode: 0755
- name: tmp
  emptyDir: {}
{{- if eq .role "worker" }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .root.Values.workers.shm }}
{{- with .root.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
distrain.pod.volumeMounts
  Takes (dict "root" <root context> "role" "launcher" or "worker").
*/}}
{{- define "distrain.pod.volumeMounts" -}}
- name: scripts
  mountPath: /opt/distrain/bin
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if eq .role "worker" }}
- name: shm
  mountPath: /dev/shm
{{- with .root.Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
