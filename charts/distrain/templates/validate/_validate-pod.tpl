{{- /*
Rules on the pods: the user's additions must not conflict with the chart's fields or the Pod Security Standard.

  distrain.validate.pod.security           whether podSecurity allows the user id and RDMA
  distrain.validate.pod.sizes              sizes of memory and /dev/shm
  distrain.validate.pod.containers         sidecars and init containers
  distrain.validate.pod.container          a single sidecar or init container
  distrain.validate.pod.containerSecurity  whether podSecurity allows a securityContext
  distrain.validate.pod.env                environment variables
  distrain.validate.pod.metadata           labels and annotations of pods
*/}}

{{- define "distrain.validate.pod.security" -}}
{{- $level := .Values.podSecurity -}}
{{- if and (eq $level "restricted") (eq .Job.user "0") -}}
{{- "distrain: runAsUser: 0 is root, which podSecurity restricted forbids; --set podSecurity=baseline, or choose another user\n" -}}
{{- end -}}
{{- if ne $level "privileged" -}}
{{- with .Values.network.rdma.resource -}}
{{- printf "distrain: network.rdma.resource: %q adds the capability IPC_LOCK to the pods, which podSecurity %s forbids; --set podSecurity=privileged, or, if the nodes set no limit on locked memory, request the resource in workers.resources.limits instead, which adds no capability\n" . $level -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.sizes
  A number without a unit is in bytes. The schema cannot compare quantities such as 512Mi and 1G, so this rule compares
  them.
*/}}
{{- define "distrain.validate.pod.sizes" -}}
{{- $workers := .Values.workers -}}
{{- $sizes := dict "workers.memory" $workers.memory "workers.shm" $workers.shm "launcher.memory" .Values.launcher.memory "servers.memory" .Values.servers.memory "scheduler.memory" .Values.scheduler.memory -}}
{{- $small := false -}}
{{- range $path, $size := $sizes -}}
{{- if and $size (lt (include "distrain.text.bytes" $size | float64) 1048576.0) -}}
{{- $small = true -}}
{{- $text := include "distrain.text.scalar" $size -}}
{{- $number := regexFind "^[0-9.]+" $text -}}
{{- printf "distrain: %s: %q is less than 1Mi; did you mean %sGi or %sMi?\n" $path $text $number $number -}}
{{- end -}}
{{- end -}}
{{- $memory := include "distrain.volumes.memory" . -}}
{{- if and $memory $workers.shm (not $small) (gt (include "distrain.text.bytes" $workers.shm | float64) (include "distrain.text.bytes" $memory | float64)) -}}
{{- $path := "workers.memory" -}}
{{- if eq $workers.memory nil -}}
{{- $path = include "distrain.roles.path" (dict "root" . "section" "workers" "keys" (list "resources" "limits" "memory")) -}}
{{- end -}}
{{- printf "distrain: workers.shm: %q is more than %s, %q, but files in /dev/shm count as memory; lower workers.shm, or raise %s\n" (include "distrain.text.scalar" $workers.shm) $path (include "distrain.text.scalar" $memory) $path -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.containers
  Operators find the main container by its name or position, and add init containers with fixed names, so the user's
  containers must have other names. If a role's container has the name of a top-level container in the same list, the
  role's container replaces the top-level container.
*/}}
{{- define "distrain.validate.pod.containers" -}}
{{- $operators := list -}}
{{- range $kind := .Kinds.kinds -}}
{{- range prepend $kind.versions $kind -}}
{{- with .initContainer -}}
{{- $operators = append $operators .name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Job.namesUser -}}
{{- $operators = append $operators "distrain-user" -}}
{{- end -}}
{{- $mains := list -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $mains = append $mains (include "distrain.role.container" (dict "root" $ "role" $role)) -}}
{{- end -}}
{{- $top := dict "sidecars" .Values.sidecars "initContainers" .Values.initContainers "podSpec.initContainers" (.Values.podSpec | default dict).initContainers -}}
{{- range $at, $values := .Job.given -}}
{{- $section := get $.Job.paths $at -}}
{{- $taken := concat $mains $operators -}}
{{- if eq $section "workers" -}}
{{- $taken = prepend $operators (include "distrain.role.container" (dict "root" $ "role" "worker")) -}}
{{- end -}}
{{- $lists := dict "sidecars" $values.sidecars "initContainers" $values.initContainers "podSpec.initContainers" ($values.podSpec | default dict).initContainers -}}
{{- range $path, $containers := $lists -}}
{{- $elsewhere := list -}}
{{- range $other, $theirs := empty $section | ternary dict (omit $top $path) -}}
{{- range $theirs -}}
{{- $elsewhere = append $elsewhere .name -}}
{{- end -}}
{{- end -}}
{{- range $index, $container := $containers -}}
{{- $here := printf "%s%s[%d]" $at $path $index -}}
{{- if has $container.name (concat $taken $elsewhere) -}}
{{- printf "distrain: %s.name: %q is already the name of a container of the job, or of another container of yours; choose another name\n" $here $container.name -}}
{{- end -}}
{{- $taken = append $taken $container.name -}}
{{- $isSide := and (eq $path "sidecars") (ne $section "workers") -}}
{{- include "distrain.validate.pod.container" (dict "root" $ "container" $container "at" $here "isSide" $isSide) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.container
  Takes (dict "root" <root context> "container" <container> "at" <its path> "isSide" <whether it has to be a native
  sidecar>). An operator or API server that does not know native sidecars drops the field restartPolicy. Then kubelet
  runs the container as an ordinary init container, and starts the main container only after the init container has
  exited.
*/}}
{{- define "distrain.validate.pod.container" -}}
{{- $job := .root.Job -}}
{{- if eq (.container.restartPolicy | default "") "Always" -}}
{{- if semverCompare "<1.28" ($job.facts.dropsFieldsSince | default "1.99") -}}
{{- printf "distrain: %s.restartPolicy: the operator of %s %s ignores this field, so the container would not run as a sidecar, and the main container would start only after it has ended; remove the field\n" .at $job.kind $job.version -}}
{{- else if and $job.isReal (semverCompare "<1.29-0" .root.Capabilities.KubeVersion.Version) -}}
{{- printf "distrain: %s.restartPolicy: native sidecars need Kubernetes 1.29 or newer, and this cluster has %s; remove it\n" .at .root.Capabilities.KubeVersion.Version -}}
{{- end -}}
{{- else if .isSide -}}
{{- printf "distrain: %s.restartPolicy: only a native sidecar ends when the main container ends; set it to `Always`\n" .at -}}
{{- end -}}
{{- include "distrain.validate.pod.containerSecurity" . -}}
{{- end }}

{{- /*
distrain.validate.pod.containerSecurity
  Takes (dict "root" <root context> "container" <container> "at" <path> "prefix" <text>). The message is "at"
  and, after a colon, "prefix" and the name of the forbidden field. If "at" is the path of a container, "prefix" is left
  out, and the message contains "securityContext." instead. If "at" is the path of a securityContext, "prefix" is "".

  https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}
{{- define "distrain.validate.pod.containerSecurity" -}}
{{- $level := .root.Values.podSecurity -}}
{{- $restricted := eq $level "restricted" -}}
{{- $security := .container.securityContext | default dict -}}
{{- $prefix := .prefix | default (hasKey . "prefix" | ternary "" "securityContext.") -}}
{{- $forbidden := list -}}
{{- if $security.privileged -}}
{{- $forbidden = append $forbidden (print $prefix "privileged") -}}
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
{{- $forbidden = append $forbidden (printf "%scapabilities.add %s" $prefix .) -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "seccompProfile" "type" "" $security) "Unconfined" -}}
{{- $forbidden = append $forbidden (print $prefix "seccompProfile.type Unconfined") -}}
{{- end -}}
{{- range $key, $value := $security.seLinuxOptions -}}
{{- if and $value (not (and (eq $key "type") (has $value (list "container_t" "container_init_t" "container_kvm_t" "container_engine_t")))) (ne $key "level") -}}
{{- $forbidden = append $forbidden (printf "%sseLinuxOptions.%s %s" $prefix $key $value) -}}
{{- end -}}
{{- end -}}
{{- range $security.sysctls -}}
{{- if not (has .name (list "kernel.shm_rmid_forced" "net.ipv4.ip_local_port_range" "net.ipv4.ip_local_reserved_ports" "net.ipv4.ip_unprivileged_port_start" "net.ipv4.ping_group_range" "net.ipv4.tcp_fin_timeout" "net.ipv4.tcp_keepalive_intvl" "net.ipv4.tcp_keepalive_probes" "net.ipv4.tcp_keepalive_time" "net.ipv4.tcp_syncookies")) -}}
{{- $forbidden = append $forbidden (printf "%ssysctls %s" $prefix .name) -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "appArmorProfile" "type" "" $security) "Unconfined" -}}
{{- $forbidden = append $forbidden (print $prefix "appArmorProfile.type Unconfined") -}}
{{- end -}}
{{- if eq ($security.procMount | default "Default") "Unmasked" -}}
{{- $forbidden = append $forbidden (print $prefix "procMount Unmasked") -}}
{{- end -}}
{{- if $restricted -}}
{{- if $security.allowPrivilegeEscalation -}}
{{- $forbidden = append $forbidden (print $prefix "allowPrivilegeEscalation") -}}
{{- end -}}
{{- if and (hasKey $capabilities "drop") (not (has "ALL" ($capabilities.drop | default list))) -}}
{{- $forbidden = append $forbidden (print $prefix "capabilities.drop without ALL") -}}
{{- end -}}
{{- if or (eq (get $security "runAsUser" | toString) "0") (eq (get $security "runAsNonRoot" | toString) "false") -}}
{{- $forbidden = append $forbidden "a securityContext that makes it root" -}}
{{- end -}}
{{- end -}}
{{- if and $forbidden (ne $level "privileged") -}}
{{- printf "distrain: %s: %s is forbidden by podSecurity %s; remove it, or set a less strict podSecurity\n" .at (first $forbidden) $level -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.pod.env
  These variables of the chart, of the program that starts the ranks, or of an operator must keep their values. The user
  may set the chart's other variables, such as HOME.
*/}}
{{- define "distrain.validate.pod.env" -}}
{{- $owners := dict -}}
{{- range include "distrain.env.s3" . | fromJsonArray -}}
{{- $_ := set $owners .name "s3.*" -}}
{{- end -}}
{{- range include "distrain.env.network" . | fromJsonArray -}}
{{- $_ := set $owners .name "network.*" -}}
{{- end -}}
{{- range include "distrain.env.run" (dict "root" . "role" "worker" "job" "") | fromJsonArray -}}
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
{{- range $at, $values := .Job.given -}}
{{- /* A role's variable may replace the top-level variable of the same name. */ -}}
{{- $own := dict -}}
{{- range $index, $variable := $values.env -}}
{{- with get $own $variable.name | default (get $owners $variable.name) -}}
{{- printf "distrain: %senv[%d].name: %s is already set, from %s; remove it in one place\n" $at $index $variable.name . -}}
{{- end -}}
{{- $_ := set $own $variable.name (printf "%senv[%d]" $at $index) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.pod.metadata" -}}
{{- $labels := include "distrain.labels.ownPod" (dict "root" . "role" "") | fromJson -}}
{{- $annotations := include "distrain.annotations.ownPod" (dict "root" . "role" "") | fromJson -}}
{{- range $at, $section := .Job.paths -}}
{{- $values := empty $section | ternary (dict "labels" $.Values.podLabels "annotations" $.Values.podAnnotations) (index $.Values $section) -}}
{{- $names := empty $section | ternary (dict "labels" "podLabels" "annotations" "podAnnotations") (dict "labels" (print $at "labels") "annotations" (print $at "annotations")) -}}
{{- range $key, $_ := $values.labels -}}
{{- $operators := regexMatch "^(training\\.kubeflow\\.org|batch\\.kubernetes\\.io|distrain|scheduling\\.x-k8s\\.io)/" $key -}}
{{- if or (hasKey $labels $key) $operators (and $.Job.isPlain (has $key (list "job-name" "controller-uid"))) -}}
{{- printf "distrain: %s: %s is a label that the job itself sets; remove it\n" $names.labels $key -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := $values.annotations -}}
{{- if or (hasKey $annotations $key) (eq $key "scheduling.k8s.io/group-name") -}}
{{- printf "distrain: %s: %s is an annotation that the job itself sets; remove it\n" $names.annotations $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
