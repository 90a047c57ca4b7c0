{{- /*
Values as text.

  distrain.text.scalar    a string, number or boolean
  distrain.text.number    a number, or the text of a number
  distrain.text.quantity  a quantity, such as 500m or 1.5
  distrain.text.list      a YAML list of strings
  distrain.text.bytes     number of bytes in a quantity such as 16Gi
  distrain.text.aKind     the job's kind with its article, for a message
  distrain.text.aVersion  the job's kind and version with their article, for a message
*/}}

{{- /*
distrain.text.scalar
  Takes the value. Helm parses the numbers of a values file as float64, and would print 1048576 as 1.048576e+06.
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
  Takes the value. A values file gives 0.10 as a number, and --set gives it as text: both must render the same job.
  Other text, such as 500m, stays as it is.
*/}}
{{- define "distrain.text.number" -}}
{{- if regexMatch "^[0-9.]+([eE][-+]?[0-9]+)?$" (toString .) -}}
{{- float64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.text.quantity
  Takes the value. Renders the same text for 2, "2" and 2.0, so that they give the same job.
*/}}
{{- define "distrain.text.quantity" -}}
{{- if and (regexMatch "^[0-9.]+([eE][-+]?[0-9]+)?$" (toString .)) (eq (float64 . | floor) (float64 .)) -}}
{{- float64 . | int64 -}}
{{- else -}}
{{- include "distrain.text.number" . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.text.list
  Takes a list of scalars. Kubernetes accepts only strings as arguments, but users also write numbers.
*/}}
{{- define "distrain.text.list" -}}
{{- range $index, $value := . -}}
{{- if $index }}{{ print "\n" }}{{ end -}}
- {{ include "distrain.text.scalar" $value | quote }}
{{- end -}}
{{- end }}

{{- /*
distrain.text.bytes
  Takes the quantity. Renders a number that the template function float64 can read.
*/}}
{{- define "distrain.text.bytes" -}}
{{- $size := include "distrain.text.quantity" . -}}
{{- $units := dict "" 1 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "P" 1e15 "E" 1e18 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $number := regexFind "^[0-9.]+" $size -}}
{{- mulf (float64 $number) (trimPrefix $number $size | get $units | float64) -}}
{{- end }}

{{- /*
distrain.text.aKind
  Takes the context. Returns `a PyTorchJob`, `an MPIJob` (the M is read as a letter) or `a Plain job`.
*/}}
{{- define "distrain.text.aKind" -}}
{{- hasPrefix "M" .Job.kind | ternary "an" "a" }} {{ .Job.isPlain | ternary "Plain job" .Job.kind -}}
{{- end }}

{{- /*
distrain.text.aVersion
  Takes the context. Returns the same with the version, such as `a PyTorchJob v1`.
*/}}
{{- define "distrain.text.aVersion" -}}
{{- printf "%s %s" (include "distrain.text.aKind" .) .Job.version | trim -}}
{{- end }}
