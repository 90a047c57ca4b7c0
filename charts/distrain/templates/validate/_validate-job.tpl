{{- /*
Rules on the job's run policy, on changes of its size while it runs, and on its gang scheduler.

  distrain.validate.job.runPolicy  the operator supports the given cleanPodPolicy, deadline and ttlSecondsAfterFinished
  distrain.validate.job.suspend    job.suspend is true only if the operator can suspend the job, and never with Kueue
  distrain.validate.job.rescale    live rescaling and lostWorkerTimeout are set only for kinds that support them
  distrain.validate.job.gang       the operator and the gang scheduler work together
  distrain.validate.job.managedBy  job.managedBy is set only if the kind has the field and Kueue queues the job
*/}}

{{- define "distrain.validate.job.runPolicy" -}}
{{- $job := .Values.job -}}
{{- $facts := .Job.facts -}}
{{- $fields := concat ($facts.policy.spec | default list) ($facts.policy.runPolicy | default list) -}}
{{- $what := printf "%s %s" .Job.kind .Job.version | trim -}}
{{- if and (ne $job.ttlSecondsAfterFinished nil) (not (has "ttlSecondsAfterFinished" $fields)) -}}
{{- printf "distrain: job.ttlSecondsAfterFinished: %d is set, but it would delete the whole %s, so the next helm upgrade would run the job again; --set job.ttlSecondsAfterFinished=null\n" (int64 $job.ttlSecondsAfterFinished) $what -}}
{{- end -}}
{{- if and $facts.keepsLauncher (eq $job.cleanPodPolicy "All") -}}
{{- printf "distrain: job.cleanPodPolicy: is `All`, but mpi-operator never deletes the launcher of %s; --set job.cleanPodPolicy=Running, and job.ttlSecondsAfterFinished for the launcher\n" (include "distrain.text.aVersion" .) -}}
{{- end -}}
{{- if and .Job.isPlain (ne $job.cleanPodPolicy "Running") -}}
{{- printf "distrain: job.cleanPodPolicy: is `%s`, but job.kind Plain supports only `Running`: the workers always end with the job, and nothing deletes pods; --set job.cleanPodPolicy=Running\n" $job.cleanPodPolicy -}}
{{- end -}}
{{- with $job.activeDeadlineSeconds -}}
{{- $other := has "Plain" $.Job.fits | ternary ", or --set job.kind=Plain" "" -}}
{{- if not (has "activeDeadlineSeconds" $fields) -}}
{{- printf "distrain: job.activeDeadlineSeconds: %d is set, but %s has no deadline; --set job.activeDeadlineSeconds=null\n" (int64 .) (include "distrain.text.aVersion" $) -}}
{{- else if $facts.missesDeadline -}}
{{- printf "distrain: job.activeDeadlineSeconds: %d is set, but the operator of %s does not end jobs at their deadline; --set job.activeDeadlineSeconds=null%s\n" (int64 .) $what $other -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.suspend
  Kueue itself sets the field suspend to start and stop the jobs of its queues. A suspension deletes the job's pods. If
  the launcher is a Job, Kubernetes counts a pod that is being deleted as failed
  (pkg/controller/job/job_controller.go: isPodFailed). With a backoffLimit of 0, this failure would fail the whole job
  for good. In Plain, the launcher's backoffLimit is never reached.
*/}}
{{- define "distrain.validate.job.suspend" -}}
{{- if .Values.job.suspend -}}
{{- $policy := .Job.facts.policy -}}
{{- if not (has "suspend" (concat ($policy.spec | default list) ($policy.runPolicy | default list))) -}}
{{- printf "distrain: job.suspend: is true, but %s cannot be suspended; --set job.suspend=false, or helm uninstall the release to free its nodes\n" (include "distrain.text.aVersion" .) -}}
{{- else if and (eq (dig "makes" "launcher" "" .Job.facts) "Job") (not .Job.isPlain) (not .Values.job.maxRestarts) -}}
{{- "distrain: job.suspend: is true, but job.maxRestarts is 0, so the job would fail, because Kubernetes counts the end of the launcher's pod as a failure; --set job.maxRestarts=1 or more\n" -}}
{{- end -}}
{{- if eq .Values.gang.scheduler "kueue" -}}
{{- printf "distrain: job.suspend: is true, but gang.scheduler is kueue, which itself suspends and resumes the job; --set job.suspend=false, and stop the LocalQueue %s instead, with its field stopPolicy\n" .Values.gang.queue -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.rescale" -}}
{{- $kind := .Job.kind -}}
{{- $rescale := .Values.rescale -}}
{{- if eq $rescale.mode "live" -}}
{{- if .Job.isFixed -}}
{{- $live := empty .Job.facts.isElastic | ternary "" ", or job.elastic=true" -}}
{{- printf "distrain: rescale.mode: is `live`, but the pods of this %s read the number of workers only at their start; --set rescale.mode=auto%s\n" $kind $live -}}
{{- else if .Job.isQueued -}}
{{- "distrain: rescale.mode: is `live`, but Kueue ends a job whose size changes and queues it again; --set rescale.mode=auto\n" -}}
{{- end -}}
{{- end -}}
{{- if and (ne (int64 $rescale.lostWorkerTimeout) 60) (not .Job.usesMpi) -}}
{{- printf "distrain: rescale.lostWorkerTimeout: %d is set, but %s has no launcher that waits for lost workers; --set rescale.lostWorkerTimeout=60, the default\n" (int64 $rescale.lostWorkerTimeout) (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- if and (not .Values.job.elastic) (not .Job.facts.isElastic) -}}
{{- printf "distrain: job.elastic: is false, but only a PyTorchJob uses this value, and this job is %s; --set job.elastic=true, the default\n" (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.gang
  Kueue ignores jobs whose kind or version it does not know, so they would start without waiting in the queue. Kueue
  would admit the two Jobs of a Plain job separately, and one could wait forever for the other.
*/}}
{{- define "distrain.validate.job.gang" -}}
{{- $gang := .Values.gang -}}
{{- $kind := .Job.kind -}}
{{- $version := .Job.version -}}
{{- $keys := dict "none" list "volcano" (list "queue" "priorityClass" "schedulerName") "scheduler-plugins" (list "schedulerName") "kueue" (list "queue" "priorityClass") -}}
{{- range $key := list "queue" "priorityClass" "schedulerName" -}}
{{- if and (index $gang $key) (not (has $key (get $keys $gang.scheduler))) -}}
{{- printf "distrain: gang.%s: %q is set, but gang.scheduler %s does not use it; --set gang.%s=\"\", or choose another gang.scheduler\n" $key (index $gang $key) $gang.scheduler $key -}}
{{- end -}}
{{- end -}}
{{- if ne $gang.scheduler "none" -}}
{{- $knows := has "schedulingPolicy" .Job.facts.policy.runPolicy -}}
{{- if not (or $knows .Job.isPlain) -}}
{{- printf "distrain: gang.scheduler: %s, but the operator of %s %s supports only kube-batch; --set gang.scheduler=none\n" $gang.scheduler $kind $version -}}
{{- end -}}
{{- if eq $gang.scheduler "kueue" -}}
{{- if not $gang.queue -}}
{{- "distrain: gang.queue: is empty, but gang.scheduler is kueue; set it to the LocalQueue in the job's namespace\n" -}}
{{- end -}}
{{- if .Job.isPlain -}}
{{- "distrain: gang.scheduler: kueue admits the two Jobs of job.kind Plain separately, and each could wait for the other; --set gang.scheduler=none, or choose another job.kind\n" -}}
{{- end -}}
{{- if and $knows (not .Job.facts.isQueued) -}}
{{- $install := .Job.facts.install -}}
{{- printf "distrain: gang.scheduler: kueue manages only %s %s, not %s; --set gang.scheduler=none, or install %s %s\n" $kind (first .Job.known) $version $install.operator $install.release -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.managedBy" -}}
{{- with .Values.job.managedBy -}}
{{- if not $.Job.facts.knowsManagedBy -}}
{{- $others := include "distrain.kinds.having" (dict "root" $ "fact" "knowsManagedBy") -}}
{{- printf "distrain: job.managedBy: is %q, but %s has no such field; remove it, or use %s\n" . (include "distrain.text.aVersion" $) $others -}}
{{- else if not $.Job.isQueued -}}
{{- printf "distrain: job.managedBy: is %q, but gang.scheduler is %s, so no controller would run the job; set gang.scheduler to kueue and gang.queue to its LocalQueue, or remove job.managedBy\n" . $.Values.gang.scheduler -}}
{{- end -}}
{{- if $.Values.preflight.enabled -}}
{{- "distrain: preflight.enabled: is true, but job.managedBy lets the job run in another cluster, which preflight does not see; set preflight.enabled to false\n" -}}
{{- end -}}
{{- end -}}
{{- end }}
