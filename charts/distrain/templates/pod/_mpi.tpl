{{- /*
Arguments of distrain-launch and distrain-worker, and of the mpirun that distrain-launch starts.

  distrain.mpi.launcherArgs  arguments of distrain-launch
  distrain.mpi.workerArgs    arguments of distrain-worker
  distrain.mpi.interfaces    Open MPI parameters that choose the network interfaces
  distrain.mpi.end           Open MPI parameters for ending the ranks
  distrain.mpi.sshFolder     folder in which the SSH key is mounted

All take the root context.
*/}}

{{- /*
distrain.mpi.launcherArgs
  Renders a list.

  - No -np: distrain-launch adds -np from the hostfile, so that it matches the number of existing workers.
  - --end-workers: a Plain job has no operator that deletes the workers, so distrain-launch ends them.
  - --keep-outcome: if the operator runs the launcher as a Job, the Job starts another pod after a failed run. That pod
    must know that the run has failed.
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
{{- range $key, $value := merge (include "distrain.mpi.interfaces" . | fromJson) (.Values.mpi.mca | default dict) (include "distrain.mpi.end" . | fromJson) }}
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
  Renders JSON, which may be {}.

  btl carries the ranks' data, oob the messages between mpirun and its daemons. mpirun gives all daemons the same lists.
  If interface names differ between nodes, a network (10.0.0.0/16) selects the right interface on each node. Open MPI
  refuses to have both an include list and an exclude list.
*/}}
{{- define "distrain.mpi.interfaces" -}}
{{- $included := join "," .Values.network.subnets | default .Values.network.interface -}}
{{- $excluded := join "," .Values.network.excludeInterfaces -}}
{{- if $included -}}
{{- dict "btl_tcp_if_include" $included "oob_tcp_if_include" $included | toJson -}}
{{- else if $excluded -}}
{{- dict "btl_tcp_if_exclude" $excluded "oob_tcp_if_exclude" $excluded | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.mpi.end
  Renders JSON, which may be {}.

  If one rank fails, Open MPI waits, ends the other ranks, waits again and kills them, within 2 s. The trainer does not
  need this time: its ranks save when they stop together, and its checkpoints survive a failure in the middle of a save.
  A user's command may need this time to stop. A value in mpi.mca overrides these parameters, even if it is null.
*/}}
{{- define "distrain.mpi.end" -}}
{{- $none := dict "odls_base_sigkill_timeout" nil -}}
{{- if not (or .Values.command (hasKey (.Values.mpi.mca | default $none) "odls_base_sigkill_timeout")) -}}
{"odls_base_sigkill_timeout": 0}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.mpi.sshFolder
  ssh reads the key in its user's home directory. The operator gives the key the file mode that ssh requires only if the
  folder is /root/.ssh.
*/}}
{{- define "distrain.mpi.sshFolder" -}}
{{- eq .Job.user "0" | ternary "/root/.ssh" "/home/distrain/.ssh" -}}
{{- end }}
