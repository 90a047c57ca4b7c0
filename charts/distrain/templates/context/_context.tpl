{{- /*
What the values ask for, prepared once. Every template that makes a resource begins with it.

  distrain.context  sets .Job, beside Helm's .Values and .Release

  .Job.kind          MPIJob, PyTorchJob, MXJob, TFJob or Plain
  .Job.version       its version, such as v1; empty for Plain
  .Job.apiVersion    the same with its group
  .Job.facts         what files/kinds.yaml says of that kind and version
  .Job.fits          kinds that run the framework with the strategy
  .Job.known         versions of the kind that the chart can write, the newest first
  .Job.served        those of them that the cluster serves
  .Job.isReal        a real cluster answers, which `helm template` lacks
  .Job.slots         ranks per worker
  .Job.usesMpi       mpirun starts the ranks
  .Job.usesKubexec   it does so with kubectl exec, as the older MPI operators have it
  .Job.usesSsh       it does so through SSH
  .Job.isPlain       there is no operator: the chart writes what it would make
  .Job.isElastic     workers may come and go under torchrun
  .Job.isFixed       they may not, as the environment of the pods tells their number
  .Job.isQueued      Kueue admits it, and ends and queues anew a job whose number of pods has changed
  .Job.isReplaced    another size is another job: the pods' environment tells the size, Kueue or the user wants it so
  .Job.roles         the section of the values for the pods of each role
  .Job.rankRoles     roles whose pods hold ranks
  .Job.makesPodGroup the chart makes the PodGroup itself, as no operator does
  .Job.makesKey      the release has a Job that makes the SSH key; `helm test` uses the release's key
  .Job.names         names of the release's objects; see _names.tpl for short, full, instance, job and run
  .Job.hash          short hash of the job's content, once distrain.names.hash has made it
*/}}

{{- /*
distrain.context
  Takes the root context. All templates of a rendering share it, so the first of them prepares .Job for all.

  apiregistration.k8s.io is what every real cluster has and Helm's built-in list lacks. One rank per GPU; a worker without
  GPUs has one rank.
*/}}
{{- define "distrain.context" -}}
{{- if not (hasKey . "Job") -}}
{{- include "distrain.kinds.read" . -}}
{{- $job := .Values.job -}}
{{- $fits := dig .Values.strategy .Values.framework list .Kinds.choices -}}
{{- $name := eq $job.kind "auto" | ternary (first $fits) $job.kind | default "" -}}
{{- $kind := dict -}}
{{- range .Kinds.kinds -}}
{{- if eq .name $name -}}
{{- $kind = . -}}
{{- end -}}
{{- end -}}
{{- $known := list -}}
{{- range $kind.versions -}}
{{- $known = append $known .name -}}
{{- end -}}
{{- $served := include "distrain.kinds.served" (dict "root" . "kind" $kind) | fromJsonArray -}}
{{- $version := eq $job.apiVersion "auto" | ternary (concat $served $known (list "") | first) $job.apiVersion -}}
{{- $facts := dict -}}
{{- include "distrain.kinds.facts" (dict "root" . "kind" $kind "version" $version "facts" $facts) -}}
{{- $isPlain := eq $name "Plain" -}}
{{- /* The Job that makes the SSH key stands where the launcher may. */ -}}
{{- $roles := dict "keygen" .Values.launcher -}}
{{- $rankRoles := list -}}
{{- range $role, $section := .Kinds.roles -}}
{{- $_ := index $.Values $section | set $roles $role -}}
{{- if eq $section "workers" -}}
{{- $rankRoles = append $rankRoles $role -}}
{{- end -}}
{{- end -}}
{{- $isElastic := and $facts.isElastic $job.elastic | empty | not -}}
{{- $isFixed := and $facts.isFixed (not $isElastic) | empty | not -}}
{{- $isQueued := eq .Values.gang.scheduler "kueue" -}}
{{- $mode := .Values.rescale.mode -}}
{{- if eq $mode "auto" -}}
{{- $mode = empty .Values.command | ternary "live" "replace" -}}
{{- end -}}
{{- $_ := set . "Job" (dict
  "kind" $name
  "version" $version
  "apiVersion" (printf "%s/%s" $facts.group $version)
  "facts" $facts
  "fits" $fits
  "known" $known
  "served" $served
  "isReal" (.Capabilities.APIVersions.Has "apiregistration.k8s.io/v1")
  "slots" (max (int .Values.workers.gpus) 1)
  "usesMpi" (eq $facts.starter "mpirun")
  "usesKubexec" (eq $facts.remoteShell "kubexec")
  "usesSsh" (eq $facts.remoteShell "ssh")
  "isPlain" $isPlain
  "roles" $roles
  "rankRoles" $rankRoles
  "makesPodGroup" (include "distrain.gang.schedulerName" . | empty | not | and $isPlain)
  "makesKey" (and $isPlain (not .Values.ssh.secretName) (not (hasKey . "variant")))
  "isElastic" $isElastic
  "isFixed" $isFixed
  "isQueued" $isQueued
  "isReplaced" (or $isFixed $isQueued (eq $mode "replace"))
  "names" (dict)
) -}}
{{- /* Each may be made of those before it. */ -}}
{{- range list "short" "full" "instance" "job" "run" -}}
{{- $_ := include (printf "distrain.names.%s" .) $ | set $.Job.names . -}}
{{- end -}}
{{- end -}}
{{- end }}
