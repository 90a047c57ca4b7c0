{{- /*
Environment of the pods. distrain-worker hands a worker's on to its ranks.

  distrain.env.all  all variables of a container
  distrain.env.s3   those of them that make an S3 client find its server and credentials
*/}}

{{- /*
distrain.env.all
  Takes the root context. Renders nothing when there are none. The user's come last, so that they can refer to the
  others as $(NAME).
*/}}
{{- define "distrain.env.all" -}}
{{- $env := include "distrain.env.s3" . | fromYamlArray -}}
{{- range $name, $value := .Values.mpi.env -}}
{{- if ne $value nil -}}
{{- $env = append $env (dict "name" $name "value" (include "distrain.text.scalar" $value)) -}}
{{- end -}}
{{- end -}}
{{- with concat $env (.Values.env | default list) -}}
env:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.env.s3
  Takes the root context. Renders a list, an empty one when no value says S3.
*/}}
{{- define "distrain.env.s3" -}}
{{- $s3 := .Values.s3 -}}
{{- if or $s3.endpoint $s3.secretName (hasPrefix "s3://" .Values.data.uri) (hasPrefix "s3://" .Values.output.uri) -}}
- name: AWS_REGION
  value: {{ $s3.region | quote }}
{{- with $s3.endpoint }}
- name: AWS_ENDPOINT_URL_S3
  value: {{ . | quote }}
{{- end }}
{{- if $s3.insecureTLS }}
- name: DISTRAIN_S3_INSECURE_TLS
  value: "1"
{{- end }}
{{- with $s3.secretName }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $s3.secretName }}
      key: {{ $key }}
      {{- if eq $key "AWS_SESSION_TOKEN" }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end }}
