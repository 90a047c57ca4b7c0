{{- /*
Parts of every kind of job.

  distrain.job.shown            the job's resource, when it is of a kind
  distrain.job.resource         the job's resource, with the name given
  distrain.job.documents        every resource of the job
  distrain.job.fixed            what a running job cannot take over, as text
  distrain.job.fixedSpec        the part of it in a Kubeflow resource's spec
  distrain.job.pods             number of pods that have to run at once
  distrain.job.policy           run policy of a Kubeflow resource
  distrain.job.policyFields     fields of it below one object
  distrain.job.restartPolicy    of the training-operator's pods
  distrain.job.launcherRetries  how often a lost launcher's pod is made anew

A root context with the key `variant: test` is that of `helm test`: see _names.tpl and _labels.tpl for what differs.
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
distrain.job.fixed
  Takes the root context.

  Operators create a pod once and never change it. They follow sizes, and some of the run policy, while the job runs;
  labels and annotations do not touch what is trained. The scripts are left out: their ConfigMap changes in place, so that
  another version of the chart replaces no job. Plain: a Job's pod template is immutable, so every field of the pods is in.
*/}}
{{- define "distrain.job.fixed" -}}
{{- $part := .Job.isPlain | ternary "distrain.plain.fixed" "distrain.job.fixedSpec" -}}
{{- $resource := include $part (dict "root" . "job" "") | fromJson -}}
{{- toJson (list .Job.version .Job.kind $resource (include "distrain.gang.queue" .)) -}}
{{- end }}

{{- /*
distrain.job.fixedSpec
  Takes (dict "root" <root context> "job" ""). Renders JSON.
*/}}
{{- define "distrain.job.fixedSpec" -}}
{{- $job := .root.Job -}}
{{- $spec := (include "distrain.job.resource" . | fromYaml).spec -}}
{{- range $role, $replica := get $spec $job.facts.replicas -}}
{{- $_ := unset $replica.template "metadata" -}}
{{- if not $job.isReplaced -}}
{{- $_ := unset $replica "replicas" -}}
{{- end -}}
{{- end -}}
{{- range $job.facts.live -}}
{{- $path := splitList "." . -}}
{{- $object := $spec -}}
{{- range initial $path -}}
{{- $object = get $object . -}}
{{- end -}}
{{- $_ := unset $object (last $path) -}}
{{- end -}}
{{- toJson $spec -}}
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
  Takes the root context. Operators read the fields in different places, and some do not know all of them.
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
{{- end -}}
{{- end }}

{{- /*
distrain.job.policyFields
  Takes (dict "root" <root context> "fields" <names of fields>).

  The training-operator gets no backoffLimit: at that limit it deletes every pod with its log, whatever cleanPodPolicy says.
*/}}
{{- define "distrain.job.policyFields" -}}
{{- $job := .root.Values.job -}}
cleanPodPolicy: {{ $job.cleanPodPolicy }}
{{- if has "backoffLimit" .fields }}
backoffLimit: {{ include "distrain.job.launcherRetries" .root }}
{{- end }}
{{- with and (has "activeDeadlineSeconds" .fields) $job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int64 . }}
{{- end }}
{{- if and (has "ttlSecondsAfterFinished" .fields) (ne $job.ttlSecondsAfterFinished nil) }}
ttlSecondsAfterFinished: {{ int64 $job.ttlSecondsAfterFinished }}
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

  With ExitCode a pod that was killed or deleted (128 and above) is made anew, and one that failed (below) fails the job
  at once and keeps its log. The operator counts neither. What may be tried again is tried inside the pod.
*/}}
{{- define "distrain.job.restartPolicy" -}}
{{- empty .Values.job.maxRestarts | ternary "Never" .Job.facts.restartPolicy -}}
{{- end }}

{{- /*
distrain.job.launcherRetries
  Takes the root context. How often a launcher's Job makes another pod.

  For a pod that was deleted or killed. The Job makes one for a run that has failed too, which then ends as the first
  did, but the Job waits longer before each: ten seconds, then twenty, then forty.
*/}}
{{- define "distrain.job.launcherRetries" -}}
{{- min 3 (int64 .Values.job.maxRestarts) -}}
{{- end }}
