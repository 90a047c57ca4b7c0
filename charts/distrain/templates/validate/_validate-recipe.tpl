{{- /*
Rules for combinations of recipe values. The trainer checks each value on its own. If `command` is set, the trainer's
values are ignored.
*/}}
{{- define "distrain.validate.recipe" -}}
{{- $trainer := .Values.trainer -}}
{{- if not .Values.command -}}
{{- if eq .Values.strategy "parameter-server" -}}
{{- if has $trainer.optimizer (list "lars" "lamb") -}}
{{- printf "distrain: trainer.optimizer: %s needs the norm of each whole weight, but each parameter server holds only a part of a weight; set it to sgd or adam, or strategy to allreduce\n" $trainer.optimizer -}}
{{- end -}}
{{- range list "ema" "evaluateEvery" -}}
{{- $value := include "distrain.recipe.value" (index $trainer .) -}}
{{- if and (not (kindIs "invalid" (index $trainer .))) (ne $value "0") -}}
{{- printf "distrain: trainer.%s: %s needs all workers at the same step, but with parameter servers the workers are at different steps; remove trainer.%s, or set strategy to allreduce\n" . $value . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $milestones := $trainer.milestones | default list -}}
{{- if ne (eq (toString $trainer.schedule) "step") (gt (len $milestones) 0) -}}
{{- printf "distrain: trainer.milestones: is %s, but trainer.schedule is %s; set milestones, such as [30, 60, 80], only together with schedule step\n" (include "distrain.recipe.value" $milestones | default "none") ($trainer.schedule | default "constant") -}}
{{- end -}}
{{- if and $trainer.warmup $trainer.warmupEpochs -}}
{{- printf "distrain: trainer.warmupEpochs: is %s, but trainer.warmup is %d; set only one of the two\n" (include "distrain.recipe.value" $trainer.warmupEpochs) (int64 $trainer.warmup) -}}
{{- end -}}
{{- if not .Values.data.uri -}}
{{- range list "milestones" "warmupEpochs" "evaluateEvery" -}}
{{- if index $trainer . -}}
{{- printf "distrain: trainer.%s: counts epochs, but random data has no epochs; set data.uri, or remove trainer.%s\n" . . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
