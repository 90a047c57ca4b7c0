{{- /*
Gang schedulers and queues, which start all pods of the job or none.

  distrain.gang.schedulerName     name of the gang scheduler; empty for Kubernetes' default scheduler
  distrain.gang.podScheduler      schedulerName of a role's pods, if the chart sets it
  distrain.gang.queue             the job's queue, which cannot change while the job runs
  distrain.gang.schedulingPolicy  schedulingPolicy of a Kubeflow resource
  distrain.gang.jobLabels         labels of the job's resource
  distrain.gang.podLabels         labels of a role's pods
  distrain.gang.podAnnotations    annotations of a role's pods
  distrain.gang.member            name of the gang scheduler if the chart makes the PodGroup of a role's pods

In this file, a role is (dict "root" <root context> "role" <name of the role> "job" <the job's name>).
*/}}

{{- /*
distrain.gang.schedulerName
  Takes the root context.
*/}}
{{- define "distrain.gang.schedulerName" -}}
{{- $names := dict "volcano" "volcano" "scheduler-plugins" "scheduler-plugins-scheduler" -}}
{{- with get $names .Values.gang.scheduler -}}
{{- $.Values.gang.schedulerName | default . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.podScheduler
  Takes a role. The pod that makes the SSH key is not in the gang, because it has to run before the other pods.
*/}}
{{- define "distrain.gang.podScheduler" -}}
{{- if not (or (eq .role "keygen") .root.Job.facts.setsScheduler) -}}
{{- include "distrain.gang.schedulerName" .root -}}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.queue
  Takes the root context.
*/}}
{{- define "distrain.gang.queue" -}}
{{- if ne .Values.gang.scheduler "none" -}}
{{- .Values.gang.queue -}}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.schedulingPolicy
  Takes the root context. Renders nothing without a gang scheduler.
*/}}
{{- define "distrain.gang.schedulingPolicy" -}}
{{- if include "distrain.gang.schedulerName" . -}}
schedulingPolicy:
  minAvailable: {{ include "distrain.job.pods" . }}
  {{- with .Values.gang.queue }}
  queue: {{ . | quote }}
  {{- end }}
  {{- with .Values.gang.priorityClass }}
  priorityClass: {{ . | quote }}
  {{- end }}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.jobLabels
  Takes the root context. Kueue suspends and resumes every job that has the label kueue.x-k8s.io/queue-name.
*/}}
{{- define "distrain.gang.jobLabels" -}}
{{- if eq .Values.gang.scheduler "kueue" -}}
kueue.x-k8s.io/queue-name: {{ .Values.gang.queue | quote }}
{{- with .Values.gang.priorityClass }}
kueue.x-k8s.io/priority-class: {{ . | quote }}
{{- end }}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.podLabels, distrain.gang.podAnnotations
  Take a role. Render JSON, which may be {}. These labels and annotations put a Plain job's pods into its PodGroup. For
  the other kinds, the operator adds these labels and annotations.
*/}}
{{- define "distrain.gang.podLabels" -}}
{{- if eq (include "distrain.gang.member" .) "scheduler-plugins" -}}
{{- dict "scheduling.x-k8s.io/pod-group" .job | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- define "distrain.gang.podAnnotations" -}}
{{- if eq (include "distrain.gang.member" .) "volcano" -}}
{{- dict "scheduling.k8s.io/group-name" .job | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.member
  Takes a role. Renders nothing if the chart makes no PodGroup for the role's pods.
*/}}
{{- define "distrain.gang.member" -}}
{{- if and .root.Job.makesPodGroup (ne .role "keygen") -}}
{{- .root.Values.gang.scheduler -}}
{{- end -}}
{{- end }}
