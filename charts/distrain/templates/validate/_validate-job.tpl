{{- /*
Rules on the job's kind, and on what each kind can do.

  distrain.validate.job.kind        framework and strategy have a kind, and the one named is it
  distrain.validate.job.apiVersion  the kind has that version
  distrain.validate.job.cluster     the cluster serves it
  distrain.validate.job.replicas    how many workers an elastic job may have
  distrain.validate.job.gpus        the total of GPUs is that of all workers
  distrain.validate.job.workerGpus  GPUs that the trainer would leave idle
  distrain.validate.job.roles       values for roles that the kind lacks
  distrain.validate.job.runPolicy   what its operator does when the job ends
  distrain.validate.job.rescale     whether another size can be live, and who waits for a lost worker
  distrain.validate.job.gang        what its operator and the scheduler can do together
  distrain.validate.job.mpi         mpi.mca, mpi.env and mpi.flags
  distrain.validate.job.interfaces  network interfaces that Open MPI uses
  distrain.validate.job.ssh         SSH key and port
*/}}

{{- define "distrain.validate.job.kind" -}}
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

{{- define "distrain.validate.job.apiVersion" -}}
{{- $versions := append .Job.known "auto" -}}
{{- if not (has .Values.job.apiVersion $versions) -}}
{{- printf "distrain: job.apiVersion: %s is no version of %s; --set job.apiVersion=%s\n" .Values.job.apiVersion .Job.kind (join " or " $versions) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.cluster
  Of two versions under one CRD the operator runs one, and the other's jobs lie there for ever.
*/}}
{{- define "distrain.validate.job.cluster" -}}
{{- $kind := .Job.kind -}}
{{- $served := .Job.served -}}
{{- if and (eq .Values.job.apiVersion "auto") .Job.known -}}
{{- if and .Job.facts.runsOneVersion (gt (len $served) 1) -}}
{{- printf "distrain: job.apiVersion: this cluster serves %s in %s and does not tell which of them its operator runs; set it to the one of the operator's image\n" $kind (join ", " $served) -}}
{{- end -}}
{{- if and .Job.isReal (not $served) -}}
{{- $install := .Job.facts.install -}}
{{- $operator := get .Kinds.operators $install.operator -}}
{{- $plain := has "Plain" .Job.fits | ternary ", or --set job.kind=Plain" "" -}}
{{- printf "distrain: job.kind: this cluster does not serve %s; install %s %s (%s)%s\n" $kind $operator.words $install.release $install.url $plain -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.replicas" -}}
{{- $workers := .Values.workers -}}
{{- $elastic := .Job.isElastic -}}
{{- range $key := list "minReplicas" "maxReplicas" -}}
{{- $value := index $workers $key -}}
{{- if and (ne $value nil) (not $elastic) -}}
{{- printf "distrain: workers.%s: %d is set, but this %s is not elastic; --set workers.%s=null, or take a PyTorchJob with job.elastic=true\n" $key (int $value) $.Job.kind $key -}}
{{- end -}}
{{- end -}}
{{- if $elastic -}}
{{- $replicas := int $workers.replicas -}}
{{- $min := $workers.minReplicas | default 1 | int -}}
{{- $max := $workers.maxReplicas | default 1000 | int -}}
{{- if or (lt $replicas $min) (gt $replicas $max) -}}
{{- printf "distrain: workers.replicas: %d is not between workers.minReplicas and workers.maxReplicas, %d and %d; change one of them\n" $replicas $min $max -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.gpus" -}}
{{- $replicas := int .Values.workers.replicas -}}
{{- $each := int .Values.workers.gpus -}}
{{- $product := mul $replicas $each | int -}}
{{- if ne .Values.gpus nil -}}
{{- $gpus := int .Values.gpus -}}
{{- if ne $gpus $product -}}
{{- $mend := printf "--set gpus=%d" $product -}}
{{- if and (gt $each 0) (gt $gpus 0) (eq (mod $gpus (max $each 1) | int) 0) -}}
{{- $mend = printf "--set workers.replicas=%d or %s" (div $gpus $each) $mend -}}
{{- end -}}
{{- printf "distrain: gpus: %d is not workers.replicas * workers.gpus = %d * %d = %d; %s; or leave both out for `helm distrain derive`\n" $gpus $replicas $each $product $mend -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.workerGpus" -}}
{{- $gpus := int .Values.workers.gpus -}}
{{- if and (eq .Job.kind "TFJob") (gt $gpus 1) (not .Values.command) -}}
{{- $replicas := mul $gpus .Values.workers.replicas -}}
{{- $more := le $replicas 1000 | ternary (printf ",workers.replicas=%d" $replicas) ",workers.replicas=1000, as 1000 workers are the most; or --set strategy=allreduce for more GPUs" -}}
{{- printf "distrain: workers.gpus: %d, but the trainer uses one GPU in each worker of a TFJob; --set workers.gpus=1%s\n" $gpus $more -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.roles" -}}
{{- $kind := .Job.kind -}}
{{- $sections := list -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $sections = append $sections (get $.Kinds.roles $role) -}}
{{- end -}}
{{- range $role := list "launcher" "scheduler" "servers" -}}
{{- range $key, $value := index $.Values $role -}}
{{- $set := and (ne $value nil) (not (and (kindIs "map" $value) (empty $value))) (not (and (kindIs "slice" $value) (empty $value))) -}}
{{- if and $set (not (has $role $sections)) -}}
{{- printf "distrain: %s.%s: is set, but this job is a %s, which has no %s; --set %s.%s=null\n" $role $key $kind (trimSuffix "s" $role) $role $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $kind "TFJob") (ne .Values.launcher.workersTimeout nil) -}}
{{- printf "distrain: launcher.workersTimeout: %d is set, but the Chief of a TFJob waits for its workers as long as it takes; --set launcher.workersTimeout=null\n" (int64 .Values.launcher.workersTimeout) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.runPolicy" -}}
{{- $job := .Values.job -}}
{{- $facts := .Job.facts -}}
{{- $fields := concat ($facts.policy.spec | default list) ($facts.policy.runPolicy | default list) -}}
{{- $what := printf "%s %s" .Job.kind .Job.version | trim -}}
{{- if and (ne $job.ttlSecondsAfterFinished nil) (not (has "ttlSecondsAfterFinished" $fields)) -}}
{{- printf "distrain: job.ttlSecondsAfterFinished: %d is set, but it would delete the whole %s, and the next helm upgrade would run it again; --set job.ttlSecondsAfterFinished=null\n" (int64 $job.ttlSecondsAfterFinished) $what -}}
{{- end -}}
{{- if and $facts.keepsLauncher (eq $job.cleanPodPolicy "All") -}}
{{- printf "distrain: job.cleanPodPolicy: All, but mpi-operator leaves the launcher of an %s nevertheless; --set job.cleanPodPolicy=Running, and job.ttlSecondsAfterFinished for the launcher\n" $what -}}
{{- end -}}
{{- if and .Job.isPlain (ne $job.cleanPodPolicy "Running") -}}
{{- printf "distrain: job.cleanPodPolicy: %s, but the workers of job.kind Plain always end with the job, and nobody deletes pods; --set job.cleanPodPolicy=Running\n" $job.cleanPodPolicy -}}
{{- end -}}
{{- if and $job.activeDeadlineSeconds (not (has "activeDeadlineSeconds" $fields)) -}}
{{- printf "distrain: job.activeDeadlineSeconds: %d is set, but an %s has no deadline; --set job.activeDeadlineSeconds=null\n" (int64 $job.activeDeadlineSeconds) $what -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.job.rescale" -}}
{{- $kind := .Job.kind -}}
{{- $rescale := .Values.rescale -}}
{{- if eq $rescale.mode "live" -}}
{{- if .Job.isFixed -}}
{{- $live := empty .Job.facts.isElastic | ternary "" ", or job.elastic=true" -}}
{{- printf "distrain: rescale.mode: live, but the pods of this %s know their number from their start; --set rescale.mode=auto%s\n" $kind $live -}}
{{- else if .Job.isQueued -}}
{{- "distrain: rescale.mode: live, but Kueue ends a job whose size changes and queues it anew; --set rescale.mode=auto\n" -}}
{{- end -}}
{{- end -}}
{{- if and (ne (int64 $rescale.lostWorkerTimeout) 60) (not .Job.usesMpi) -}}
{{- printf "distrain: rescale.lostWorkerTimeout: %d is set, but a %s has no launcher that waits so; --set rescale.lostWorkerTimeout=60\n" (int64 $rescale.lostWorkerTimeout) $kind -}}
{{- end -}}
{{- if and (not .Values.job.elastic) (not .Job.facts.isElastic) -}}
{{- printf "distrain: job.elastic: false, but a %s has one form; --set job.elastic=true\n" $kind -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.gang
  Kueue admits what it knows: a job of another version starts without it, and of Plain's two Jobs one could wait for
  ever for the other.
*/}}
{{- define "distrain.validate.job.gang" -}}
{{- $gang := .Values.gang -}}
{{- $kind := .Job.kind -}}
{{- $version := .Job.version -}}
{{- $keys := dict "none" list "volcano" (list "queue" "priorityClass" "schedulerName") "scheduler-plugins" (list "schedulerName") "kueue" (list "queue" "priorityClass") -}}
{{- range $key := list "queue" "priorityClass" "schedulerName" -}}
{{- if and (index $gang $key) (not (has $key (get $keys $gang.scheduler))) -}}
{{- printf "distrain: gang.%s: %q is set, but gang.scheduler %s has none; --set gang.%s=\"\", or choose another gang.scheduler\n" $key (index $gang $key) $gang.scheduler $key -}}
{{- end -}}
{{- end -}}
{{- if ne $gang.scheduler "none" -}}
{{- $knows := has "schedulingPolicy" .Job.facts.policy.runPolicy -}}
{{- if not (or $knows .Job.isPlain) -}}
{{- printf "distrain: gang.scheduler: %s, but the operator of %s %s knows kube-batch alone; --set gang.scheduler=none\n" $gang.scheduler $kind $version -}}
{{- end -}}
{{- if eq $gang.scheduler "kueue" -}}
{{- if not $gang.queue -}}
{{- "distrain: gang.queue: is empty, but gang.scheduler is kueue; set it to the LocalQueue in the job's namespace\n" -}}
{{- end -}}
{{- if .Job.isPlain -}}
{{- "distrain: gang.scheduler: kueue admits the two Jobs of job.kind Plain apart, and each could wait for the other; --set gang.scheduler=none, or take another job.kind\n" -}}
{{- end -}}
{{- if and $knows (not .Job.facts.isQueued) -}}
{{- $install := .Job.facts.install -}}
{{- printf "distrain: gang.scheduler: kueue knows %s %s alone, not %s; --set gang.scheduler=none, or install %s %s\n" $kind (first .Job.known) $version $install.operator $install.release -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.mpi
  The defaults are those of values.yaml, which a kind without MPI does not mind.
*/}}
{{- define "distrain.validate.job.mpi" -}}
{{- if not .Job.usesMpi -}}
{{- $defaults := dict "pml" "ob1" "btl" "^openib" "btl_vader_single_copy_mechanism" "none" -}}
{{- range $key, $value := .Values.mpi.mca -}}
{{- if and (ne $value nil) (ne (toString $value) (get $defaults $key)) -}}
{{- printf "distrain: mpi.mca.%s: is set, but a %s does not use MPI; --set mpi.mca.%s=null\n" $key $.Job.kind $key -}}
{{- end -}}
{{- end -}}
{{- if and .Values.mpi.flags (ne (toJson .Values.mpi.flags) (list "--bind-to" "none" "--map-by" "slot" | toJson)) -}}
{{- printf "distrain: mpi.flags: is set, but a %s does not use MPI; --set mpi.flags=null\n" .Job.kind -}}
{{- end -}}
{{- range $name, $value := .Values.mpi.env -}}
{{- if ne $value nil -}}
{{- printf "distrain: mpi.env.%s: is set, but a %s does not use MPI; put it under env\n" $name $.Job.kind -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.mpi.mca -}}
{{- if has $key (list "plm_rsh_agent" "plm_rsh_args" "plm_rsh_no_tree_spawn" "plm_ssh_agent" "plm_ssh_args" "plm_ssh_no_tree_spawn" "orte_default_hostfile" "prte_default_hostfile") -}}
{{- printf "distrain: mpi.mca.%s: distrain-launch sets it, for the SSH key and hosts of this job; remove it\n" $key -}}
{{- end -}}
{{- end -}}
{{- range $index, $flag := .Values.mpi.flags -}}
{{- if has $flag (list "-n" "--n" "-np" "--np" "-c" "--c") -}}
{{- printf "distrain: mpi.flags[%d]: %s follows from workers.replicas and workers.gpus; remove it and its number\n" $index $flag -}}
{{- end -}}
{{- if has $flag (list "-H" "-host" "--host" "-hostfile" "--hostfile" "-machinefile" "--machinefile" "-default-hostfile" "--default-hostfile" "--") -}}
{{- printf "distrain: mpi.flags[%d]: %s is distrain-launch's own, which reads the operator's list of hosts; remove it\n" $index $flag -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.interfaces
  Of two values with one effect one would win in silence, and Open MPI refuses include beside exclude.
*/}}
{{- define "distrain.validate.job.interfaces" -}}
{{- $excluded := .Values.network.excludeInterfaces -}}
{{- if and $excluded (ne (toJson $excluded) (list "lo" | toJson)) (not .Job.usesMpi) -}}
{{- printf "distrain: network.excludeInterfaces: is set, but a %s does not use MPI, which alone takes it; --set network.excludeInterfaces=null, or name the one to use as network.interface\n" .Job.kind -}}
{{- end -}}
{{- $mca := .Values.mpi.mca | default dict -}}
{{- range $part := list "btl" "oob" -}}
{{- range $way := list "include" "exclude" -}}
{{- $key := printf "%s_tcp_if_%s" $part $way -}}
{{- if ne (index $mca $key) nil -}}
{{- printf "distrain: mpi.mca.%s: network.interface and network.excludeInterfaces set it; put the interface there\n" $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.job.ssh
  The key of a Plain job is made by a Job with an account of its own, which the chart makes only with rbac.create.
*/}}
{{- define "distrain.validate.job.ssh" -}}
{{- $kind := .Job.kind -}}
{{- $ssh := .Values.ssh -}}
{{- if and $ssh.secretName (not .Job.isPlain) -}}
{{- printf "distrain: ssh.secretName: %q is set, but a %s does not use it: an operator makes its own key, or none is needed; --set ssh.secretName=\"\"\n" $ssh.secretName $kind -}}
{{- end -}}
{{- if and (not $ssh.secretName) .Job.isPlain (not .Values.rbac.create) -}}
{{- "distrain: ssh.secretName: is empty but rbac.create is false, so that no ServiceAccount may fill it; name a Secret with id_rsa, id_rsa.pub and authorized_keys, or set rbac.create to true\n" -}}
{{- end -}}
{{- $user := include "distrain.security.user" . -}}
{{- $port := int $ssh.port -}}
{{- if not .Job.usesSsh -}}
{{- if ne $port 2222 -}}
{{- printf "distrain: ssh.port: %d is set, but a %s starts its ranks without SSH; --set ssh.port=2222\n" $port (printf "%s %s" $kind .Job.version) -}}
{{- end -}}
{{- else if and (lt $port 1024) (ne $user "0") -}}
{{- printf "distrain: ssh.port: %d is below 1024, which root alone may use, but the pods run as user %s; take 2222, or podSecurity baseline and runAsUser 0\n" $port $user -}}
{{- end -}}
{{- end }}
