{{- /*
The program that every rank runs.

  distrain.trainer.program     the program and its arguments
  distrain.trainer.module      arguments with which Python runs a module of the trainer
  distrain.trainer.arguments   arguments of the trainer
  distrain.trainer.length      number of steps or epochs
  distrain.trainer.output      folder for the run's model, log and results
  distrain.trainer.checkpoint  folder for the run's checkpoints
*/}}

{{- /*
distrain.trainer.program
  Takes the root context. Renders a list: `command` if it is set, otherwise the trainer.
*/}}
{{- define "distrain.trainer.program" -}}
{{- with .Values.command -}}
{{- include "distrain.text.list" . -}}
{{- else -}}
- python3
{{ include "distrain.trainer.module" (dict "root" . "module" "distrain_trainer") }}
{{ include "distrain.trainer.arguments" . }}
{{- end -}}
{{- end }}

{{- /*
distrain.trainer.module
  Takes (dict "root" <root context> "module" <module>). Renders a list. If the chart delivers the trainer,
  distrain-trainer unpacks it, installs the packages in trainer.install, and runs the module.
*/}}
{{- define "distrain.trainer.module" -}}
{{- if .root.Job.archive -}}
- /opt/distrain/bin/distrain-trainer
{{- range .root.Values.trainer.install }}
- {{ printf "--install=%s" . | quote }}
{{- end }}
{{- else -}}
- -m
{{- end }}
- {{ .module }}
{{- end }}

{{- /*
distrain.trainer.arguments
  Takes the root context. Renders a list.
*/}}
{{- define "distrain.trainer.arguments" -}}
{{- $trainer := .Values.trainer -}}
- --framework={{ .Values.framework }}
- --strategy={{ .Values.strategy }}
- --model={{ $trainer.model }}
- --batch-size={{ int64 $trainer.batchSize }}
- {{ include "distrain.trainer.length" $trainer }}
- --precision={{ $trainer.precision }}
- --optimizer={{ $trainer.optimizer }}
- --learning-rate={{ include "distrain.text.number" $trainer.learningRate }}
- --warmup={{ int64 $trainer.warmup }}
- --seed={{ int64 $trainer.seed }}
- --log-every={{ int64 $trainer.logEvery }}
- {{ printf "--data=%s" (.Values.data.uri | default "synthetic") | quote }}
{{- with .Values.output.uri }}
- {{ include "distrain.trainer.output" $ | printf "--output=%s" | quote }}
{{- end }}
- {{ include "distrain.trainer.checkpoint" . | printf "--checkpoint=%s" | quote }}
- --checkpoint-every={{ include "distrain.text.scalar" .Values.checkpoint.every }}
{{- with .Values.checkpoint.maxAge }}
{{- /*
1800 is the trainer's default, so the chart does not pass this value. Older versions of the chart passed no such
argument, so the content hash of a job that they have installed stays the same.
*/}}
{{- if ne (int64 .) 1800 }}
- --checkpoint-max-age={{ int64 . }}
{{- end }}
{{- end }}
- --checkpoint-keep={{ int64 .Values.checkpoint.keep }}
{{- if .Values.checkpoint.uri }}
- --checkpoint-at-end
{{- end }}
- --resume={{ .Values.checkpoint.resume }}
{{- if ne $trainer.maxBadSteps nil }}
- --max-bad-steps={{ int64 $trainer.maxBadSteps }}
{{- end }}
{{- if ne .Values.data.maxBadShare nil }}
- --max-bad-share={{ include "distrain.text.number" .Values.data.maxBadShare }}
{{- end }}
{{- with .Values.data.cache }}
{{- if .folder }}
- {{ printf "--cache=%s" .folder | quote }}
- --cache-size={{ include "distrain.text.bytes" .size | float64 | int64 }}
{{- end }}
{{- end }}
{{- if $trainer.metrics }}
- --metrics-port={{ int64 .Values.monitoring.port }}
{{- end }}
{{- if $trainer.tensorboard }}
- --tensorboard
{{- end }}
{{- with include "distrain.recipe.arguments" $trainer }}
{{ . }}
{{- end }}
{{- with $trainer.extraArgs }}
{{ include "distrain.text.list" . }}
{{- end }}
{{- end }}

{{- /*
distrain.trainer.length
  Takes .Values.trainer. The default of steps is here and not in values.yaml: otherwise a user who sets epochs would
  have to set steps to null.
*/}}
{{- define "distrain.trainer.length" -}}
{{- if .epochs -}}
--epochs={{ int64 .epochs }}
{{- else -}}
--steps={{ int64 (.steps | default 100) }}
{{- end -}}
{{- end }}

{{- /*
distrain.trainer.output
  Takes the root context. Each run has its own folder, so that two runs can have the same output.uri.
*/}}
{{- define "distrain.trainer.output" -}}
{{- printf "%s/%s" (.Values.output.uri | trimSuffix "/") .Job.names.run -}}
{{- end }}

{{- /*
distrain.trainer.checkpoint
  Takes the root context. Without checkpoint.uri, the folder is in an emptyDir, which distrain.volumes.all adds to the
  pod.
*/}}
{{- define "distrain.trainer.checkpoint" -}}
{{- $uri := .Values.checkpoint.uri | default "/checkpoints" -}}
{{- printf "%s/%s" ($uri | trimSuffix "/") .Job.names.run -}}
{{- end }}
