{{- /*
Rules on the job's kind, and on what each kind can do.

  distrain.validate.kind        framework and strategy have a kind, and the one named is it
  distrain.validate.apiVersion  the kind has that version
  distrain.validate.cluster     the cluster serves it
  distrain.validate.replicas    how many workers an elastic job may have
  distrain.validate.roles       values for roles that the kind lacks
  distrain.validate.runPolicy   what its operator does when the job ends
  distrain.validate.rescale     whether another size can be live
  distrain.validate.gang        what its operator and the scheduler can do together
  distrain.validate.mpi, distrain.validate.interfaces, distrain.validate.ssh  how mpirun starts the ranks
*/}}

{{- define "distrain.validate.kind" -}}
{{- $fits := list "MPIJob" "Plain" -}}
{{- if eq .Values.strategy "parameter-server" -}}
{{- $fits = get (dict "tensorflow" (list "TFJob") "mxnet" (list "MXJob") "pytorch" list) .Values.framework -}}
{{- else if eq .Values.framework "pytorch" -}}
{{- $fits = list "PyTorchJob" "MPIJob" "Plain" -}}
{{- end -}}
{{- if not $fits -}}
{{- fail (printf "distrain: strategy: %s is for tensorflow and mxnet, not for %s; --set strategy=allreduce" .Values.strategy .Values.framework) -}}
{{- end -}}
{{- if not (has .Values.job.kind (append $fits "auto")) -}}
{{- fail (printf "distrain: job.kind: %s does not run %s with strategy %s; --set job.kind=auto, or to %s" .Values.job.kind .Values.framework .Values.strategy (join " or " $fits)) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.apiVersion" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $versions := include "distrain.job.versions" $kind | fromJsonArray -}}
{{- if not (has .Values.job.apiVersion (append $versions "auto")) -}}
{{- fail (printf "distrain: job.apiVersion: %s is no version of %s; --set job.apiVersion=%s" .Values.job.apiVersion $kind (append $versions "auto" | join " or ")) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.cluster
  Of two versions under one CRD the operator runs one, and the other's jobs lie there for ever.
*/}}
{{- define "distrain.validate.cluster" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $served := include "distrain.job.served" . | fromJsonArray -}}
{{- $known := include "distrain.job.versions" $kind | fromJsonArray -}}
{{- if and (eq .Values.job.apiVersion "auto") $known -}}
{{- if and (eq $kind "MPIJob") (gt (len $served) 1) -}}
{{- fail (printf "distrain: job.apiVersion: this cluster serves MPIJob in %s and does not tell which of them its operator runs; set it to the one of the operator's image" (join ", " $served)) -}}
{{- end -}}
{{- if and (include "distrain.job.isReal" .) (not $served) -}}
{{- $operators := dict
  "MPIJob" "mpi-operator 0.4.0 or newer (https://github.com/kubeflow/mpi-operator)"
  "MXJob" "the training-operator 1.8.1, the last that has it (https://github.com/kubeflow/trainer/tree/v1.8.1)"
-}}
{{- $operator := get $operators $kind | default "the training-operator 1.9 (https://github.com/kubeflow/trainer/tree/release-1.9)" -}}
{{- $plain := eq .Values.strategy "allreduce" | ternary ", or --set job.kind=Plain" "" -}}
{{- fail (printf "distrain: job.kind: this cluster does not serve %s; install %s%s" $kind $operator $plain) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.replicas" -}}
{{- $workers := .Values.workers -}}
{{- $elastic := include "distrain.job.is" (dict "root" . "a" "elastic") -}}
{{- range $key := list "minReplicas" "maxReplicas" -}}
{{- $value := index $workers $key -}}
{{- if and (ne $value nil) (not $elastic) -}}
{{- fail (printf "distrain: workers.%s: %d is set, but this %s is not elastic; --set workers.%s=null, or take a PyTorchJob with job.elastic=true" $key (int $value) (include "distrain.job.kind" $) $key) -}}
{{- end -}}
{{- end -}}
{{- if $elastic -}}
{{- $replicas := int $workers.replicas -}}
{{- $min := $workers.minReplicas | default 1 | int -}}
{{- $max := $workers.maxReplicas | default 1000 | int -}}
{{- if or (lt $replicas $min) (gt $replicas $max) -}}
{{- fail (printf "distrain: workers.replicas: %d is not between workers.minReplicas and workers.maxReplicas, %d and %d; change one of them" $replicas $min $max) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.roles" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $kinds := dict "launcher" (list "MPIJob" "Plain" "TFJob") "servers" (list "MXJob" "TFJob") "scheduler" (list "MXJob") -}}
{{- range $role, $has := $kinds -}}
{{- range $key, $value := index $.Values $role -}}
{{- $set := and (ne $value nil) (not (and (kindIs "map" $value) (empty $value))) (not (and (kindIs "slice" $value) (empty $value))) -}}
{{- if and $set (not (has $kind $has)) -}}
{{- fail (printf "distrain: %s.%s: is set, but this job is a %s, which has no %s; --set %s.%s=null" $role $key $kind (trimSuffix "s" $role) $role $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $kind "TFJob") (ne .Values.launcher.workersTimeout nil) -}}
{{- fail (printf "distrain: launcher.workersTimeout: %d is set, but the Chief of a TFJob waits for its workers as long as it takes; --set launcher.workersTimeout=null" (int64 .Values.launcher.workersTimeout)) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.runPolicy" -}}
{{- $job := .Values.job -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $version := include "distrain.job.apiVersion" . -}}
{{- $what := printf "%s %s" $kind $version | trim -}}
{{- if and (ne $job.ttlSecondsAfterFinished nil) (ne $version "v2beta1") -}}
{{- fail (printf "distrain: job.ttlSecondsAfterFinished: %d is set, but it would delete the whole %s, and the next helm upgrade would run it again; --set job.ttlSecondsAfterFinished=null" (int64 $job.ttlSecondsAfterFinished) $what) -}}
{{- end -}}
{{- if and (eq $version "v2beta1") (eq $job.cleanPodPolicy "All") -}}
{{- fail (printf "distrain: job.cleanPodPolicy: All, but mpi-operator leaves the launcher of an %s nevertheless; --set job.cleanPodPolicy=Running, and job.ttlSecondsAfterFinished for the launcher" $what) -}}
{{- end -}}
{{- if and (eq $kind "Plain") (ne $job.cleanPodPolicy "Running") -}}
{{- fail (printf "distrain: job.cleanPodPolicy: %s, but the workers of job.kind Plain always end with the job, and nobody deletes pods; --set job.cleanPodPolicy=Running" $job.cleanPodPolicy) -}}
{{- end -}}
{{- if eq $version "v1beta1" -}}
{{- if $job.activeDeadlineSeconds -}}
{{- fail (printf "distrain: job.activeDeadlineSeconds: %d is set, but an MXJob v1beta1 has no deadline; --set job.activeDeadlineSeconds=null" (int64 $job.activeDeadlineSeconds)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.rescale" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- if and (eq .Values.rescale.mode "live") (include "distrain.job.is" (dict "root" . "a" "fixed")) -}}
{{- $live := eq $kind "PyTorchJob" | ternary ", or job.elastic=true" "" -}}
{{- fail (printf "distrain: rescale.mode: live, but the pods of this %s know their number from their start; --set rescale.mode=auto%s" $kind $live) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.gang
  Kueue admits what it knows: a job of another version starts without it, and of Plain's two Jobs one could wait for
  ever for the other.
*/}}
{{- define "distrain.validate.gang" -}}
{{- $gang := .Values.gang -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $version := include "distrain.job.apiVersion" . -}}
{{- $keys := dict "none" list "volcano" (list "queue" "priorityClass" "schedulerName") "scheduler-plugins" (list "schedulerName") "kueue" (list "queue" "priorityClass") -}}
{{- range $key := list "queue" "priorityClass" "schedulerName" -}}
{{- if and (index $gang $key) (not (has $key (get $keys $gang.scheduler))) -}}
{{- fail (printf "distrain: gang.%s: %q is set, but gang.scheduler %s has none; --set gang.%s=\"\", or choose another gang.scheduler" $key (index $gang $key) $gang.scheduler $key) -}}
{{- end -}}
{{- end -}}
{{- if ne $gang.scheduler "none" -}}
{{- if has $version (list "v1alpha2" "v1beta1") -}}
{{- fail (printf "distrain: gang.scheduler: %s, but the operator of %s %s knows kube-batch alone; --set gang.scheduler=none" $gang.scheduler $kind $version) -}}
{{- end -}}
{{- if eq $gang.scheduler "kueue" -}}
{{- if not $gang.queue -}}
{{- fail "distrain: gang.queue: is empty, but gang.scheduler is kueue; set it to the LocalQueue in the job's namespace" -}}
{{- end -}}
{{- if eq $kind "Plain" -}}
{{- fail "distrain: gang.scheduler: kueue admits the two Jobs of job.kind Plain apart, and each could wait for the other; --set gang.scheduler=none, or take another job.kind" -}}
{{- end -}}
{{- if eq (printf "%s %s" $kind $version) "MPIJob v1" -}}
{{- fail "distrain: gang.scheduler: kueue knows MPIJob v2beta1 alone, not v1; --set gang.scheduler=none, or install mpi-operator 0.4.0 or newer" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.mpi" -}}
{{- if not (include "distrain.job.is" (dict "root" . "a" "mpi")) -}}
{{- range $name, $value := .Values.mpi.env -}}
{{- if ne $value nil -}}
{{- fail (printf "distrain: mpi.env.%s: is set, but a %s does not use MPI; put it under env" $name (include "distrain.job.kind" $)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.mpi.mca -}}
{{- if has $key (list "plm_rsh_agent" "plm_rsh_args" "plm_rsh_no_tree_spawn" "plm_ssh_agent" "plm_ssh_args" "plm_ssh_no_tree_spawn" "orte_default_hostfile" "prte_default_hostfile") -}}
{{- fail (printf "distrain: mpi.mca.%s: distrain-launch sets it, for the SSH key and hosts of this job; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- range $index, $flag := .Values.mpi.flags -}}
{{- if has $flag (list "-n" "--n" "-np" "--np" "-c" "--c") -}}
{{- fail (printf "distrain: mpi.flags[%d]: %s follows from workers.replicas and workers.gpus; remove it and its number" $index $flag) -}}
{{- end -}}
{{- if has $flag (list "-H" "-host" "--host" "-hostfile" "--hostfile" "-machinefile" "--machinefile" "-default-hostfile" "--default-hostfile" "--") -}}
{{- fail (printf "distrain: mpi.flags[%d]: %s is distrain-launch's own, which reads the operator's list of hosts; remove it" $index $flag) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.interfaces
  Of two values with one effect one would win in silence, and Open MPI refuses include beside exclude.
*/}}
{{- define "distrain.validate.interfaces" -}}
{{- $mca := .Values.mpi.mca | default dict -}}
{{- range $part := list "btl" "oob" -}}
{{- range $way := list "include" "exclude" -}}
{{- $key := printf "%s_tcp_if_%s" $part $way -}}
{{- if ne (index $mca $key) nil -}}
{{- fail (printf "distrain: mpi.mca.%s: network.interface and network.excludeInterfaces set it; put the interface there" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.ssh" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- if and .Values.ssh.secretName (ne $kind "Plain") -}}
{{- fail (printf "distrain: ssh.secretName: %q is set, but a %s does not use it: an operator makes its own key, or none is needed; --set ssh.secretName=\"\"" .Values.ssh.secretName $kind) -}}
{{- end -}}
{{- $user := include "distrain.security.user" . -}}
{{- if and (lt (int .Values.ssh.port) 1024) (ne $user "0") -}}
{{- fail (printf "distrain: ssh.port: %d is below 1024, which root alone may use, but the pods run as user %s; take 2222, or podSecurity baseline and runAsUser 0" (int .Values.ssh.port) $user) -}}
{{- end -}}
{{- end }}
