{{- /*
Schedulers and queues that let all pods of the job start or none.

  distrain.gang.schedulerName     name of the gang scheduler; nothing for Kubernetes' own
  distrain.gang.podScheduler      schedulerName of the pods
  distrain.gang.queue             queue of the job that cannot change while it runs
  distrain.gang.schedulingPolicy  schedulingPolicy of a Kubeflow resource
  distrain.gang.jobLabels         labels of the job resource
  distrain.gang.podLabels         labels of one role's pods
  distrain.gang.podAnnotations    annotations of one role's pods
  distrain.gang.member            the scheduler that finds the role's pods by their labels or annotations
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
  Takes a role. The Job that makes the SSH key starts before all others.
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
  Takes the root context. Kueue suspends and resumes the job that carries its label.
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
  Take a role. Operators add them to their own pods.
*/}}
{{- define "distrain.gang.podLabels" -}}
{{- if eq (include "distrain.gang.member" .) "scheduler-plugins" -}}
scheduling.x-k8s.io/pod-group: {{ .job | quote }}
{{- end -}}
{{- end }}

{{- define "distrain.gang.podAnnotations" -}}
{{- if eq (include "distrain.gang.member" .) "volcano" -}}
scheduling.k8s.io/group-name: {{ .job | quote }}
{{- end -}}
{{- end }}

{{- /*
distrain.gang.member
  Takes a role. The scheduler whose PodGroup of the chart's the role's pods belong to; nothing for none.
*/}}
{{- define "distrain.gang.member" -}}
{{- if and .root.Job.makesPodGroup (ne .role "keygen") -}}
{{- .root.Values.gang.scheduler -}}
{{- end -}}
{{- end }}
