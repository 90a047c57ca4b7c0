{{- /*
Rules on the pods: what the user adds must not break what the chart sets, nor the Pod Security Standard.

  distrain.validate.security      users, devices and what each standard forbids
  distrain.validate.volumes       names and kinds of volumes
  distrain.validate.volumeMounts  names and paths of mounts
  distrain.validate.containers    sidecars and init containers; each with distrain.validate.containerSecurity
  distrain.validate.podSpec       more fields of the training pods
  distrain.validate.env           variables
  distrain.validate.podMetadata   labels and annotations
*/}}

{{- define "distrain.validate.security" -}}
{{- $level := .Values.podSecurity -}}
{{- if and (eq $level "restricted") (eq (include "distrain.security.user" .) "0") -}}
{{- fail "distrain: runAsUser: 0 is root, which podSecurity restricted forbids; --set podSecurity=baseline, or take another user" -}}
{{- end -}}
{{- if ne $level "privileged" -}}
{{- with .Values.network.rdma.resource -}}
{{- fail (printf "distrain: network.rdma.resource: %q needs pods that may lock memory, which podSecurity %s forbids; --set podSecurity=privileged" . $level) -}}
{{- end -}}
{{- if dig "hostNetwork" false (.Values.workers.podSpec | default dict) -}}
{{- fail (printf "distrain: workers.podSpec.hostNetwork: podSecurity %s forbids the node's network; --set podSecurity=privileged" $level) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.volumes" -}}
{{- $taken := list "scripts" "tmp" "shm" "checkpoints" "ssh-auth" "mpi-job-config" "mpi-job-kubectl" -}}
{{- $level := .Values.podSecurity -}}
{{- $allowed := list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "persistentVolumeClaim" "projected" "secret" -}}
{{- $seen := list -}}
{{- range $index, $volume := .Values.volumes -}}
{{- if has $volume.name $taken -}}
{{- fail (printf "distrain: volumes[%d].name: %q is a volume of the job itself; choose another name" $index $volume.name) -}}
{{- end -}}
{{- if has $volume.name $seen -}}
{{- fail (printf "distrain: volumes[%d].name: %q is there twice; choose another name" $index $volume.name) -}}
{{- end -}}
{{- $seen = append $seen $volume.name -}}
{{- range $type, $_ := omit $volume "name" -}}
{{- if or (and (eq $level "restricted") (not (has $type $allowed))) (and (eq $level "baseline") (eq $type "hostPath")) -}}
{{- fail (printf "distrain: volumes[%d].%s: podSecurity %s forbids it; use a persistentVolumeClaim, or --set podSecurity=%s" $index $type $level (ternary "privileged" "baseline" (eq $type "hostPath"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.volumeMounts
  The API server takes a job with a broken pod template; the operator alone meets the error.
*/}}
{{- define "distrain.validate.volumeMounts" -}}
{{- $names := list -}}
{{- range .Values.volumes -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $taken := list "/" "/tmp" "/dev/shm" "/opt/distrain/bin" "/etc/mpi" "/opt/kube" (include "distrain.mpi.sshFolder" .) -}}
{{- if include "distrain.volumes.checkpoints" (dict "root" . "role" "worker") -}}
{{- $taken = append $taken "/checkpoints" -}}
{{- end -}}
{{- $seen := list -}}
{{- range $index, $mount := .Values.volumeMounts -}}
{{- if not (has $mount.name $names) -}}
{{- fail (printf "distrain: volumeMounts[%d].name: %q is not in volumes; add it there" $index $mount.name) -}}
{{- end -}}
{{- if has (clean $mount.mountPath) $taken -}}
{{- fail (printf "distrain: volumeMounts[%d].mountPath: %q is a mount of the job itself; choose another path" $index $mount.mountPath) -}}
{{- end -}}
{{- if has (clean $mount.mountPath) $seen -}}
{{- fail (printf "distrain: volumeMounts[%d].mountPath: %q is there twice; choose another path" $index $mount.mountPath) -}}
{{- end -}}
{{- $seen = append $seen (clean $mount.mountPath) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.containers
  The operators look for their container by its name or place, and add init containers with names of their own.
*/}}
{{- define "distrain.validate.containers" -}}
{{- $taken := list (include "distrain.role.container" (dict "root" . "role" "worker")) "kubectl-delivery" "init-pytorch" -}}
{{- $lists := dict "workers.sidecars" .Values.workers.sidecars "workers.podSpec.initContainers" (dig "initContainers" list (.Values.workers.podSpec | default dict)) -}}
{{- range $path, $containers := $lists -}}
{{- range $index, $container := $containers -}}
{{- $at := printf "%s[%d]" $path $index -}}
{{- if has $container.name $taken -}}
{{- fail (printf "distrain: %s.name: %q is taken, by the job itself or by another container of yours; choose another name" $at $container.name) -}}
{{- end -}}
{{- $taken = append $taken $container.name -}}
{{- include "distrain.validate.containerSecurity" (dict "root" $ "container" $container "at" $at) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.containerSecurity
  Takes (dict "root" <root context> "container" <container> "at" <its path>).

  https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}
{{- define "distrain.validate.containerSecurity" -}}
{{- $level := .root.Values.podSecurity -}}
{{- $restricted := eq $level "restricted" -}}
{{- $security := .container.securityContext | default dict -}}
{{- $forbidden := list -}}
{{- if $security.privileged -}}
{{- $forbidden = append $forbidden "securityContext.privileged" -}}
{{- end -}}
{{- range .container.ports -}}
{{- if .hostPort -}}
{{- $forbidden = append $forbidden "ports.hostPort" -}}
{{- end -}}
{{- end -}}
{{- $capabilities := $security.capabilities | default dict -}}
{{- $harmless := list "NET_BIND_SERVICE" -}}
{{- if not $restricted -}}
{{- $harmless = list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" -}}
{{- end -}}
{{- range $capabilities.add -}}
{{- if not (has . $harmless) -}}
{{- $forbidden = append $forbidden (printf "securityContext.capabilities.add %s" .) -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "seccompProfile" "type" "" $security) "Unconfined" -}}
{{- $forbidden = append $forbidden "securityContext.seccompProfile.type Unconfined" -}}
{{- end -}}
{{- if $restricted -}}
{{- if $security.allowPrivilegeEscalation -}}
{{- $forbidden = append $forbidden "securityContext.allowPrivilegeEscalation" -}}
{{- end -}}
{{- if and (hasKey $capabilities "drop") (not (has "ALL" ($capabilities.drop | default list))) -}}
{{- $forbidden = append $forbidden "securityContext.capabilities.drop without ALL" -}}
{{- end -}}
{{- if or (eq (get $security "runAsUser" | toString) "0") (eq (get $security "runAsNonRoot" | toString) "false") -}}
{{- $forbidden = append $forbidden "a securityContext that makes it root" -}}
{{- end -}}
{{- end -}}
{{- if and $forbidden (ne $level "privileged") -}}
{{- fail (printf "distrain: %s: %s is what podSecurity %s forbids; remove it, or set a wider podSecurity" .at (first $forbidden) $level) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.podSpec
  The older operators' APIs drop a claim in silence: they know it in a form that Kubernetes has given up.
*/}}
{{- define "distrain.validate.podSpec" -}}
{{- $version := include "distrain.job.apiVersion" . -}}
{{- $spec := .Values.workers.podSpec | default dict -}}
{{- if and $spec.resourceClaims (not (has $version (list "" "v2beta1"))) -}}
{{- fail (printf "distrain: workers.podSpec.resourceClaims: a %s %s does not know them; remove them, or take MPIJob v2beta1 or job.kind Plain" (include "distrain.job.kind" .) $version) -}}
{{- end -}}
{{- with $spec.schedulerName -}}
{{- if include "distrain.gang.schedulerName" $ -}}
{{- fail (printf "distrain: workers.podSpec.schedulerName: %q, but gang.scheduler %s places all pods of the job; remove one of the two, or use gang.schedulerName" . $.Values.gang.scheduler) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.env
  Of two variables with one name the last wins, in silence; an operator's come after the user's.
*/}}
{{- define "distrain.validate.env" -}}
{{- $owners := dict -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- range include "distrain.env.s3" . | fromYamlArray -}}
{{- $_ := set $owners .name "s3.*" -}}
{{- end -}}
{{- range include "distrain.env.network" . | fromYamlArray -}}
{{- $_ := set $owners .name "network.*" -}}
{{- end -}}
{{- range include "distrain.env.run" (dict "job" "") | fromYamlArray -}}
{{- $_ := set $owners .name "the chart" -}}
{{- end -}}
{{- if include "distrain.job.is" (dict "root" . "a" "mpi") -}}
{{- range list "OMPI_MCA_plm_rsh_agent" "OMPI_MCA_plm_rsh_args" "OMPI_MCA_plm_rsh_no_tree_spawn" "OMPI_MCA_orte_default_hostfile" "OMPI_MCA_orte_keep_fqdn_hostnames" "PRTE_MCA_plm_ssh_agent" "PRTE_MCA_plm_ssh_args" "PRTE_MCA_plm_ssh_no_tree_spawn" "PRTE_MCA_prte_default_hostfile" -}}
{{- $_ := set $owners . "distrain-launch" -}}
{{- end -}}
{{- end -}}
{{- $operator := dict
  "PyTorchJob" (list "MASTER_ADDR" "MASTER_PORT" "WORLD_SIZE" "RANK" "PET_NNODES" "PET_NODE_RANK" "PET_NPROC_PER_NODE" "PET_MASTER_ADDR" "PET_MASTER_PORT" "PET_RDZV_BACKEND" "PET_RDZV_ENDPOINT" "PET_MAX_RESTARTS" "PET_MONITOR_INTERVAL" "PET_RDZV_CONF" "PYTHONUNBUFFERED")
  "TFJob" (list "TF_CONFIG")
  "MXJob" (list "MX_CONFIG" "DMLC_PS_ROOT_PORT" "DMLC_PS_ROOT_URI" "DMLC_NUM_SERVER" "DMLC_NUM_WORKER" "DMLC_ROLE" "DMLC_USE_KUBERNETES" "DMLC_WORKER_ID")
-}}
{{- range get $operator $kind | default list -}}
{{- $_ := set $owners . (printf "the operator of %s" $kind) -}}
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
{{- $_ := set $owners $variable.name (printf "env[%d]" $index) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.podMetadata" -}}
{{- $labels := include "distrain.labels.ownPod" (dict "root" . "role" "") | fromYaml -}}
{{- $plain := eq (include "distrain.job.kind" .) "Plain" -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- $operators := regexMatch "^(training\\.kubeflow\\.org|batch\\.kubernetes\\.io|scheduling\\.x-k8s\\.io)/" $key -}}
{{- if or (hasKey $labels $key) $operators (and $plain (has $key (list "job-name" "controller-uid"))) -}}
{{- fail (printf "distrain: podLabels: %s is a label of the job itself; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- $annotations := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- range $key, $_ := .Values.podAnnotations -}}
{{- if or (hasKey $annotations $key) (eq $key "scheduling.k8s.io/group-name") -}}
{{- fail (printf "distrain: podAnnotations: %s is an annotation of the job itself; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- end }}
