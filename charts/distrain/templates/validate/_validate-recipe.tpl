{{- /*
Rules for combinations of recipe values; the schema limits each number. Together they refuse all recipes that the trainer
(recipe.py) refuses before it reads data. If `command` is set, the trainer's values are ignored.

  distrain.validate.recipe            the rules
  distrain.validate.recipe.augment    those for images
  distrain.validate.recipe.imageSize  the number after --image-size in trainer.extraArgs, or ""
  distrain.validate.recipe.isRange    not empty for a list of two ascending numbers
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
{{- $before := 0.0 -}}
{{- $rises := true -}}
{{- range $milestones -}}
{{- if le (float64 .) $before -}}
{{- $rises = false -}}
{{- end -}}
{{- $before = float64 . -}}
{{- end -}}
{{- if not $rises -}}
{{- printf "distrain: trainer.milestones: is %s, but must be ascending epochs; correct it, as in [30, 60, 80]\n" (include "distrain.recipe.value" $milestones) -}}
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
{{- with $trainer.augment -}}
{{- include "distrain.validate.recipe.augment" (dict "augment" . "size" (include "distrain.validate.recipe.imageSize" $trainer)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.recipe.augment" -}}
{{- $size := .size -}}
{{- with .augment -}}
{{- $scale := include "distrain.recipe.value" (.scale | default list) -}}
{{- $ratio := include "distrain.recipe.value" (.ratio | default list) -}}
{{- $mean := include "distrain.recipe.value" (.mean | default list) -}}
{{- $std := include "distrain.recipe.value" (.std | default list) -}}
{{- if and $scale (not (include "distrain.validate.recipe.isRange" .scale)) -}}
{{- printf "distrain: trainer.augment.scale: is %s, but must be the smallest and the largest share of an image's area; give two ascending numbers above 0 and up to 1, such as [0.08, 1]\n" $scale -}}
{{- end -}}
{{- if and $ratio (not (include "distrain.validate.recipe.isRange" .ratio)) -}}
{{- printf "distrain: trainer.augment.ratio: is %s, but must be the smallest and the largest width divided by height; give two ascending numbers above 0, such as [0.75, 1.3333]\n" $ratio -}}
{{- end -}}
{{- if and $ratio (not $scale) -}}
{{- printf "distrain: trainer.augment.ratio: is %s, but only crops have a ratio; set trainer.augment.scale too, or remove trainer.augment.ratio\n" $ratio -}}
{{- end -}}
{{- if ne (len (.mean | default list)) (len (.std | default list)) -}}
{{- printf "distrain: trainer.augment.mean: is %s, but trainer.augment.std is %s; give equally many numbers for both\n" ($mean | default "none") ($std | default "none") -}}
{{- end -}}
{{- $resize := .testResize -}}
{{- range $name, $value := dict "scale" $scale "testResize" $resize -}}
{{- if and $value (not $size) -}}
{{- printf "distrain: trainer.augment.%s: needs the size to which images are scaled; add --image-size=224 or another size to trainer.extraArgs\n" $name -}}
{{- end -}}
{{- end -}}
{{- if and $resize $size (lt (int64 $resize) (int64 $size)) -}}
{{- printf "distrain: trainer.augment.testResize: is %d, but the part that is cut out afterwards has --image-size=%s; give %s or more\n" (int64 $resize) $size $size -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.recipe.imageSize" -}}
{{- $words := list "" -}}
{{- range .extraArgs -}}
{{- $words = append $words (include "distrain.text.scalar" .) -}}
{{- end -}}
{{- regexFindAll " --image-size[= ][0-9]+" (join " " $words) -1 | last | toString | regexFind "[0-9]+$" -}}
{{- end }}

{{- define "distrain.validate.recipe.isRange" -}}
{{- if and (eq (len .) 2) (le (first . | float64) (last . | float64)) -}}
true
{{- end -}}
{{- end }}
