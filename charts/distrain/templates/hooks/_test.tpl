{{- /*
`helm test`: an all-reduce in a second job of the run's shape.

  distrain.test.values    finds the values of that job
  distrain.test.program   what its ranks run
  distrain.test.pack      documents of a Plain job as Helm can run them
  distrain.test.name      name of the Pod that judges it, and of that Pod's ServiceAccount and Role
  distrain.test.metadata  metadata of what the Pod needs

A parameter server makes no all-reduce: strategy parameter-server has no test.
*/}}

{{- /*
distrain.test.values
  Takes the root context. Renders all values.

  The test needs no data and no Secret for it, and it ends by itself even where Helm was stopped: its GPUs come free.
*/}}
{{- define "distrain.test.values" -}}
{{- $given := .root.Values -}}
{{- $job := .root.Job -}}
{{- $replicas := $given.test.workers | default $given.workers.replicas | int -}}
{{- /* torchrun must wait for all of them. */ -}}
{{- $fixed := ternary $replicas nil $job.isElastic -}}
{{- /*
The test's Pod gives up first, and says why, but for a Plain job, whose end Helm itself waits for.
An elastic PyTorchJob has succeeded with its first worker: Running would delete rank 0 before its log is read.
*/ -}}
{{- $deadline := add $given.test.timeoutSeconds (ternary 0 300 $job.isPlain) -}}
{{- $clean := ternary "None" "Running" (eq $job.facts.starter "torchrun") -}}
{{- $changes := dict
  "workers" (dict "replicas" $replicas "minReplicas" $fixed "maxReplicas" $fixed "sidecars" list)
  "job" (dict "maxRestarts" 0 "ttlSecondsAfterFinished" nil "activeDeadlineSeconds" $deadline "cleanPodPolicy" $clean)
  "data" (dict "uri" "")
  "output" (dict "uri" "")
  "checkpoint" (dict "uri" "")
  "s3" (dict "endpoint" "" "secretName" "")
  "monitoring" (dict "podMonitor" false)
-}}
{{- range $key, $value := $given -}}
{{- if hasKey $changes $key -}}
{{- $value = deepCopy $value -}}
{{- range $name, $change := get $changes $key -}}
{{- $_ := set $value $name $change -}}
{{- end -}}
{{- end -}}
{{- $_ := set $.values $key $value -}}
{{- end -}}
{{- $_ := set .values "gpus" nil -}}
{{- $_ := set .values "command" (include "distrain.test.program" .root | fromYamlArray) -}}
{{- end }}

{{- /*
distrain.test.program
  Takes the root context. Renders a list. mpirun starts Horovod, torchrun starts PyTorch's own.
*/}}
{{- define "distrain.test.program" -}}
- python3
- -m
- distrain_trainer.allreduce
- --backend={{ ternary "torch" "horovod" (eq .Job.facts.starter "torchrun") }}
{{- end }}

{{- /*
distrain.test.pack
  Takes the documents of a Plain job. Renders them all.

  Helm waits for the end of each Job among the hooks before it makes the next one, but launcher and workers need each
  other. So the Jobs are one hook, a List. Its items keep their annotations, as Argo CD reads those alone.
*/}}
{{- define "distrain.test.pack" -}}
{{- $together := list -}}
{{- range regexSplit "(?m)^---\\s*$" . -1 -}}
{{- $document := fromYaml . -}}
{{- if eq (get $document "kind") "Job" -}}
{{- $together = append $together $document -}}
{{- else if $document }}
---
{{ toYaml $document }}
{{- end -}}
{{- end }}
---
apiVersion: v1
kind: List
metadata:
  name: {{ (first $together).metadata.name | quote }}
  annotations:
    {{- toYaml (first $together).metadata.annotations | nindent 4 }}
items:
  {{- toYaml $together | nindent 2 }}
{{- end }}

{{- /*
distrain.test.name
  Takes the root context.
*/}}
{{- define "distrain.test.name" -}}
{{- include "distrain.names.helper" (dict "root" . "part" "test") -}}
{{- end }}

{{- /*
distrain.test.metadata
  Takes the test's context. Renders name, namespace, labels and annotations.
*/}}
{{- define "distrain.test.metadata" -}}
name: {{ include "distrain.test.name" . | quote }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "distrain.labels.resource" . | nindent 2 }}
annotations:
  {{- include "distrain.hooks.annotations" (dict "hook" "test" "weight" -2 "delete" "before-hook-creation,hook-succeeded") | nindent 2 }}
{{- end }}
