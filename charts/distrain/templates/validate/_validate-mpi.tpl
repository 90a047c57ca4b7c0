{{- /*
Rules on mpirun and SSH.

  distrain.validate.mpi.options     mpi.mca, mpi.env and mpi.flags
  distrain.validate.mpi.interfaces  network interfaces for Open MPI
  distrain.validate.mpi.ssh         SSH key and port
*/}}

{{- /*
distrain.validate.mpi.options
  For a kind without MPI, the rule accepts only the defaults of values.yaml.
*/}}
{{- define "distrain.validate.mpi.options" -}}
{{- if not .Job.usesMpi -}}
{{- $defaults := dict "pml" "ob1" "btl" "^openib" "btl_vader_single_copy_mechanism" "none" -}}
{{- range $key, $value := .Values.mpi.mca -}}
{{- if and (ne $value nil) (ne (toString $value) (get $defaults $key)) -}}
{{- printf "distrain: mpi.mca.%s: is set, but %s does not use MPI; --set mpi.mca.%s=null\n" $key (include "distrain.text.aKind" $) $key -}}
{{- end -}}
{{- end -}}
{{- if and .Values.mpi.flags (ne (toJson .Values.mpi.flags) (list "--bind-to" "none" "--map-by" "slot" | toJson)) -}}
{{- printf "distrain: mpi.flags: is set, but %s does not use MPI; --set mpi.flags=null\n" (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- range $name, $value := .Values.mpi.env -}}
{{- if ne $value nil -}}
{{- printf "distrain: mpi.env.%s: is set, but %s does not use MPI; put it under env\n" $name (include "distrain.text.aKind" $) -}}
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
{{- printf "distrain: mpi.flags[%d]: %s is computed from workers.replicas and workers.gpus; remove the flag and its number\n" $index $flag -}}
{{- end -}}
{{- if has $flag (list "-H" "-host" "--host" "-hostfile" "--hostfile" "-machinefile" "--machinefile" "-default-hostfile" "--default-hostfile" "--") -}}
{{- printf "distrain: mpi.flags[%d]: %s is set by distrain-launch, from the operator's list of hosts; remove it\n" $index $flag -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.mpi.interfaces
  The chart sets Open MPI's interfaces from the values of network. If mpi.mca set them too, one setting would silently
  override the other. Open MPI refuses an include list together with an exclude list.
*/}}
{{- define "distrain.validate.mpi.interfaces" -}}
{{- $excluded := .Values.network.excludeInterfaces -}}
{{- if and $excluded (ne (toJson $excluded) (list "lo" | toJson)) (not .Job.usesMpi) -}}
{{- printf "distrain: network.excludeInterfaces: is set, but only MPI uses it, and %s has no MPI; --set network.excludeInterfaces=null, or name the interface to use in network.interface\n" (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- $mca := .Values.mpi.mca | default dict -}}
{{- range $part := list "btl" "oob" -}}
{{- range $way := list "include" "exclude" -}}
{{- $key := printf "%s_tcp_if_%s" $part $way -}}
{{- if ne (index $mca $key) nil -}}
{{- printf "distrain: mpi.mca.%s: network.interface, network.subnets and network.excludeInterfaces set this parameter; set one of those values instead\n" $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.mpi.ssh
  The Job that makes the SSH key of a Plain job needs a ServiceAccount, which the chart creates only with rbac.create.
*/}}
{{- define "distrain.validate.mpi.ssh" -}}
{{- $ssh := .Values.ssh -}}
{{- if and $ssh.secretName (not .Job.isPlain) -}}
{{- printf "distrain: ssh.secretName: %q is set, but %s does not use it, because its operator creates the key or no key is needed; --set ssh.secretName=\"\"\n" $ssh.secretName (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- if and (not $ssh.secretName) .Job.isPlain (not .Values.rbac.create) -}}
{{- "distrain: ssh.secretName: is empty, but with rbac.create=false no ServiceAccount may store a new SSH key; name a Secret with id_rsa, id_rsa.pub and authorized_keys, or set rbac.create to true\n" -}}
{{- end -}}
{{- $port := int $ssh.port -}}
{{- if not .Job.usesSsh -}}
{{- if ne $port 2222 -}}
{{- printf "distrain: ssh.port: %d is set, but %s starts its ranks without SSH; --set ssh.port=2222, the default\n" $port (include "distrain.text.aVersion" .) -}}
{{- end -}}
{{- else if and (lt $port 1024) (ne .Job.user "0") -}}
{{- printf "distrain: ssh.port: %d is below 1024, which only root may use, but the pods run as user %s; set ssh.port to 2222, or set podSecurity=baseline and runAsUser=0\n" $port (.Job.user | default "cluster") -}}
{{- end -}}
{{- end }}
