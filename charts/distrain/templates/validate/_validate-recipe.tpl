{{- /*
Rules for combinations of recipe values. The trainer checks each value on its own. If `command` is set, the trainer's
values are ignored.
*/}}
{{- define "distrain.validate.recipe" -}}
{{- $trainer := .Values.trainer -}}
{{- if not .Values.command -}}
{{- if eq .Values.strategy "parameter-server" -}}
{{- if has $trainer.optimizer (list "lars" "lamb") -}}
{{- printf "distrain: trainer.optimizer: %s needs the norm of each whole weight, and parameter servers hold parts; set it to sgd or adam, or strategy to allreduce\n" $trainer.optimizer -}}
{{- end -}}
{{- range list "ema" "evaluateEvery" -}}
{{- $value := include "distrain.recipe.value" (index $trainer .) -}}
{{- if and (not (kindIs "invalid" (index $trainer .))) (ne $value "0") -}}
{{- printf "distrain: trainer.%s: %s needs the weights of a step, and with parameter servers the workers are at different steps; remove trainer.%s, or set strategy to allreduce\n" . $value . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $milestones := $trainer.milestones | default list -}}
{{- if ne (eq (toString $trainer.schedule) "step") (gt (len $milestones) 0) -}}
{{- printf "distrain: trainer.milestones: %s, and trainer.schedule is %s; set milestones, such as [30, 60, 80], with schedule step alone\n" (include "distrain.recipe.value" $milestones | default "none") ($trainer.schedule | default "constant") -}}
{{- end -}}
{{- if and $trainer.warmup $trainer.warmupEpochs -}}
{{- printf "distrain: trainer.warmupEpochs: %s epochs, and trainer.warmup is %d steps; set one of the two\n" (include "distrain.recipe.value" $trainer.warmupEpochs) (int64 $trainer.warmup) -}}
{{- end -}}
{{- if not .Values.data.uri -}}
{{- range list "milestones" "warmupEpochs" "evaluateEvery" -}}
{{- if index $trainer . -}}
{{- printf "distrain: trainer.%s: is in epochs, and random numbers have none; set data.uri, or remove trainer.%s\n" . . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
