{{- /*
Values as text.

  distrain.text.scalar  a string, number or boolean
  distrain.text.number  a number, or the text that --set makes of one
  distrain.text.list    a list of them, as a list of strings
  distrain.text.bytes   how many bytes a quantity such as 16Gi is
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
distrain.text.number
  Takes the value. A values file gives 0.10 as a number and --set gives it as text: both are the same job. Text that is no
  number, such as 500m, stays.
*/}}
{{- define "distrain.text.number" -}}
{{- if regexMatch "^[0-9.]+([eE][-+]?[0-9]+)?$" (toString .) -}}
{{- float64 . -}}
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

{{- /*
distrain.text.bytes
  Takes the quantity. Renders a number for `float64`.
*/}}
{{- define "distrain.text.bytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- mulf (float64 $number) (trimPrefix $number . | get $units | float64) -}}
{{- end }}
