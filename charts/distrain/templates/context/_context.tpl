{{- /*
Facts derived from the values, computed once. Every template that renders a resource includes distrain.context first.

  distrain.context        sets .Job, beside Helm's .Values and .Release
  distrain.context.prune  removes the keys of a map that are null

The fields of .Job (a field with an arrow is a map: key -> value):

  .Job.kind             MPIJob, PyTorchJob, MXJob, TFJob or Plain
  .Job.version          version of the kind, such as v1; empty for Plain
  .Job.apiVersion       group and version, such as kubeflow.org/v1
  .Job.facts            facts about the kind and version, from files/kinds.json
  .Job.fits             kinds that can run the framework with the strategy
  .Job.known            versions of the kind that the chart can write, the newest first
  .Job.served           the known versions that the cluster serves, the newest first
  .Job.isReal           Helm talks to a real cluster; false for `helm template` without one
  .Job.slots            ranks per worker
  .Job.usesMpi          mpirun starts the ranks
  .Job.usesKubexec      mpirun reaches the workers with kubectl exec
  .Job.usesSsh          mpirun reaches the workers with SSH
  .Job.user             user id of the pods, as text; empty if the cluster chooses it
  .Job.namesUser        the pods get an /etc/passwd with their user for ssh, because the cluster chooses the user
  .Job.isPlain          no operator: the chart writes the Jobs and the Service itself
  .Job.isElastic        torchrun lets workers join and leave
  .Job.isFixed          the number of workers is fixed, because the pods' environment contains it
  .Job.isQueued         Kueue admits the job; if its number of pods changes, Kueue ends it and queues it again
  .Job.isReplaced       a new size replaces the job: isFixed, isQueued, or the user's choice
  .Job.sections         section's name, such as workers -> the section's values, merged over the top-level defaults
  .Job.paths            prefix of the paths in a section, such as "workers." -> the section's name; "" -> "" (top level)
  .Job.given            prefix, as in .Job.paths -> the section's values, without the top-level defaults
  .Job.roles            role -> the values that describe the role's pods, from .Job.sections
  .Job.rankRoles        roles whose pods hold ranks
  .Job.volumeRoles      roles whose pods mount the user's volumes
  .Job.checkpointRoles  roles whose pods get an emptyDir for checkpoints
  .Job.servesMetrics    the trainer serves metrics
  .Job.metricsRoles     roles whose pods declare the metrics port, if the values ask for metrics
  .Job.archive          short hash of the trainer's archive if the chart delivers the trainer, else empty
  .Job.makesPodGroup    the chart makes the PodGroup, because no operator does
  .Job.makesKey         the release has a Job that makes the SSH key; `helm test` uses the release's key
  .Job.hasReplaceHook   the release has the hook that ends the running job before its content changes
  .Job.names            names of the release's objects: short, full, instance, job and run; see _names.tpl
  .Job.hash             content hash of the job, once distrain.hash.content has computed it
  .Job.parts            cache of distrain.pod.once: parts of the pods that are already rendered
*/}}

{{- /*
distrain.context
  Takes the root context. All templates of one rendering share the root context, so only the first call computes .Job.

  - isReal: every real cluster serves apiregistration.k8s.io. Without a cluster, Helm uses a built-in list of API
    versions, which lacks this group.

  - slots: one rank per GPU; a worker without GPUs has one rank.

  - volumeRoles: if `command` is not set, only the roles that read or write files mount the volumes. A user's command
    may itself be on a volume. So with a command, all roles mount the volumes, except the MPI launcher. If a volume can
    be attached to only one node at a time, a launcher that mounts the volume could not run on another node than the
    workers.

  - metricsRoles: the list contains the roles with ranks. If the trainer serves the metrics, the list also contains
    `chief`: a TFJob's chief has no rank, but serves the run's step and loss.

  - checkpointRoles: the list is empty if `command` is set, because only the trainer writes to the emptyDir. The list is
    also empty if checkpoint.uri is set, because the trainer then saves its checkpoints there.

  - hasReplaceHook: without rbac.create the chart makes no Role, so the hook needs replace.serviceAccountName.
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
{{- $known := include "distrain.versions.known" $kind | fromJsonArray -}}
{{- $served := include "distrain.versions.served" (dict "root" . "kind" $kind) | fromJsonArray -}}
{{- $version := include "distrain.versions.chosen" (dict "root" . "known" $known "served" $served) -}}
{{- $facts := dict -}}
{{- include "distrain.kinds.facts" (dict "root" . "kind" $kind "version" $version "facts" $facts) -}}
{{- $isPlain := eq $name "Plain" -}}
{{- $sections := dict -}}
{{- $roles := dict -}}
{{- $rankRoles := list -}}
{{- range $role, $section := .Kinds.roles -}}
{{- if not (hasKey $sections $section) -}}
{{- $_ := set $sections $section dict -}}
{{- include "distrain.roles.section" (dict "values" $.Values "section" $section "into" (get $sections $section)) -}}
{{- end -}}
{{- $_ := get $sections $section | set $roles $role -}}
{{- if eq $section "workers" -}}
{{- $rankRoles = append $rankRoles $role -}}
{{- end -}}
{{- end -}}
{{- /*
The nulls in the values `mpi` and `global` are kept. In `mpi`, a null means that the chart must not set the key. Helm
shares `global` with all charts of an umbrella chart, so this chart does not change it.
*/ -}}
{{- $pruned := omit .Values "global" "mpi" -}}
{{- /* Walking through all maps takes time, so the nulls are removed only if there are any. */ -}}
{{- if toJson $pruned | contains ":null" -}}
{{- range list $sections $pruned -}}
{{- include "distrain.context.prune" . -}}
{{- end -}}
{{- range $key, $value := .Values -}}
{{- if eq $value nil -}}
{{- $_ := unset $.Values $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $paths := dict "" "" -}}
{{- $given := dict "" .Values -}}
{{- range $role, $_ := $facts.roles -}}
{{- $section := get $.Kinds.roles $role -}}
{{- $_ := set $paths (print $section ".") $section -}}
{{- $_ := index $.Values $section | set $given (print $section ".") -}}
{{- end -}}
{{- $_ := set $roles "keygen" dict -}}
{{- include "distrain.roles.keygen" (dict "values" .Values "launcher" $sections.launcher "into" $roles.keygen) -}}
{{- $programRoles := omit .Kinds.roles "launcher" | keys -}}
{{- $servesMetrics := and .Values.trainer.metrics (empty .Values.command) -}}
{{- $isElastic := and $facts.isElastic $job.elastic | empty | not -}}
{{- $isFixed := and $facts.isFixed (not $isElastic) | empty | not -}}
{{- $isQueued := eq .Values.gang.scheduler "kueue" -}}
{{- $mode := .Values.rescale.mode -}}
{{- if eq $mode "auto" -}}
{{- $mode = empty .Values.command | ternary "live" "replace" -}}
{{- end -}}
{{- $archive := "" -}}
{{- if eq .Values.trainer.delivery "chart" -}}
{{- $archive = .Files.Get "files/trainer.tar.bz2" | sha256sum | trunc 8 -}}
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
  "user" (include "distrain.security.user" .)
  "namesUser" (and (eq $facts.remoteShell "ssh") (eq (toString .Values.runAsUser) "cluster"))
  "isPlain" $isPlain
  "isElastic" $isElastic
  "isFixed" $isFixed
  "isQueued" $isQueued
  "isReplaced" (or $isFixed $isQueued (eq $mode "replace"))
  "sections" $sections
  "paths" $paths
  "given" $given
  "roles" $roles
  "rankRoles" $rankRoles
  "volumeRoles" (empty .Values.command | ternary (list "worker" "master" "chief") $programRoles)
  "checkpointRoles" (or .Values.command .Values.checkpoint.uri | empty | ternary $programRoles list)
  "servesMetrics" $servesMetrics
  "metricsRoles" (ternary (append $rankRoles "chief") $rankRoles $servesMetrics)
  "archive" $archive
  "makesPodGroup" (include "distrain.gang.schedulerName" . | empty | not | and $isPlain)
  "makesKey" (and $isPlain (not .Values.ssh.secretName) (not (hasKey . "variant")))
  "hasReplaceHook" (and .Values.job.enabled .Values.replace.enabled (or .Values.rbac.create .Values.replace.serviceAccountName) | empty | not)
  "names" (dict)
  "parts" (dict)
) -}}
{{- /* The order matters, because a name can be built from the names before it in this list. */ -}}
{{- range list "short" "full" "instance" "job" "run" -}}
{{- $_ := include (printf "distrain.names.%s" .) $ | set $.Job.names . -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.context.prune
  Takes a map. Removes the keys whose value is null from this map and from all maps in it. Helm itself removes a key
  with the value null only if values.yaml has the key. The roles' maps are merged before the nulls are removed, because
  a null in a role's map also removes the key that the role would inherit from the top level.
*/}}
{{- define "distrain.context.prune" -}}
{{- $map := . -}}
{{- range $key, $value := . -}}
{{- if eq $value nil -}}
{{- $_ := unset $map $key -}}
{{- else if kindIs "map" $value -}}
{{- include "distrain.context.prune" $value -}}
{{- end -}}
{{- end -}}
{{- end }}
