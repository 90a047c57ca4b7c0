{{- /*
Values as text.

  distrain.text.scalar  a string, number or boolean
  distrain.text.list    a list of them, as a list of strings
*/}}

{{- /*
distrain.text.scalar
  Takes the value. Helm reads numbers of a values file as floating point, and would print 1048576 as 1.048576e+06.
*/}}
{{- define "distrain.text.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.text.list
  Takes the list. Kubernetes wants strings where people write `--epochs 10`.
*/}}
{{- define "distrain.text.list" -}}
{{- range $index, $value := . -}}
{{- if $index }}{{ print "\n" }}{{ end -}}
- {{ include "distrain.text.scalar" $value | quote }}
{{- end -}}
{{- end }}
