{{- /*
Arguments of distrain-launch and distrain-worker, and of the mpirun that distrain-launch starts.

  distrain.mpi.launcherArgs  arguments of distrain-launch
  distrain.mpi.workerArgs    arguments of distrain-worker
  distrain.mpi.interfaces    Open MPI parameters that choose the network interfaces
  distrain.mpi.end           Open MPI parameters for the end of a run in which a rank has failed
  distrain.mpi.sshFolder     folder in which the SSH key is mounted

All take the root context.
*/}}

{{- /*
distrain.mpi.launcherArgs
  Renders a list.

  - No -np: distrain-launch adds -np from the hostfile, so that it matches the number of existing workers.

  - --end-workers: a Plain job has no operator that deletes the workers, so distrain-launch ends them.

  - --keep-outcome: distrain-launch records that the run has failed, and the next launcher's pod reads this record and
    exits. The flag is needed if the operator runs the launcher as a Job, because the Job then starts another pod after
    a failed run.
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

  The btl parameters choose the interfaces for data between ranks. The oob parameters choose the interfaces for messages
  between mpirun and its daemons. One call of mpirun passes the same list of interfaces to all nodes. If the interfaces'
  names differ between nodes, network.subnets, such as 10.0.0.0/16, selects the right interface on each node. Open MPI
  refuses an include list together with an exclude list.
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

  If one rank fails, Open MPI waits, sends SIGTERM to the other ranks, waits again and kills them, all within 2 s. The
  trainer does not need these waits, so the chart sets them to 0. Once a rank has failed, the other ranks cannot stop at
  the same step and save a checkpoint. If a rank is killed while it saves, the earlier checkpoints stay intact. For a
  user's command the chart keeps the waits, because the command may need this time to stop. If mpi.mca is null or
  contains this parameter, even with the value null, the chart does not set it.
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
  ssh looks for the key in the home directory of its user. For root the folder must be /root/.ssh, because with any
  other folder the operator does not give the key the file mode that ssh requires.
*/}}
{{- define "distrain.mpi.sshFolder" -}}
{{- eq .Job.user "0" | ternary "/root/.ssh" "/home/distrain/.ssh" -}}
{{- end }}
