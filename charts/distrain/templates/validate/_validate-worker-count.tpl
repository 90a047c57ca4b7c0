{{- /*
Rules on the number of workers and of their GPUs.

  distrain.validate.worker-count.total      gpus is workers.replicas * workers.gpus
  distrain.validate.worker-count.perWorker  the trainer uses every GPU of a worker
  distrain.validate.worker-count.elastic    workers.replicas of an elastic job lies between minReplicas and maxReplicas
*/}}

{{- define "distrain.validate.worker-count.total" -}}
{{- $replicas := int .Values.workers.replicas -}}
{{- $each := int .Values.workers.gpus -}}
{{- $product := mul $replicas $each | int -}}
{{- if ne .Values.gpus nil -}}
{{- $gpus := int .Values.gpus -}}
{{- if ne $gpus $product -}}
{{- $mend := printf "--set gpus=%d" $product -}}
{{- if and (gt $each 0) (gt $gpus 0) (eq (mod $gpus (max $each 1) | int) 0) -}}
{{- $mend = printf "--set workers.replicas=%d or %s" (div $gpus $each) $mend -}}
{{- end -}}
{{- printf "distrain: gpus: %d differs from workers.replicas * workers.gpus = %d * %d = %d; %s; or leave out workers.replicas and workers.gpus, which `helm distrain derive` then sets\n" $gpus $replicas $each $product $mend -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.worker-count.perWorker" -}}
{{- $gpus := int .Values.workers.gpus -}}
{{- if and (eq .Job.kind "TFJob") (gt $gpus 1) (not .Values.command) -}}
{{- $replicas := mul $gpus .Values.workers.replicas -}}
{{- $more := le $replicas 1000 | ternary (printf ",workers.replicas=%d" $replicas) ",workers.replicas=1000, as 1000 workers are the most; or --set strategy=allreduce for more GPUs" -}}
{{- printf "distrain: workers.gpus: is %d, but the trainer uses one GPU in each worker of a TFJob; --set workers.gpus=1%s\n" $gpus $more -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.worker-count.elastic" -}}
{{- $workers := .Values.workers -}}
{{- $elastic := .Job.isElastic -}}
{{- $live := and .Job.usesMpi (not .Job.isQueued) (not .Job.isReplaced) | ternary " (it rescales live without this value)" "" -}}
{{- range $key := list "minReplicas" "maxReplicas" -}}
{{- $value := index $workers $key -}}
{{- if and (ne $value nil) (not $elastic) -}}
{{- printf "distrain: workers.%s: %d is set, but this %s is not elastic%s; --set workers.%s=null, or use a PyTorchJob with job.elastic=true\n" $key (int $value) $.Job.kind $live $key -}}
{{- end -}}
{{- end -}}
{{- if $elastic -}}
{{- $replicas := int $workers.replicas -}}
{{- $min := $workers.minReplicas | default 1 | int -}}
{{- $max := $workers.maxReplicas | default 1000 | int -}}
{{- if or (lt $replicas $min) (gt $replicas $max) -}}
{{- printf "distrain: workers.replicas: %d is not between workers.minReplicas (%d) and workers.maxReplicas (%d); change one of the three\n" $replicas $min $max -}}
{{- end -}}
{{- end -}}
{{- end }}
