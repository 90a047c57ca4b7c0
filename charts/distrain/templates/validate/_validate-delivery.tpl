{{- /*
Rules for trainer.delivery. If trainer.delivery is `chart`, the chart delivers the trainer into an image that does not
contain the trainer.
*/}}
{{- define "distrain.validate.delivery" -}}
{{- $image := .Values.image -}}
{{- if ne .Values.trainer.delivery "chart" -}}
{{- with .Values.trainer.install -}}
{{- printf "distrain: trainer.install: %q can only be installed if the chart delivers the trainer, but trainer.delivery is image; set trainer.delivery to chart, or build an image that contains the package\n" (first .) -}}
{{- end -}}
{{- else -}}
{{- if .Values.command -}}
{{- "distrain: trainer.delivery: is chart, but command is set and runs instead of the trainer, so there is nothing to deliver; set trainer.delivery to image\n" -}}
{{- end -}}
{{- if not $image.repository -}}
{{- "distrain: image.repository: is empty, but trainer.delivery=chart needs an image with the framework; set image.repository to one, such as pytorch/pytorch, and image.tag to its tag\n" -}}
{{- else if not (or $image.tag $image.digest) -}}
{{- printf "distrain: image.tag: is empty, so the tag would be %s, a version of distrain; set it to a tag of %s\n" .Chart.AppVersion $image.repository -}}
{{- end -}}
{{- if and .Values.preflight.enabled (not .Values.preflight.image) -}}
{{- printf "distrain: preflight.image: is empty, so preflight uses the job's image, and with trainer.delivery=chart that image does not contain distrain; set preflight.image to an image with distrain, or preflight.enabled to false\n" -}}
{{- end -}}
{{- end -}}
{{- end }}
