{{- /*
The trainer's arguments for the recipe values. These values have no defaults in values.yaml.

  distrain.recipe.arguments  list of arguments
  distrain.recipe.value      a value as text
*/}}

{{- /*
distrain.recipe.arguments
  Takes .Values.trainer. A value that is not set adds no argument. So a value that is new in this version of the chart
  does not change the content hash of a job that an older version has installed.
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
  Takes a number, a string, a boolean, or a list of numbers. The numbers of a list are joined by commas.
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
