{{- /*
The Job that makes the SSH key of a Plain job.

  distrain.keygen.isNeeded  whether the release has that Job
*/}}

{{- /*
distrain.keygen.isNeeded
  Takes the root context. Renders "true" or nothing. `helm test` uses the release's key.
*/}}
{{- define "distrain.keygen.isNeeded" -}}
{{- if and (eq (include "distrain.job.kind" .) "Plain") (not .Values.ssh.secretName) (not (hasKey . "variant")) -}}
true
{{- end -}}
{{- end }}
