{{- /*
Rules on the job's kind and version.

  distrain.validate.kind.name     job.kind is `auto` or a kind that can run the framework with the strategy
  distrain.validate.kind.version  job.apiVersion is `auto` or a version of the kind
  distrain.validate.kind.served   the cluster serves the kind, and it is clear which version the job has to use
  distrain.validate.kind.roles    no values are set for a role that the kind does not have
*/}}

{{- define "distrain.validate.kind.name" -}}
{{- $fits := .Job.fits -}}
{{- if not $fits -}}
{{- printf "distrain: strategy: %s is for tensorflow and mxnet, not for %s; --set strategy=allreduce\n" .Values.strategy .Values.framework -}}
{{- end -}}
{{- if not (has .Values.job.kind (append $fits "auto")) -}}
{{- $serving := dig "parameter-server" .Values.framework list .Kinds.choices -}}
{{- $other := and (eq .Values.strategy "allreduce") (has .Values.job.kind $serving) | ternary ", or --set strategy=parameter-server" "" -}}
{{- printf "distrain: job.kind: %s does not run %s with strategy %s; --set job.kind=auto or --set job.kind=%s%s\n" .Values.job.kind .Values.framework .Values.strategy (join " or --set job.kind=" $fits) $other -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.kind.version" -}}
{{- $versions := append .Job.known "auto" -}}
{{- if not (has .Values.job.apiVersion $versions) -}}
{{- printf "distrain: job.apiVersion: %s is not a version of %s; --set job.apiVersion=%s\n" .Values.job.apiVersion .Job.kind (join " or " $versions) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.kind.served
  If a CRD serves two versions, the operator handles jobs of only one of them. A job of the other version would never
  start.
*/}}
{{- define "distrain.validate.kind.served" -}}
{{- $kind := .Job.kind -}}
{{- $served := .Job.served -}}
{{- if and (eq .Values.job.apiVersion "auto") .Job.known -}}
{{- if and .Job.facts.runsOneVersion (gt (len $served) 1) -}}
{{- printf "distrain: job.apiVersion: this cluster serves %s in %s and does not tell which version its operator handles; set job.apiVersion to the version that the operator's image handles\n" $kind (join ", " $served) -}}
{{- end -}}
{{- if and .Job.isReal (not $served) -}}
{{- $install := .Job.facts.install -}}
{{- $operator := get .Kinds.operators $install.operator -}}
{{- $plain := has "Plain" .Job.fits | ternary ", or --set job.kind=Plain" "" -}}
{{- if and $plain (not .Job.usesMpi) -}}
{{- /* The image of a job without mpirun, such as PyTorch's public one, usually has nothing that mpirun needs. */ -}}
{{- $plain = print $plain " with an image that has Horovod, Open MPI and an SSH server" -}}
{{- end -}}
{{- printf "distrain: job.kind: this cluster does not serve %s; install %s %s (%s)%s\n" $kind $operator.words $install.release $install.url $plain -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.kind.roles" -}}
{{- $kind := .Job.kind -}}
{{- $sections := list -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $sections = append $sections (get $.Kinds.roles $role) -}}
{{- end -}}
{{- range $role := list "launcher" "scheduler" "servers" -}}
{{- range $key, $value := index $.Values $role -}}
{{- $set := and (ne $value nil) (not (and (kindIs "map" $value) (empty $value))) (not (and (kindIs "slice" $value) (empty $value))) -}}
{{- if and $set (not (has $role $sections)) (not (hasPrefix "x-" $key)) -}}
{{- /* --set key=null removes a key only if values.yaml has the key. */ -}}
{{- $isInFile := has $key (list "affinity" "cpu" "memory" "nodeSelector" "replicas" "tolerations" "workersTimeout") -}}
{{- $mend := $isInFile | ternary (printf "--set %s.%s=null" $role $key) "remove it" -}}
{{- printf "distrain: %s.%s: is set, but this job is %s, which has no %s; %s\n" $role $key (include "distrain.text.aKind" $) (trimSuffix "s" $role) $mend -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $kind "TFJob") (ne .Values.launcher.workersTimeout nil) -}}
{{- printf "distrain: launcher.workersTimeout: %d is set, but the Chief of a TFJob waits for its workers without a limit; --set launcher.workersTimeout=null\n" (int64 .Values.launcher.workersTimeout) -}}
{{- end -}}
{{- end }}
