{{- /*
`helm test`: a second job with the same pods as the release's job, whose ranks run an all-reduce.

  distrain.test.values   values of the test's job
  distrain.test.program  program of its ranks
  distrain.test.pack     documents of a Plain job, in a form that Helm can run

Strategy parameter-server has no all-reduce, and so no test.
*/}}

{{- /*
distrain.test.values
  Takes (dict "root" <root context> "values" <a map>). Adds all values of the test's job to the map.

  The test reads no data, so it needs no S3 Secret. It has a deadline, so that its GPUs become free even if Helm was
  stopped. It runs even if the release's job is suspended.
*/}}
{{- define "distrain.test.values" -}}
{{- $given := .root.Values -}}
{{- $job := .root.Job -}}
{{- $replicas := $given.test.workers | default $given.workers.replicas | int -}}
{{- /* Makes torchrun wait for all workers. */ -}}
{{- $fixed := ternary $replicas nil $job.isElastic -}}
{{- /*
The test's Pod gives up before the job's deadline and says why. Helm itself waits for the end of a Plain job, so that
job gets no more time. An elastic PyTorchJob succeeds with its first worker: with Running, the operator would delete the
pod of rank 0 before its log is read.
*/ -}}
{{- $deadline := add $given.test.timeoutSeconds (ternary 0 300 $job.isPlain) -}}
{{- $clean := ternary "None" "Running" (eq $job.facts.starter "torchrun") -}}
{{- $none := dict "sidecars" list -}}
{{- $changes := dict
  "workers" (dict "replicas" $replicas "minReplicas" $fixed "maxReplicas" $fixed "sidecars" list)
  "launcher" $none
  "servers" $none
  "scheduler" $none
  "job" (dict "suspend" false "maxRestarts" 0 "ttlSecondsAfterFinished" nil "activeDeadlineSeconds" $deadline "cleanPodPolicy" $clean)
  "data" (dict "uri" "")
  "output" (dict "uri" "")
  "checkpoint" (dict "uri" "")
  "s3" (dict "endpoint" "" "secretName" "")
  "monitoring" (dict "podMonitor" false "annotations" false)
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
{{- $_ := set .values "sidecars" list -}}
{{- $_ := set .values "command" (include "distrain.test.program" .root | fromYamlArray) -}}
{{- end }}

{{- /*
distrain.test.program
  Takes the root context. Renders a list. Under torchrun the all-reduce is PyTorch's, under mpirun Horovod's.
*/}}
{{- define "distrain.test.program" -}}
- python3
- -m
- distrain_trainer.allreduce
- --backend={{ ternary "torch" "horovod" (eq .Job.facts.starter "torchrun") }}
{{- end }}

{{- /*
distrain.test.pack
  Takes the documents of a Plain job. Renders all of them, with the Jobs in one List.

  Helm waits until a Job that is a hook has ended before it creates the next hook, but launcher and workers need each
  other. So one hook, a List, holds all Jobs. The Jobs keep their annotations, because Argo CD ignores those of the
  List.
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
