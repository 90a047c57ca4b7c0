{{- /*
Volumes of the pods, and their mounts.

  distrain.volumes.all     volumes of a role's pods
  distrain.volumes.mounts  volumeMounts of a role's first container
  distrain.volumes.user    the user's volumes or volumeMounts in a role's pods
  distrain.volumes.shm     size of /dev/shm
  distrain.volumes.memory  memory limit of a worker

In this file, a role is (dict "root" <root context> "role" <name of the role> "job" <the job's name>).
*/}}

{{- /*
distrain.volumes.all
  With podSecurity restricted, pods can write only to /tmp. /tmp holds Open MPI's session, sshd's configuration and the
  frameworks' caches. The Secret for the SSH key is empty at first. The volume lists the Secret's three keys as items,
  so kubelet starts the pod only when the Secret has all three keys.
*/}}
{{- define "distrain.volumes.all" -}}
{{- $plain := .root.Job.isPlain -}}
- name: scripts
  configMap:
    name: {{ include "distrain.names.scripts" .job | quote }}
    defaultMode: 0755
- name: tmp
  emptyDir: {}
{{- if .root.Job.namesUser }}
- name: user
  emptyDir: {}
{{- end }}
{{- if and $plain (ne .role "keygen") }}
- name: ssh-auth
  secret:
    secretName: {{ include "distrain.names.sshSecret" .root | quote }}
    defaultMode: {{ eq .root.Job.user "0" | ternary "0400" "0440" }}
    items:
      {{- range $file := list "id_rsa" "id_rsa.pub" "authorized_keys" }}
      - {key: {{ $file }}, path: {{ $file }}}
      {{- end }}
{{- end }}
{{- if and $plain (eq .role "launcher") }}
- name: mpi-job-config
  configMap:
    name: {{ printf "%s-hostfile" .job | quote }}
{{- end }}
{{- if has .role .root.Job.rankRoles }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ include "distrain.volumes.shm" .root | quote }}
{{- end }}
{{- if has .role .root.Job.checkpointRoles }}
- name: checkpoints
  emptyDir: {}
{{- end }}
{{- if ne .role "keygen" }}
{{- with .root.Values.s3.caBundle }}
{{- $items := list (dict "key" (.key | default "ca.crt") "path" "ca.crt") }}
- name: s3-ca
  {{- if .secretName }}
  secret: {{ dict "secretName" .secretName "items" $items | toJson }}
  {{- else }}
  configMap: {{ dict "name" .configMapName "items" $items | toJson }}
  {{- end }}
{{- end }}
{{- end }}
{{- if and .root.Job.archive (not (has .role (list "launcher" "keygen"))) }}
- name: trainer
  configMap:
    name: {{ include "distrain.names.trainer" .root | quote }}
{{- end }}
{{- with include "distrain.volumes.user" (merge (dict "key" "volumes" "by" "name") .) }}
{{ . }}
{{- end }}
{{- end }}

{{- define "distrain.volumes.mounts" -}}
{{- $plain := .root.Job.isPlain -}}
- name: scripts
  mountPath: /opt/distrain/bin
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if .root.Job.namesUser }}
- name: user
  mountPath: /etc/passwd
  subPath: passwd
  readOnly: true
{{- end }}
{{- if and $plain (ne .role "keygen") }}
- name: ssh-auth
  mountPath: {{ include "distrain.mpi.sshFolder" .root }}
  readOnly: true
{{- end }}
{{- if and $plain (eq .role "launcher") }}
- name: mpi-job-config
  mountPath: /etc/mpi
  readOnly: true
{{- end }}
{{- if has .role .root.Job.rankRoles }}
- name: shm
  mountPath: /dev/shm
{{- end }}
{{- if has .role .root.Job.checkpointRoles }}
- name: checkpoints
  mountPath: /checkpoints
{{- end }}
{{- if and .root.Values.s3.caBundle (ne .role "keygen") }}
- name: s3-ca
  mountPath: /etc/distrain/s3-ca
  readOnly: true
{{- end }}
{{- if and .root.Job.archive (not (has .role (list "launcher" "keygen"))) }}
- name: trainer
  mountPath: /opt/distrain/trainer
  readOnly: true
{{- end }}
{{- with include "distrain.volumes.user" (merge (dict "key" "volumeMounts" "by" "mountPath") .) }}
{{ . }}
{{- end }}
{{- end }}

{{- /*
distrain.volumes.user
  Takes a role, with "key" (volumes or volumeMounts) and "by" (the key that identifies an item when lists are merged).
  Renders a list, which may be empty. Only the roles in .Job.volumeRoles get the top-level volumes.
*/}}
{{- define "distrain.volumes.user" -}}
{{- $shared := has .role .root.Job.volumeRoles | ternary (get .root.Values .key) list | default list -}}
{{- $own := get (get .root.Job.roles .role) .key | default list -}}
{{- $found := dict "items" $shared -}}
{{- if $own -}}
{{- include "distrain.roles.named" (dict "parts" (list $shared $own) "by" .by "key" "items" "into" $found) -}}
{{- end -}}
{{- with $found.items -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.volumes.shm
  Takes the root context.
*/}}
{{- define "distrain.volumes.shm" -}}
{{- $default := "1Gi" -}}
{{- with include "distrain.volumes.memory" . -}}
{{- if lt (include "distrain.text.bytes" . | float64) (include "distrain.text.bytes" $default | float64) -}}
{{- $default = . -}}
{{- end -}}
{{- end -}}
{{- include "distrain.text.scalar" (.Values.workers.shm | default $default) -}}
{{- end }}

{{- /*
distrain.volumes.memory
  Takes the root context. Renders nothing if there is no limit.
*/}}
{{- define "distrain.volumes.memory" -}}
{{- with .Values.workers.memory | default (dig "resources" "limits" "memory" "" .Job.sections.workers) -}}
{{- include "distrain.text.scalar" . -}}
{{- end -}}
{{- end }}
