{{- /*
The program that every rank runs.

  distrain.trainer.program    the program and its arguments
  distrain.trainer.arguments  the trainer's arguments
  distrain.trainer.length     how long to train
  distrain.trainer.output     where this run writes
  distrain.trainer.checkpoint where it saves its state
*/}}

{{- /*
distrain.trainer.program
  Takes the root context. Renders a list: `command` when set, else the trainer.
*/}}
{{- define "distrain.trainer.program" -}}
{{- with .Values.command -}}
{{- include "distrain.text.list" . -}}
{{- else -}}
- python3
- -m
- distrain_trainer
{{ include "distrain.trainer.arguments" . }}
{{- end -}}
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
{{- /* The trainer's own default is not named: under a newer chart a job that runs keeps its name. */}}
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
{{- with $trainer.extraArgs }}
{{ include "distrain.text.list" . }}
{{- end }}
{{- end }}

{{- /*
distrain.trainer.length
  Takes trainer's values. The default stands here, not in values.yaml: a file that sets epochs need not unset steps.
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
  Takes the root context. Each run has a folder of its own, so that two runs with one output.uri do not mix.
*/}}
{{- define "distrain.trainer.output" -}}
{{- printf "%s/%s" (.Values.output.uri | trimSuffix "/") .Job.names.run -}}
{{- end }}

{{- /*
distrain.trainer.checkpoint
  Takes the root context. Without a place of the user's it is in the pods, where distrain.volumes.all makes the folder.
*/}}
{{- define "distrain.trainer.checkpoint" -}}
{{- $uri := .Values.checkpoint.uri | default "/checkpoints" -}}
{{- printf "%s/%s" ($uri | trimSuffix "/") .Job.names.run -}}
{{- end }}
