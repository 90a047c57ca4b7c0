{{- /*
Environment of the pods. distrain-worker hands a worker's on to its ranks.

  distrain.env.all      all variables of a container
  distrain.env.own      those of them that the chart makes of other values
  distrain.env.run      by what the trainer knows its job and pod
  distrain.env.s3       what makes an S3 client find its server and credentials
  distrain.env.network  what makes NCCL and Gloo find their network
*/}}

{{- /*
distrain.env.all
  Takes (dict "root" <root context> "role" <role>). Renders nothing when there are none. The user's come last, so that
  they can refer to the others as $(NAME).
*/}}
{{- define "distrain.env.all" -}}
{{- $env := list -}}
{{- if ne .role "keygen" -}}
{{- $env = include "distrain.env.own" . | fromYamlArray -}}
{{- range $name, $value := .root.Values.mpi.env -}}
{{- if ne $value nil -}}
{{- $env = append $env (dict "name" $name "value" (include "distrain.text.scalar" $value)) -}}
{{- end -}}
{{- end -}}
{{- $env = concat $env (.root.Values.env | default list) -}}
{{- end -}}
{{- with $env -}}
env:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.env.own
  Takes the same. Renders a list, perhaps an empty one.
*/}}
{{- define "distrain.env.own" -}}
{{- $env := include "distrain.env.s3" .root | fromYamlArray -}}
{{- if eq .root.Job.facts.starter "torchrun" -}}
{{- /* torchrun looks for a lost rank every second; older ones would every five. */}}
{{- $env = append $env (dict "name" "PET_MONITOR_INTERVAL" "value" "1") -}}
{{- end -}}
{{- if .root.Job.isElastic -}}
{{- /*
From 2.5 on torchrun tells the ranks of the first workers' store for ever, and workers that come later of none:
https://github.com/pytorch/pytorch/issues/135712
*/}}
{{- $env = append $env (dict "name" "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" "value" "1") -}}
{{- end -}}
{{- if and (eq .role "launcher") .root.Job.isPlain -}}
{{- /* Open MPI cuts host names at the first dot, and <job>-worker-0 alone is no name in the cluster's DNS. */}}
{{- $env = append $env (dict "name" "OMPI_MCA_orte_keep_fqdn_hostnames" "value" "true") -}}
{{- end -}}
{{- if ne .role "launcher" -}}
{{- $env = concat $env (include "distrain.env.network" .root | fromYamlArray) (include "distrain.env.run" . | fromYamlArray) -}}
{{- end -}}
{{- toYaml $env -}}
{{- end }}

{{- /*
distrain.env.run
  Takes the same. Renders a list.
*/}}
{{- define "distrain.env.run" -}}
- name: DISTRAIN_JOB
  value: {{ include "distrain.names.identity" . | quote }}
- name: DISTRAIN_POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
{{- if and (has .role .root.Job.rankRoles) .root.Values.workers.gpus }}
- name: DISTRAIN_GPUS
  value: {{ int64 .root.Values.workers.gpus | quote }}
{{- end }}
{{- end }}

{{- /*
distrain.env.network
  Takes the root context. Renders a list, perhaps an empty one.
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
{{- toYaml $env -}}
{{- end }}

{{- /*
distrain.env.s3
  Takes the root context. Renders a list, an empty one when no value says S3.
*/}}
{{- define "distrain.env.s3" -}}
{{- $s3 := .Values.s3 -}}
{{- if or $s3.endpoint $s3.secretName (hasPrefix "s3://" .Values.data.uri) (hasPrefix "s3://" .Values.output.uri) (hasPrefix "s3://" .Values.checkpoint.uri) -}}
- name: AWS_REGION
  value: {{ $s3.region | quote }}
{{- with $s3.endpoint }}
- name: AWS_ENDPOINT_URL_S3
  value: {{ . | quote }}
{{- end }}
{{- if $s3.insecureTLS }}
- name: DISTRAIN_S3_INSECURE_TLS
  value: "1"
{{- end }}
{{- with $s3.secretName }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $s3.secretName | quote }}
      key: {{ $key }}
      {{- if eq $key "AWS_SESSION_TOKEN" }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end }}
