{{- /*
Rules on the pods: the user's additions must not conflict with the chart's fields or the Pod Security Standard.

  distrain.validate.pod.security           user id, RDMA and the host's network under the standard
  distrain.validate.pod.sizes              sizes of memory and /dev/shm
  distrain.validate.pod.containers         sidecars and init containers
  distrain.validate.pod.containerSecurity  one of these containers under the standard
  distrain.validate.pod.spec               fields of workers.podSpec
  distrain.validate.pod.env                environment variables
  distrain.validate.pod.metadata           labels and annotations
*/}}

{{- define "distrain.validate.pod.security" -}}
{{- $level := .Values.podSecurity -}}
{{- if and (eq $level "restricted") (eq (include "distrain.security.user" .) "0") -}}
{{- "distrain: runAsUser: 0 is root, which podSecurity restricted forbids; --set podSecurity=baseline, or take another user\n" -}}
{{- end -}}
{{- if ne $level "privileged" -}}
{{- with .Values.network.rdma.resource -}}
{{- printf "distrain: network.rdma.resource: %q needs pods that may lock memory, which podSecurity %s forbids; --set podSecurity=privileged\n" . $level -}}
{{- end -}}
{{- if dig "hostNetwork" false (.Values.workers.podSpec | default dict) -}}
{{- printf "distrain: workers.podSpec.hostNetwork: podSecurity %s forbids the node's network; --set podSecurity=privileged\n" $level -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.sizes
  Kubernetes reads a number without a unit as bytes. The schema cannot compare quantities.
*/}}
{{- define "distrain.validate.pod.sizes" -}}
{{- $workers := .Values.workers -}}
{{- $sizes := dict "workers.memory" $workers.memory "workers.shm" $workers.shm "launcher.memory" .Values.launcher.memory "servers.memory" .Values.servers.memory "scheduler.memory" .Values.scheduler.memory -}}
{{- $small := false -}}
{{- range $path, $size := $sizes -}}
{{- if and $size (lt (include "distrain.text.bytes" $size | float64) 1048576.0) -}}
{{- $small = true -}}
{{- $number := regexFind "^[0-9.]+" $size -}}
{{- printf "distrain: %s: %q is less than 1Mi; did you mean %sGi or %sMi?\n" $path $size $number $number -}}
{{- end -}}
{{- end -}}
{{- if and $workers.memory $workers.shm (not $small) (gt (include "distrain.text.bytes" $workers.shm | float64) (include "distrain.text.bytes" $workers.memory | float64)) -}}
{{- printf "distrain: workers.shm: %q is more than workers.memory, %q, in which it counts; lower workers.shm, or raise workers.memory\n" $workers.shm $workers.memory -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.containers
  Operators find their container by its name or position, and add init containers with fixed names.
*/}}
{{- define "distrain.validate.pod.containers" -}}
{{- $taken := list (include "distrain.role.container" (dict "root" . "role" "worker")) -}}
{{- range $kind := .Kinds.kinds -}}
{{- range prepend $kind.versions $kind -}}
{{- with .initContainer -}}
{{- $taken = append $taken .name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $lists := dict "workers.sidecars" .Values.workers.sidecars "workers.podSpec.initContainers" (dig "initContainers" list (.Values.workers.podSpec | default dict)) -}}
{{- range $path, $containers := $lists -}}
{{- range $index, $container := $containers -}}
{{- $at := printf "%s[%d]" $path $index -}}
{{- if has $container.name $taken -}}
{{- printf "distrain: %s.name: %q is taken, by the job itself or by another container of yours; choose another name\n" $at $container.name -}}
{{- end -}}
{{- $taken = append $taken $container.name -}}
{{- include "distrain.validate.pod.containerSecurity" (dict "root" $ "container" $container "at" $at) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.containerSecurity
  Takes (dict "root" <root context> "container" <container> "at" <its path>).

  https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}
{{- define "distrain.validate.pod.containerSecurity" -}}
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
{{- printf "distrain: %s: %s is what podSecurity %s forbids; remove it, or set a wider podSecurity\n" .at (first $forbidden) $level -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.spec
  Some operators know resourceClaims only in a form that Kubernetes has given up. They drop the claims silently.
*/}}
{{- define "distrain.validate.pod.spec" -}}
{{- $spec := .Values.workers.podSpec | default dict -}}
{{- if and $spec.resourceClaims (not .Job.facts.knowsClaims) -}}
{{- $others := include "distrain.kinds.having" (dict "root" . "fact" "knowsClaims") -}}
{{- printf "distrain: workers.podSpec.resourceClaims: a %s %s does not know them; remove them, or take %s\n" .Job.kind .Job.version $others -}}
{{- end -}}
{{- with $spec.schedulerName -}}
{{- if include "distrain.gang.schedulerName" $ -}}
{{- printf "distrain: workers.podSpec.schedulerName: %q, but gang.scheduler %s places all pods of the job; remove one of the two, or use gang.schedulerName\n" . $.Values.gang.scheduler -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.env
  If two variables have one name, the last one wins silently. An operator adds its variables after the user's.
*/}}
{{- define "distrain.validate.pod.env" -}}
{{- $owners := dict -}}
{{- range include "distrain.env.s3" . | fromYamlArray -}}
{{- $_ := set $owners .name "s3.*" -}}
{{- end -}}
{{- range include "distrain.env.network" . | fromYamlArray -}}
{{- $_ := set $owners .name "network.*" -}}
{{- end -}}
{{- range include "distrain.env.run" (dict "root" . "role" "" "job" "") | fromYamlArray -}}
{{- $_ := set $owners .name "the chart" -}}
{{- end -}}
{{- if .Job.usesMpi -}}
{{- range list "OMPI_MCA_plm_rsh_agent" "OMPI_MCA_plm_rsh_args" "OMPI_MCA_plm_rsh_no_tree_spawn" "OMPI_MCA_orte_default_hostfile" "OMPI_MCA_orte_keep_fqdn_hostnames" "PRTE_MCA_plm_ssh_agent" "PRTE_MCA_plm_ssh_args" "PRTE_MCA_plm_ssh_no_tree_spawn" "PRTE_MCA_prte_default_hostfile" -}}
{{- $_ := set $owners . "distrain-launch" -}}
{{- end -}}
{{- end -}}
{{- range .Job.facts.environment -}}
{{- $_ := set $owners . (printf "the operator of %s" $.Job.kind) -}}
{{- end -}}
{{- range $name, $_ := .Values.mpi.env -}}
{{- with get $owners $name -}}
{{- printf "distrain: mpi.env.%s: is already set, from %s; remove it\n" $name . -}}
{{- end -}}
{{- $_ := set $owners $name "mpi.env" -}}
{{- end -}}
{{- range $index, $variable := .Values.env -}}
{{- with get $owners $variable.name -}}
{{- printf "distrain: env[%d].name: %s is already set, from %s; remove it in one place\n" $index $variable.name . -}}
{{- end -}}
{{- $_ := set $owners $variable.name (printf "env[%d]" $index) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.pod.metadata" -}}
{{- $labels := include "distrain.labels.ownPod" (dict "root" . "role" "") | fromYaml -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- $operators := regexMatch "^(training\\.kubeflow\\.org|batch\\.kubernetes\\.io|scheduling\\.x-k8s\\.io)/" $key -}}
{{- if or (hasKey $labels $key) $operators (and $.Job.isPlain (has $key (list "job-name" "controller-uid"))) -}}
{{- printf "distrain: podLabels: %s is a label of the job itself; remove it\n" $key -}}
{{- end -}}
{{- end -}}
{{- $annotations := include "distrain.annotations.ownPod" . | fromYaml -}}
{{- range $key, $_ := .Values.podAnnotations -}}
{{- if or (hasKey $annotations $key) (eq $key "scheduling.k8s.io/group-name") -}}
{{- printf "distrain: podAnnotations: %s is an annotation of the job itself; remove it\n" $key -}}
{{- end -}}
{{- end -}}
{{- end }}
