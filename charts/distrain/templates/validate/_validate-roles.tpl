{{- /*
Rules on values that can be set for every role, and on the top-level defaults of these values.

  distrain.validate.roles.resources    requests, limits and claims
  distrain.validate.roles.limits       no limit is below its request
  distrain.validate.roles.devices      requests for devices and huge pages
  distrain.validate.roles.podSpec      fields of podSpec
  distrain.validate.roles.claims       claims of dynamic resources
  distrain.validate.roles.schedulers   if a gang scheduler places the pods, no value names another scheduler
  distrain.validate.roles.security     securityContext and containerSecurityContext
*/}}

{{- define "distrain.validate.roles.resources" -}}
{{- $workers := .Values.workers -}}
{{- $rdma := .Values.network.rdma.resource -}}
{{- if and $rdma (eq $rdma $workers.gpuResource) -}}
{{- printf "distrain: network.rdma.resource: %q is workers.gpuResource, the resource of the GPUs; name the resource of the network devices here\n" $rdma -}}
{{- end -}}
{{- range $at, $values := .Job.given -}}
{{- $section := get $.Job.paths $at -}}
{{- range $kind, $amounts := omit ($values.resources | default dict) "claims" -}}
{{- if not (hasPrefix "x-" $kind) -}}
{{- range $name, $amount := $amounts -}}
{{- $path := printf "%sresources.%s.%s" $at $kind $name -}}
{{- $short := and $section (has $name (list "cpu" "memory")) (not (and (eq $name "cpu") (eq $kind "limits"))) -}}
{{- if and $short (ne (index $values $name) nil) -}}
{{- printf "distrain: %s: %s%s sets it too; remove one of the two\n" $path $at $name -}}
{{- end -}}
{{- if and (has $section (list "" "workers")) (eq $name $workers.gpuResource) -}}
{{- $count := include "distrain.text.quantity" $amount -}}
{{- if $workers.gpus -}}
{{- printf "distrain: %s: workers.gpus sets it; remove it here\n" $path -}}
{{- else if ne $count "0" -}}
{{- printf "distrain: %s: is %s, but workers.gpus is 0, so each worker would start only one rank; --set workers.gpus=%s, and remove this request\n" $path $count $count -}}
{{- end -}}
{{- end -}}
{{- if and (has $section (list "" "workers")) $rdma (eq $name $rdma) -}}
{{- printf "distrain: %s: network.rdma sets it too; remove one of the two\n" $path -}}
{{- end -}}
{{- if and (or (has $name (list "memory" "ephemeral-storage")) (hasPrefix "hugepages-" $name)) (gt (include "distrain.text.bytes" $amount | float64) 0.0) (lt (include "distrain.text.bytes" $amount | float64) 1048576.0) -}}
{{- $number := include "distrain.text.quantity" $amount | regexFind "^[0-9.]+" -}}
{{- printf "distrain: %s: %q is less than 1Mi; did you mean %sGi or %sMi?\n" $path (include "distrain.text.quantity" $amount) $number $number -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.roles.limits
  A mistake in a top-level value appears in several roles, so this rule and the next print the same message only once.
*/}}
{{- define "distrain.validate.roles.limits" -}}
{{- $lines := list -}}
{{- range $at, $section := omit .Job.paths "" -}}
{{- $values := get $.Job.sections $section -}}
{{- $requests := ($values.resources | default dict).requests | default dict -}}
{{- range $name, $limit := ($values.resources | default dict).limits -}}
{{- $path := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list "resources" "limits" $name)) -}}
{{- $request := get $requests $name -}}
{{- $source := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list "resources" "requests" $name)) -}}
{{- if and (eq $name "cpu") (ne $values.cpu nil) -}}
{{- $request = $values.cpu -}}
{{- $source = print $at "cpu" -}}
{{- end -}}
{{- if and (ne (toString $request) "") (lt (include "distrain.text.bytes" $limit | float64) (include "distrain.text.bytes" $request | float64)) -}}
{{- $lines = printf "distrain: %s: %s is less than %s, %s, which Kubernetes refuses; raise the limit, or lower the request" $path (include "distrain.text.quantity" $limit) $source (include "distrain.text.quantity" $request) | append $lines -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range uniq $lines -}}
{{- print . "\n" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.roles.devices
  For devices and huge pages, request and limit must be equal. Kubernetes fills in a missing request from the limit, but
  not a missing limit from the request. If the launcher's limits contain a GPU, the training-operator also starts ranks
  in the launcher (v1.8.1 pkg/controller.v1/mpi/mpijob.go: isGPULauncher).
*/}}
{{- define "distrain.validate.roles.devices" -}}
{{- $lines := list -}}
{{- range $at, $section := omit .Job.paths "" -}}
{{- with get $.Job.sections $section -}}
{{- $limits := (.resources | default dict).limits | default dict -}}
{{- $isAlone := and (eq $section "workers") .gpus (eq .cpu nil) (eq .memory nil) -}}
{{- range list $limits ((.resources | default dict).requests | default dict) -}}
{{- $isAlone = and $isAlone (not (hasKey . "cpu")) (not (hasKey . "memory")) -}}
{{- end -}}
{{- range $name, $_ := $limits -}}
{{- $path := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list "resources" "limits" $name)) -}}
{{- if and (contains "gpu" $name) (eq $section "launcher") $.Job.usesKubexec -}}
{{- $lines = printf "distrain: %s: the operator of MPIJob %s would start ranks in a launcher with GPUs; %s" $path $.Job.version (hasPrefix $at $path | ternary "remove it" "move it to workers.resources.limits") | append $lines -}}
{{- end -}}
{{- if and (hasPrefix "hugepages-" $name) $isAlone -}}
{{- $lines = printf "distrain: %s: Kubernetes refuses huge pages without cpu or memory; set workers.cpu or workers.memory" $path | append $lines -}}
{{- end -}}
{{- end -}}
{{- range $name, $request := (.resources | default dict).requests -}}
{{- if or (hasPrefix "hugepages-" $name) (and (contains "/" $name) (not (hasPrefix "kubernetes.io/" $name))) -}}
{{- $path := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list "resources" "requests" $name)) -}}
{{- $text := include "distrain.text.quantity" $request -}}
{{- if not (hasKey $limits $name) -}}
{{- $place := trimSuffix (printf "requests.%s" $name) $path | printf "%slimits" -}}
{{- $lines = printf "distrain: %s: is %s without a limit, but Kubernetes requires a limit for this resource; write it under %s instead" $path $text $place | append $lines -}}
{{- else if gt (include "distrain.text.bytes" (get $limits $name) | float64) (include "distrain.text.bytes" $request | float64) -}}
{{- $lines = printf "distrain: %s: is %s, but its limit is %s, and Kubernetes requires them to be equal; remove the request" $path $text (get $limits $name | include "distrain.text.quantity") | append $lines -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range uniq $lines -}}
{{- print . "\n" -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.roles.podSpec" -}}
{{- $level := .Values.podSecurity -}}
{{- $set := "distrain sets it; remove it" -}}
{{- $owners := dict
  "activeDeadlineSeconds" "use job.activeDeadlineSeconds"
  "automountServiceAccountToken" $set
  "containers" "distrain writes the main container; use sidecars, or env, resources and volumeMounts of this role"
  "enableServiceLinks" $set
  "hostname" "the operator or Kubernetes sets it; remove it"
  "imagePullSecrets" "use image.pullSecrets"
  "nodeName" "use nodeSelector"
  "restartPolicy" "use job.maxRestarts"
  "serviceAccountName" "use serviceAccountName at the top"
  "subdomain" $set
-}}
{{- range list "affinity" "nodeSelector" "priorityClassName" "securityContext" "tolerations" "volumes" -}}
{{- $_ := printf "use %s beside podSpec" . | set $owners . -}}
{{- end -}}
{{- $shared := dict "hostIPC" "the node's shared memory" "hostNetwork" "the node's network" -}}
{{- range $at, $values := .Job.given -}}
{{- $section := get $.Job.paths $at -}}
{{- range $field, $value := $values.podSpec -}}
{{- $path := printf "%spodSpec.%s" $at $field -}}
{{- with get $owners $field -}}
{{- printf "distrain: %s: %s\n" $path . -}}
{{- end -}}
{{- if and $value (has $field (list "hostPID" "shareProcessNamespace")) -}}
{{- printf "distrain: %s: is true, but the scripts of distrain signal process 1 of their container, and find ranks among all processes that they see, so a container must see only its own processes; remove it\n" $path -}}
{{- end -}}
{{- if and $value (hasKey $shared $field) (ne $level "privileged") -}}
{{- printf "distrain: %s: podSecurity %s forbids %s; --set podSecurity=privileged\n" $path $level (get $shared $field) -}}
{{- end -}}
{{- if and (has $field (list "initContainers" "runtimeClassName" "schedulerName")) (get $values $field) -}}
{{- printf "distrain: %s: %s%s sets it too; remove one of the two\n" $path $at $field -}}
{{- end -}}
{{- if and (eq $field "terminationGracePeriodSeconds") (not (has $section (list "" "workers"))) -}}
{{- printf "distrain: %s: all pods of a job have the same grace period; use workers.podSpec.terminationGracePeriodSeconds\n" $path -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.roles.claims
  Some operators know resourceClaims only in an older form, which Kubernetes has removed. They silently drop the user's
  claims.
*/}}
{{- define "distrain.validate.roles.claims" -}}
{{- range $at, $values := .Job.given -}}
{{- $section := get $.Job.paths $at -}}
{{- if and ($values.podSpec | default dict).resourceClaims (not $.Job.facts.knowsClaims) -}}
{{- $others := include "distrain.kinds.having" (dict "root" $ "fact" "knowsClaims") -}}
{{- printf "distrain: %spodSpec.resourceClaims: %s has no such field; remove the claims, or use %s\n" $at (include "distrain.text.aVersion" $) $others -}}
{{- end -}}
{{- with get $.Job.sections $section -}}
{{- $names := list -}}
{{- range (.podSpec | default dict).resourceClaims -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $index, $claim := (.resources | default dict).claims -}}
{{- if not (has $claim.name $names) -}}
{{- $path := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list "resources" "claims")) -}}
{{- $how := hasPrefix $at $path | ternary "add it there" (printf "add it there, or set %sresources.claims" $at) -}}
{{- printf "distrain: %s[%d].name: %q is not in %spodSpec.resourceClaims; %s\n" $path $index $claim.name $at $how -}}
{{- end -}}
{{- end -}}
{{- if and (eq $section "workers") .gpus (not .gpuResource) (not $names) -}}
{{- printf "distrain: workers.gpuResource: is empty, so workers.podSpec.resourceClaims has to request the %d GPUs of a worker; add a claim there, or set workers.gpuResource\n" (int64 .gpus) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.roles.schedulers" -}}
{{- if include "distrain.gang.schedulerName" . -}}
{{- range $at, $values := .Job.given -}}
{{- range $path, $name := dict "podSpec.schedulerName" ($values.podSpec | default dict).schedulerName "schedulerName" $values.schedulerName -}}
{{- if $name -}}
{{- printf "distrain: %s%s: is %q, but with gang.scheduler %s one scheduler places all pods of the job; remove one of these two settings, or set the name in gang.schedulerName\n" $at $path $name $.Values.gang.scheduler -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.roles.security
  ssh refuses a private key if the user who runs ssh owns the file and a group may read it. Root owns the mounted key,
  and fsGroup lets a group read the key. So ssh would refuse the key if root runs ssh.
*/}}
{{- define "distrain.validate.roles.security" -}}
{{- range $at, $values := .Job.given -}}
{{- range $key := list "securityContext" "containerSecurityContext" -}}
{{- with get $values $key -}}
{{- $security := . -}}
{{- $path := printf "%s%s" $at $key -}}
{{- if hasKey $security "runAsUser" -}}
{{- printf "distrain: %s.runAsUser: all pods of a job have the same user; use the top-level runAsUser\n" $path -}}
{{- end -}}
{{- if and $security.fsGroup (eq $.Job.user "0") $.Job.usesSsh -}}
{{- printf "distrain: %s.fsGroup: %d would let a group read root's SSH key, which ssh then refuses; use supplementalGroups, or another runAsUser\n" $path (int64 $security.fsGroup) -}}
{{- end -}}
{{- include "distrain.validate.pod.containerSecurity" (dict "root" $ "container" (dict "securityContext" $security) "at" $path "prefix" "") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
