{{- /*
The job's manifest, and the fields that several kinds have in common.

  distrain.job.shown          the job's manifest; empty if the job is of another kind than the given one
  distrain.job.resource       the job's manifest, with the given name
  distrain.job.documents      manifests of the scripts' ConfigMap and of the job
  distrain.job.pods           number of pods that have to run at the same time
  distrain.job.policy         run policy of a Kubeflow resource
  distrain.job.policyFields   the fields of the run policy that the caller lists
  distrain.job.restartPolicy  restartPolicy of the training-operator's pods

These templates also render a second job, the job of `helm test`. For this job, tests/allreduce.yaml makes a root
context in which `variant` is `test`. The objects of the second job then get other names (_names.tpl) and the
annotations of a hook (_labels.tpl).
*/}}

{{- /*
distrain.job.shown
  Takes (dict "root" <root context> "kind" <kind>).
*/}}
{{- define "distrain.job.shown" -}}
{{- include "distrain.context" .root -}}
{{- if and .root.Values.job.enabled (eq .root.Job.kind .kind) -}}
{{- include "distrain.job.resource" (dict "root" .root "job" .root.Job.names.job) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.job.resource
  Takes (dict "root" <root context> "job" <the job's name>).
*/}}
{{- define "distrain.job.resource" -}}
{{- include (printf "distrain.%s.resource" (lower .root.Job.kind)) . -}}
{{- end }}

{{- /*
distrain.job.documents
  Takes the root context.
*/}}
{{- define "distrain.job.documents" -}}
{{- $job := dict "root" . "job" .Job.names.job -}}
---
{{ include "distrain.scripts.configmap" $job }}
---
{{ include "distrain.job.resource" $job }}
{{- end }}

{{- /*
distrain.job.pods
  Takes the root context.
*/}}
{{- define "distrain.job.pods" -}}
{{- $pods := int .Values.workers.replicas -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $section := get $.Kinds.roles $role -}}
{{- if eq $section "servers" -}}
{{- $pods = add $pods ($.Values.servers.replicas | default 1 | int) -}}
{{- else if ne $section "workers" -}}
{{- $pods = add $pods 1 -}}
{{- end -}}
{{- end -}}
{{- $pods -}}
{{- end }}

{{- /*
distrain.job.policy
  Takes the root context. Some operators read the run policy from spec and some from spec.runPolicy, and some know only
  a few of its fields.
*/}}
{{- define "distrain.job.policy" -}}
{{- $policy := .Job.facts.policy -}}
{{- with $policy.spec -}}
{{- include "distrain.job.policyFields" (dict "root" $ "fields" .) -}}
{{- end -}}
{{- with $policy.runPolicy -}}
{{- if $policy.spec }}{{ print "\n" }}{{ end -}}
runPolicy:
  {{- include "distrain.job.policyFields" (dict "root" $ "fields" .) | nindent 2 }}
  {{- with $.Values.job.managedBy }}
  managedBy: {{ . }}
  {{- end }}
{{- end -}}
{{- end }}

{{- /*
distrain.job.policyFields
  Takes (dict "root" <root context> "fields" <names of fields>).

  `backoffLimit` is the number of new pods that the launcher's Job of an MPIJob creates after its pods were deleted or
  killed. The Job also creates new pods after the run has failed for good. Each of these pods reads that the run has
  failed, because --keep-outcome made the first pod record it, and exits at once. Kubernetes waits 10 s before the first
  new pod, 20 s before the second and 40 s before the third. The limit is at most 3, so that these waits stay short.
  Jobs of the training-operator get no backoffLimit. When such a job reaches a backoffLimit, the operator deletes every
  pod with its log, whatever cleanPodPolicy says.
*/}}
{{- define "distrain.job.policyFields" -}}
{{- $job := .root.Values.job -}}
cleanPodPolicy: {{ $job.cleanPodPolicy }}
{{- if has "backoffLimit" .fields }}
backoffLimit: {{ min 3 (int64 $job.maxRestarts) }}
{{- end }}
{{- with and (has "activeDeadlineSeconds" .fields) $job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int64 . }}
{{- end }}
{{- if and (has "ttlSecondsAfterFinished" .fields) (ne $job.ttlSecondsAfterFinished nil) }}
ttlSecondsAfterFinished: {{ int64 $job.ttlSecondsAfterFinished }}
{{- end }}
{{- if and (has "suspend" .fields) $job.suspend }}
suspend: true
{{- end }}
{{- if has "schedulingPolicy" .fields }}
{{- with include "distrain.gang.schedulingPolicy" .root }}
{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
distrain.job.restartPolicy
  Takes the root context.

  With restartPolicy ExitCode, the operator replaces every pod that was killed or deleted (exit code 128 or more),
  however often that happens. If a pod fails with an exit code below 128, the job fails at once, and the pod's log
  stays. If only the program in a pod fails, the script that is process 1 restarts the program, without a new pod.
*/}}
{{- define "distrain.job.restartPolicy" -}}
{{- empty .Values.job.maxRestarts | ternary "Never" .Job.facts.restartPolicy -}}
{{- end }}
