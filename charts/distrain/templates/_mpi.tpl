{{- /*
What follows from values for mpirun and ssh.

  distrain.mpi.slots         ranks per worker
  distrain.mpi.launcherArgs  arguments of distrain-launch
  distrain.mpi.workerArgs    arguments of distrain-worker
  distrain.mpi.sshFolder     where the operator mounts the SSH key
*/}}

{{- /*
distrain.mpi.slots
  Takes the root context. One rank per GPU; a worker without GPUs has one rank.
*/}}
{{- define "distrain.mpi.slots" -}}
{{- max (int .Values.workers.gpus) 1 -}}
{{- end }}

{{- /*
distrain.mpi.launcherArgs
  Takes the root context. Renders a list.

  No -np: distrain-launch takes it from the operator's hostfile, so that it fits however many workers there are.
*/}}
{{- define "distrain.mpi.launcherArgs" -}}
- --ssh-port={{ int .Values.ssh.port }}
- --ssh-folder={{ include "distrain.mpi.sshFolder" . }}
- --workers-timeout={{ int .Values.launcher.workersTimeout }}
- mpirun
{{- range $key, $value := .Values.mpi.mca }}
{{- if ne $value nil }}
- --mca
- {{ $key }}
- {{ include "distrain.text.scalar" $value | quote }}
{{- end }}
{{- end }}
{{- with .Values.mpi.flags }}
{{ include "distrain.text.list" . }}
{{- end }}
- --
{{ include "distrain.trainer.program" . }}
{{- end }}

{{- /*
distrain.mpi.workerArgs
  Takes the root context. Renders a list.
*/}}
{{- define "distrain.mpi.workerArgs" -}}
- --ssh-port={{ int .Values.ssh.port }}
- --ssh-folder={{ include "distrain.mpi.sshFolder" . }}
{{- end }}

{{- /*
distrain.mpi.sshFolder
  Takes nothing.
*/}}
{{- define "distrain.mpi.sshFolder" -}}
/home/distrain/.ssh
{{- end }}
