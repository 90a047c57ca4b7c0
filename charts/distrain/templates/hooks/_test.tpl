{{- /*
`helm test` starts a second job with the same pods as the release's job. The ranks of this second job run an all-reduce.

  distrain.test.missing   why the release has no test; empty if it has one
  distrain.test.values    values of the test's job
  distrain.test.sidecars  sidecars of its pods
  distrain.test.program   program of its ranks
  distrain.test.pack      documents of a Plain job, changed so that Helm can run them as hooks
*/}}

{{- /*
distrain.test.missing
  Takes the root context. MultiKueue would run the test's job in another cluster, where the test cannot see the job's
  pods.
*/}}
{{- define "distrain.test.missing" -}}
{{- if eq .Values.strategy "parameter-server" -}}
strategy parameter-server has no test
{{- else if .Values.job.managedBy -}}
job.managedBy lets the job run in another cluster, so that there is no test
{{- end -}}
{{- end }}

{{- /*
distrain.test.values
  Takes (dict "root" <root context> "values" <a map>). Adds all values of the test's job to the map.

  The test reads no data, so it needs no S3 Secret. The test's job has a deadline, so that it frees its GPUs even if
  Helm was stopped. It is never suspended, so `helm test` also works while the release's job is suspended.
*/}}
{{- define "distrain.test.values" -}}
{{- $given := .root.Values -}}
{{- $job := .root.Job -}}
{{- $replicas := $given.test.workers | default $given.workers.replicas | int -}}
{{- /* With equal minReplicas and maxReplicas, torchrun waits for all workers. */ -}}
{{- $fixed := ternary $replicas nil $job.isElastic -}}
{{- /*
The deadline of the test's job is 5 minutes later than the timeout of the test's Pod, so that the Pod can say why the
test failed. For a Plain job the two times are equal, because Helm creates the test's Pod only after the job has ended.
An elastic PyTorchJob succeeds as soon as its first worker has succeeded. With cleanPodPolicy Running, the operator
would then delete the pods that still run. One of them could be rank 0's pod, whose log the test still has to read.
*/ -}}
{{- $deadline := add $given.test.timeoutSeconds (ternary 0 300 $job.isPlain) -}}
{{- $clean := ternary "None" "Running" (eq $job.facts.starter "torchrun") -}}
{{- $changes := dict
  "workers" (dict "replicas" $replicas "minReplicas" $fixed "maxReplicas" $fixed)
  "launcher" dict
  "servers" dict
  "scheduler" dict
  "job" (dict "suspend" false "maxRestarts" 0 "ttlSecondsAfterFinished" nil "activeDeadlineSeconds" $deadline "cleanPodPolicy" $clean)
  "data" (dict "uri" "")
  "output" (dict "uri" "")
  "checkpoint" (dict "uri" "")
  "s3" (dict "endpoint" "" "secretName" "" "caBundle" nil)
  "monitoring" (dict "podMonitor" false "annotations" false)
-}}
{{- range $section := list "workers" "launcher" "servers" "scheduler" -}}
{{- $_ := include "distrain.test.sidecars" (get $given $section) | fromJsonArray | set (get $changes $section) "sidecars" -}}
{{- end -}}
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
{{- $_ := include "distrain.test.sidecars" $given | fromJsonArray | set .values "sidecars" -}}
{{- $_ := set .values "command" (include "distrain.test.program" .root | fromYamlArray) -}}
{{- end }}

{{- /*
distrain.test.sidecars
  Takes a map with sidecars. Renders only the native sidecars, as JSON. The test keeps the native sidecars, because the
  network may need them, and Kubernetes ends them once the ranks have ended. Other sidecars would keep the test's pods
  running.
*/}}
{{- define "distrain.test.sidecars" -}}
{{- $native := list -}}
{{- range .sidecars -}}
{{- if eq (.restartPolicy | default "") "Always" -}}
{{- $native = append $native . -}}
{{- end -}}
{{- end -}}
{{- toJson $native -}}
{{- end }}

{{- /*
distrain.test.program
  Takes the root context. Renders a list. The ranks run the all-reduce with PyTorch if torchrun starts them, and with
  Horovod if mpirun starts them.
*/}}
{{- define "distrain.test.program" -}}
- python3
{{ include "distrain.trainer.module" (dict "root" . "module" "distrain_trainer.allreduce") }}
- --backend={{ ternary "torch" "horovod" (eq .Job.facts.starter "torchrun") }}
{{- end }}

{{- /*
distrain.test.pack
  Takes the YAML documents of a Plain job. Renders the same documents, but with all Jobs in one object of kind List.

  If a hook is a Job, Helm waits until the Job has ended before it creates the next hook. But the launcher's Job and the
  workers' Job have to run at the same time. For Helm, one List is a single hook, so both Jobs start together. Each Job
  keeps its own hook annotations, because Argo CD ignores the List's annotations.
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
  {{- toYaml (pick (first $together).metadata "name" "labels" "annotations") | nindent 2 }}
items:
  {{- toYaml $together | nindent 2 }}
{{- end }}
