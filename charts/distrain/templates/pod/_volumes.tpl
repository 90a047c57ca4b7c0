{{- /*
Volumes of the pods and where they are mounted.

  distrain.volumes.all     volumes of a role's pods
  distrain.volumes.mounts  mounts of its first container
  distrain.volumes.shm     size of /dev/shm
  distrain.volumes.user    whether the role's pods get the user's volumes
  distrain.volumes.checkpoints  whether they get a folder for checkpoints, as the user has none

A role is (dict "root" <root context> "role" <role> "job" <the job's name>).
*/}}

{{- /*
distrain.volumes.all
  Under `restricted` /tmp is the one place where a pod can write: Open MPI's session, sshd's configuration, the
  frameworks' caches. The key's files are named one by one, so that a pod waits until all of them are there.
*/}}
{{- define "distrain.volumes.all" -}}
{{- $plain := .root.Job.isPlain -}}
- name: scripts
  configMap:
    name: {{ include "distrain.names.scripts" .job | quote }}
    defaultMode: 0755
- name: tmp
  emptyDir: {}
{{- if and $plain (ne .role "keygen") }}
- name: ssh-auth
  secret:
    secretName: {{ include "distrain.names.sshSecret" .root | quote }}
    defaultMode: {{ eq (include "distrain.security.user" .root) "0" | ternary "0400" "0440" }}
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
{{- if include "distrain.volumes.checkpoints" . }}
- name: checkpoints
  emptyDir: {}
{{- end }}
{{- if include "distrain.volumes.user" . }}
{{- with .root.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "distrain.volumes.mounts" -}}
{{- $plain := .root.Job.isPlain -}}
- name: scripts
  mountPath: /opt/distrain/bin
  readOnly: true
- name: tmp
  mountPath: /tmp
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
{{- if include "distrain.volumes.checkpoints" . }}
- name: checkpoints
  mountPath: /checkpoints
{{- end }}
{{- if include "distrain.volumes.user" . }}
{{- with .root.Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
distrain.volumes.shm
  Takes the root context.
*/}}
{{- define "distrain.volumes.shm" -}}
{{- $workers := .Values.workers -}}
{{- $default := "1Gi" -}}
{{- with $workers.memory -}}
{{- if lt (include "distrain.text.bytes" . | float64) (include "distrain.text.bytes" $default | float64) -}}
{{- $default = . -}}
{{- end -}}
{{- end -}}
{{- $workers.shm | default $default -}}
{{- end }}

{{- /*
distrain.volumes.user
  Those that train, a TFJob's Chief, which writes the model, and with a command of the user's all that run it: it may lie
  on a volume. Not the MPI launcher: a disk that one node alone can attach would keep it from starting elsewhere.
*/}}
{{- define "distrain.volumes.user" -}}
{{- $roles := list "worker" "master" "chief" -}}
{{- if .root.Values.command -}}
{{- $roles = concat $roles (list "server" "scheduler") -}}
{{- end -}}
{{- has .role $roles | ternary "true" "" -}}
{{- end }}

{{- /*
distrain.volumes.checkpoints
  Those that run the trainer. A program of the user's knows nothing of it.
*/}}
{{- define "distrain.volumes.checkpoints" -}}
{{- $trains := not (has .role (list "launcher" "keygen")) -}}
{{- and $trains (not .root.Values.command) (not .root.Values.checkpoint.uri) | ternary "true" "" -}}
{{- end }}
