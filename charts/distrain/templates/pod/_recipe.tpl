{{- /*
The recipe of a training: arguments of the trainer for values that values.yaml leaves out.

  distrain.recipe.arguments  a list of arguments
  distrain.recipe.value      text of a value
*/}}

{{- /*
distrain.recipe.arguments
  Takes .Values.trainer. A value that is not set has no argument, so that a job of an older chart keeps its content hash.
*/}}
{{- define "distrain.recipe.arguments" -}}
{{- $lines := list -}}
{{- range list "warmupEpochs" "rateScaling" "schedule" "milestones" "decayFactor" "weightDecay" "labelSmoothing" "ema" "evaluateEvery" -}}
{{- $value := index $ . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $lines = append $lines (printf "- --%s=%s" (kebabcase .) (include "distrain.recipe.value" $value)) -}}
{{- end -}}
{{- end -}}
{{- $augment := $.augment | default dict -}}
{{- range list "scale" "ratio" "flip" "mean" "std" "testResize" -}}
{{- $value := index $augment . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $lines = append $lines (printf "- --augment-%s=%s" (kebabcase .) (include "distrain.recipe.value" $value)) -}}
{{- end -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end }}

{{- /*
distrain.recipe.value
  Takes a number, a word, a boolean, or a list of numbers, which is joined by commas.
*/}}
{{- define "distrain.recipe.value" -}}
{{- if kindIs "slice" . -}}
{{- $texts := list -}}
{{- range . -}}
{{- $texts = append $texts (include "distrain.text.quantity" .) -}}
{{- end -}}
{{- join "," $texts -}}
{{- else -}}
{{- include "distrain.text.quantity" . -}}
{{- end -}}
{{- end }}
