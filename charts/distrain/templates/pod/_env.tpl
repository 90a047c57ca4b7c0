{{- /*
Environment variables of the pods. distrain-worker passes a worker's variables on to its ranks.

  distrain.env.all      all variables of a container: env and envFrom
  distrain.env.own      variables that the chart sets
  distrain.env.run      job identity, pod UID and number of GPUs, for the trainer
  distrain.env.s3       server, region and credentials, for an S3 client
  distrain.env.network  network interface, for NCCL and Gloo, and NCCL's log level

In this file, a role is (dict "root" <root context> "role" <name of the role> "job" <the job's name>). All templates
except distrain.env.all render JSON lists, which may be empty: Helm reads JSON several times as fast as YAML.
*/}}

{{- /*
distrain.env.all
  Takes a role. Renders nothing if the container has no variables. The user's variables come last, so that they can
  refer to the chart's variables as $(NAME). A user's variable replaces the chart's variable of the same name, such as
  HOME, and a role's variable replaces the top-level variable.
*/}}
{{- define "distrain.env.all" -}}
{{- $env := list -}}
{{- if ne .role "keygen" -}}
{{- $ofMpi := list -}}
{{- range $name, $value := .root.Values.mpi.env -}}
{{- if ne $value nil -}}
{{- $ofMpi = append $ofMpi (dict "name" $name "value" (include "distrain.text.scalar" $value)) -}}
{{- end -}}
{{- end -}}
{{- $parts := list (include "distrain.env.own" . | fromJsonArray) $ofMpi .root.Values.env (get .root.Job.roles .role).env -}}
{{- $all := dict -}}
{{- include "distrain.roles.named" (dict "parts" $parts "by" "name" "key" "env" "into" $all) -}}
{{- $env = $all.env -}}
{{- end -}}
{{- with $env -}}
env:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- with (get .root.Job.roles .role).envFrom -}}
{{- if $env }}{{ print "\n" }}{{ end -}}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.env.own
  Takes a role.
*/}}
{{- define "distrain.env.own" -}}
{{- $env := include "distrain.env.s3" .root | fromJsonArray -}}
{{- if eq .root.Job.facts.starter "torchrun" -}}
{{- /*
This variable makes torchrun check every second whether a rank has ended. By default, older versions of torchrun check
only every five seconds.
*/}}
{{- $env = append $env (dict "name" "PET_MONITOR_INTERVAL" "value" "1") -}}
{{- end -}}
{{- if .root.Job.isElastic -}}
{{- /*
Since PyTorch 2.5, the ranks share the TCP store of the first rendezvous. Workers that join later never get this store
(https://github.com/pytorch/pytorch/issues/135712). So the variable turns the sharing off.
*/}}
{{- $env = append $env (dict "name" "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" "value" "1") -}}
{{- end -}}
{{- if .root.Job.namesUser -}}
{{- /* A user who is not in the image's /etc/passwd has the home directory /, which the user cannot write to. */}}
{{- $env = append $env (dict "name" "HOME" "value" "/tmp") -}}
{{- end -}}
{{- if and (eq .role "launcher") .root.Job.isPlain -}}
{{- /* By default, Open MPI shortens <job>-worker-0.<domain> to <job>-worker-0, which DNS cannot resolve. */}}
{{- $env = append $env (dict "name" "OMPI_MCA_orte_keep_fqdn_hostnames" "value" "true") -}}
{{- end -}}
{{- if ne .role "launcher" -}}
{{- $env = concat $env (include "distrain.env.network" .root | fromJsonArray) (include "distrain.env.run" . | fromJsonArray) -}}
{{- end -}}
{{- toJson $env -}}
{{- end }}

{{- /*
distrain.env.run
  Takes a role.
*/}}
{{- define "distrain.env.run" -}}
{{- $job := dict "name" "DISTRAIN_JOB" "value" (include "distrain.names.identity" .) -}}
{{- $uid := dict "name" "DISTRAIN_POD_UID" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.uid")) -}}
{{- $env := list $job $uid -}}
{{- if and (has .role .root.Job.rankRoles) .root.Values.workers.gpus -}}
{{- $env = append $env (dict "name" "DISTRAIN_GPUS" "value" (int64 .root.Values.workers.gpus | toString)) -}}
{{- end -}}
{{- toJson $env -}}
{{- end }}

{{- /*
distrain.env.network
  Takes the root context.
*/}}
{{- define "distrain.env.network" -}}
{{- $network := .Values.network -}}
{{- $env := list -}}
{{- with $network.interface -}}
{{- $names := list "NCCL_SOCKET_IFNAME" "GLOO_SOCKET_IFNAME" -}}
{{- with $.Job.facts.interface -}}
{{- $names = append $names . -}}
{{- end -}}
{{- range $name := $names -}}
{{- $env = append $env (dict "name" $name "value" $network.interface) -}}
{{- end -}}
{{- end -}}
{{- with $network.ncclDebug -}}
{{- $env = append $env (dict "name" "NCCL_DEBUG" "value" .) -}}
{{- end -}}
{{- toJson $env -}}
{{- end }}

{{- /*
distrain.env.s3
  Takes the root context. The list is empty if no value refers to S3.
*/}}
{{- define "distrain.env.s3" -}}
{{- $s3 := .Values.s3 -}}
{{- $env := list -}}
{{- if or $s3.endpoint $s3.secretName $s3.caBundle (hasPrefix "s3://" .Values.data.uri) (hasPrefix "s3://" .Values.output.uri) (hasPrefix "s3://" .Values.checkpoint.uri) -}}
{{- $env = list (dict "name" "AWS_REGION" "value" $s3.region) -}}
{{- with $s3.endpoint -}}
{{- $env = append $env (dict "name" "AWS_ENDPOINT_URL_S3" "value" .) -}}
{{- end -}}
{{- if $s3.insecureTLS -}}
{{- $env = append $env (dict "name" "DISTRAIN_S3_INSECURE_TLS" "value" "1") -}}
{{- end -}}
{{- if $s3.caBundle -}}
{{- $env = append $env (dict "name" "AWS_CA_BUNDLE" "value" "/etc/distrain/s3-ca/ca.crt") -}}
{{- end -}}
{{- with $s3.addressingStyle -}}
{{- $env = append $env (dict "name" "DISTRAIN_S3_ADDRESSING_STYLE" "value" .) -}}
{{- end -}}
{{- if $s3.secretName -}}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" -}}
{{- $source := dict "name" $s3.secretName "key" $key -}}
{{- if eq $key "AWS_SESSION_TOKEN" -}}
{{- $_ := set $source "optional" true -}}
{{- end -}}
{{- $env = append $env (dict "name" $key "valueFrom" (dict "secretKeyRef" $source)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end }}
