{{- /*
What follows from values for mpirun and ssh.

  distrain.mpi.launcherArgs  arguments of distrain-launch
  distrain.mpi.workerArgs    arguments of distrain-worker
  distrain.mpi.interfaces    Open MPI parameters that pick the network interfaces
  distrain.mpi.end           Open MPI parameters for the end of the ranks
  distrain.mpi.sshFolder     where the SSH key is mounted

All take the root context.
*/}}

{{- /*
distrain.mpi.launcherArgs
  Renders a list.

  No -np: distrain-launch takes it from the list of hosts, so that it fits however many workers there are. Plain has no
  operator that would delete the workers in the end: distrain-launch ends them. A Job that an operator makes of the
  launcher starts another one, whatever the first ended with: that one has to know.
*/}}
{{- define "distrain.mpi.launcherArgs" -}}
{{- if .Job.usesKubexec -}}
- --rsh=kubexec
{{- else -}}
- --rsh=ssh
- --ssh-port={{ int .Values.ssh.port }}
- --ssh-folder={{ include "distrain.mpi.sshFolder" . }}
{{- end }}
- --workers-timeout={{ int64 (.Values.launcher.workersTimeout | default 1800) }}
- --rescale={{ ternary "replace" "live" .Job.isReplaced }}
- --lost-worker-timeout={{ int64 .Values.rescale.lostWorkerTimeout }}
- --max-restarts={{ int64 .Values.job.maxRestarts }}
- --restart-window={{ int64 .Values.job.restartWindow }}
- --grace={{ include "distrain.pod.ranksGrace" . }}
{{- if .Job.isPlain }}
- --end-workers
{{- else if eq .Job.facts.makes.launcher "Job" }}
- --keep-outcome
{{- end }}
- mpirun
{{- range $key, $value := merge (include "distrain.mpi.interfaces" . | fromYaml) (.Values.mpi.mca | default dict) (include "distrain.mpi.end" . | fromYaml) }}
{{- if ne $value nil }}
- --mca
- {{ $key | quote }}
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
  Renders a list.
*/}}
{{- define "distrain.mpi.workerArgs" -}}
{{- if .Job.usesKubexec -}}
- --no-sshd
{{- else -}}
- --ssh-port={{ int .Values.ssh.port }}
- --ssh-folder={{ include "distrain.mpi.sshFolder" . }}
{{- end }}
- --grace={{ include "distrain.pod.grace" . }}
{{- end }}

{{- /*
distrain.mpi.interfaces
  btl is for the ranks' data, oob for what mpirun says to its daemons. Open MPI refuses include beside exclude.
*/}}
{{- define "distrain.mpi.interfaces" -}}
{{- with .Values.network.interface -}}
btl_tcp_if_include: {{ . | quote }}
oob_tcp_if_include: {{ . | quote }}
{{- else -}}
{{- with .Values.network.excludeInterfaces -}}
btl_tcp_if_exclude: {{ join "," . | quote }}
oob_tcp_if_exclude: {{ join "," . | quote }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.mpi.end
  When one rank ends with an error, Open MPI waits, ends the others, waits, and kills them: 2 s in all. The trainer's
  have saved before they stop together; after a failure a save under way breaks off, as at any kill. What a command of
  the user's does is not known. mpi.mca has the last word, by null too.
*/}}
{{- define "distrain.mpi.end" -}}
{{- $none := dict "odls_base_sigkill_timeout" nil -}}
{{- if not (or .Values.command (hasKey (.Values.mpi.mca | default $none) "odls_base_sigkill_timeout")) -}}
odls_base_sigkill_timeout: 0
{{- end -}}
{{- end }}

{{- /*
distrain.mpi.sshFolder
  ssh looks below its user's home; the operator sets the modes that ssh wants of root's key only for root's folder.
*/}}
{{- define "distrain.mpi.sshFolder" -}}
{{- eq (include "distrain.security.user" .) "0" | ternary "/root/.ssh" "/home/distrain/.ssh" -}}
{{- end }}
