{{- /*
Commands of the containers.

  distrain.program.command   command, arguments and lifecycle of a role's first container
  distrain.program.torchrun  command line with which torchrun starts the ranks of a pod
*/}}

{{- /*
distrain.program.command
  Takes (dict "root" <root context> "role" <role>).
*/}}
{{- define "distrain.program.command" -}}
{{- $torchrun := eq .root.Job.facts.starter "torchrun" -}}
{{- if eq .role "keygen" -}}
command: [/opt/distrain/bin/distrain-keygen]
args:
  - --secret={{ include "distrain.names.sshSecret" .root }}
{{- else if eq .role "launcher" -}}
command: [/opt/distrain/bin/distrain-launch]
args:
  {{- include "distrain.mpi.launcherArgs" .root | nindent 2 }}
{{- else if .root.Job.usesMpi -}}
command: [/opt/distrain/bin/distrain-worker]
args:
  {{- include "distrain.mpi.workerArgs" .root | nindent 2 }}
{{- else -}}
command: [/opt/distrain/bin/{{ ternary "distrain-torchrun" "distrain-run" .root.Job.isElastic }}]
args:
  - --max-restarts={{ int64 .root.Values.job.maxRestarts }}
  - --restart-window={{ int64 .root.Values.job.restartWindow }}
  {{- if $torchrun }}
  {{- /* If the image has no torchrun, the script's error message names the image. */}}
  - --image={{ include "distrain.pod.image" .root }}
  {{- end }}
  - --
  {{- include (ternary "distrain.program.torchrun" "distrain.trainer.program" $torchrun) .root | nindent 2 }}
{{- if .root.Job.isElastic }}
lifecycle:
  {{- /*
  During a rescale, the operator may delete a pod that it has just created. Then kubelet sends SIGTERM to the
  container's first process (process id 1). The kernel drops a SIGTERM that this process neither blocks nor handles yet.
  So kubelet runs this hook before it sends SIGTERM, and the hook waits until the process blocks or handles SIGTERM.
  */}}
  preStop:
    exec:
      command: [python3, /opt/distrain/bin/distrain_sigterm.py]
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.program.torchrun
  Takes the root context. Renders a list.

  torchrun reads the number of pods, their ranks and the rendezvous endpoint from the operator's PET_* variables. A job
  of fixed size with one rank per pod needs no torchrun, because the operator sets RANK and WORLD_SIZE for the program.
  In such a job torchrun could even hang. If a worker's torchrun restarts while the Master's old torchrun still runs,
  the new torchrun joins the old rendezvous, and the two wait for each other forever.
*/}}
{{- define "distrain.program.torchrun" -}}
{{- if and (eq .Job.slots 1) (not .Job.isElastic) -}}
{{- include "distrain.trainer.program" . -}}
{{- else if not .Values.command -}}
- torchrun
{{ include "distrain.trainer.module" (dict "root" . "module" "distrain_trainer") }}
{{ include "distrain.trainer.arguments" . }}
{{- else -}}
- torchrun
- --no-python
{{ include "distrain.trainer.program" . }}
{{- end -}}
{{- end }}
