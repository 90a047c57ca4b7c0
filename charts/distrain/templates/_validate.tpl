{{- /*
Rules across several values. Rules on one value are in the schema.

  distrain.validate.all  every rule below; ends rendering at the first that is broken

Every rule takes the root context and renders nothing. A message names the value, what was found and the next step.
*/}}

{{- define "distrain.validate.all" -}}
{{- include "distrain.validate.release" . -}}
{{- include "distrain.validate.gpus" . -}}
{{- include "distrain.validate.length" . -}}
{{- include "distrain.validate.data" . -}}
{{- include "distrain.validate.output" . -}}
{{- include "distrain.validate.volumes" . -}}
{{- include "distrain.validate.volumeMounts" . -}}
{{- include "distrain.validate.env" . -}}
{{- include "distrain.validate.podMetadata" . -}}
{{- include "distrain.validate.mpi" . -}}
{{- end }}

{{- /*
distrain.validate.release
  Helm allows names that mpi-operator does not: it makes host names of them, and then only writes an event.
*/}}
{{- define "distrain.validate.release" -}}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" .Release.Name) -}}
{{- fail (printf "distrain: release name: %q cannot be the host name of a pod; start it with a letter and use only a-z, 0-9 and -" .Release.Name) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.cluster
  `helm template` does not know the cluster and gets the newest version; apiregistration.k8s.io is what every real
  cluster has and Helm's built-in list lacks.
*/}}
{{- define "distrain.validate.cluster" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- if and (eq .Values.job.apiVersion "auto") ($versions.Has "apiregistration.k8s.io/v1") (not ($versions.Has "kubeflow.org/v2beta1/MPIJob")) -}}
{{- fail "distrain: job.kind: this cluster does not serve MPIJob v2beta1; install mpi-operator 0.4.0 or newer (https://github.com/kubeflow/mpi-operator)" -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.gpus" -}}
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
{{- fail (printf "distrain: gpus: %d is not workers.replicas * workers.gpus = %d * %d = %d; %s" $gpus $replicas $each $product $mend) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.length
  The trainer's default for both null is in distrain.trainer.length.
*/}}
{{- define "distrain.validate.length" -}}
{{- $trainer := .Values.trainer -}}
{{- if and $trainer.epochs (eq .Values.data.source "synthetic") (not .Values.command) -}}
{{- fail (printf "distrain: trainer.epochs: %d epochs of data.source synthetic, which has no end; set trainer.steps instead" (int64 $trainer.epochs)) -}}
{{- end -}}
{{- if and $trainer.steps $trainer.epochs -}}
{{- fail (printf "distrain: trainer.steps: %d steps and trainer.epochs: %d epochs are both set; drop one, with --set trainer.steps=null or --set trainer.epochs=null" (int64 $trainer.steps) (int64 $trainer.epochs)) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.data" -}}
{{- $source := .Values.data.source -}}
{{- $uri := .Values.data.uri -}}
{{- if eq $source "synthetic" -}}
{{- if $uri -}}
{{- fail (printf "distrain: data.uri: %q is set but data.source is synthetic; --set data.source=%s, or leave data.uri empty" $uri (ternary "s3" "volume" (hasPrefix "s3://" $uri))) -}}
{{- end -}}
{{- else if and (not $uri) (not .Values.command) -}}
{{- fail (printf "distrain: data.uri: is empty but data.source is %s; set data.uri to %s" $source (ternary "s3://bucket/prefix" "the folder's absolute path" (eq $source "s3"))) -}}
{{- else if and $uri (ne (eq $source "s3") (hasPrefix "s3://" $uri)) -}}
{{- fail (printf "distrain: data.uri: %q does not fit data.source %s, which takes %s" $uri $source (ternary "s3://bucket/prefix" "a folder's absolute path" (eq $source "s3"))) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.output
  A folder that is on no volume is on the read-only root file system, or gone with the pod.
*/}}
{{- define "distrain.validate.output" -}}
{{- $uri := .Values.output.uri -}}
{{- if hasPrefix "/" $uri -}}
{{- $mounted := false -}}
{{- range .Values.volumeMounts -}}
{{- if hasPrefix (printf "%s/" (clean .mountPath)) (printf "%s/" (clean $uri)) -}}
{{- $mounted = true -}}
{{- end -}}
{{- end -}}
{{- if not $mounted -}}
{{- fail (printf "distrain: output.uri: %q lies on no volume and would be lost; mount one there with volumes and volumeMounts, or use s3://bucket/prefix" $uri) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.volumes" -}}
{{- range $index, $volume := .Values.volumes -}}
{{- if has $volume.name (list "scripts" "tmp" "shm" "ssh-auth" "mpi-job-config") -}}
{{- fail (printf "distrain: volumes[%d].name: %q is a volume of the job itself; choose another name" $index $volume.name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.volumeMounts
  The API server takes an MPIJob with a broken pod template; the operator alone meets the error.
*/}}
{{- define "distrain.validate.volumeMounts" -}}
{{- $names := list -}}
{{- range .Values.volumes -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $taken := list "/" "/tmp" "/dev/shm" "/opt/distrain/bin" "/etc/mpi" (include "distrain.mpi.sshFolder" .) -}}
{{- range $index, $mount := .Values.volumeMounts -}}
{{- if not (has $mount.name $names) -}}
{{- fail (printf "distrain: volumeMounts[%d].name: %q is not in volumes; add it there" $index $mount.name) -}}
{{- end -}}
{{- if has (clean $mount.mountPath) $taken -}}
{{- fail (printf "distrain: volumeMounts[%d].mountPath: %q is a mount of the job itself; choose another path" $index $mount.mountPath) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.env
  Of two variables with one name the last wins, in silence.
*/}}
{{- define "distrain.validate.env" -}}
{{- $owners := dict -}}
{{- range include "distrain.env.s3" . | fromYamlArray -}}
{{- $_ := set $owners .name "s3.*" -}}
{{- end -}}
{{- range list "OMPI_MCA_plm_rsh_args" "OMPI_MCA_plm_rsh_no_tree_spawn" "OMPI_MCA_orte_default_hostfile" "PRTE_MCA_plm_ssh_args" "PRTE_MCA_plm_ssh_no_tree_spawn" "PRTE_MCA_prte_default_hostfile" -}}
{{- $_ := set $owners . "distrain-launch" -}}
{{- end -}}
{{- range $name, $_ := .Values.mpi.env -}}
{{- with get $owners $name -}}
{{- fail (printf "distrain: mpi.env.%s: is already set, from %s; remove it" $name .) -}}
{{- end -}}
{{- $_ := set $owners $name "mpi.env" -}}
{{- end -}}
{{- range $index, $variable := .Values.env -}}
{{- with get $owners $variable.name -}}
{{- fail (printf "distrain: env[%d].name: %s is already set, from %s; remove it in one place" $index $variable.name .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.podMetadata" -}}
{{- $labels := include "distrain.labels.ownPod" (dict "root" . "role" "") | fromYaml -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if or (hasKey $labels $key) (hasPrefix "training.kubeflow.org/" $key) -}}
{{- fail (printf "distrain: podLabels: %s is a label of the job itself; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- $annotations := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- range $key, $_ := .Values.podAnnotations -}}
{{- if hasKey $annotations $key -}}
{{- fail (printf "distrain: podAnnotations: %s is an annotation of the job itself; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.mpi" -}}
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
