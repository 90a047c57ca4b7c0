{{- /*
Names of the job's resources.

  distrain.names.instance        the release, or <release>-test for the job of `helm test`
  distrain.names.job             name of the job resource
  distrain.names.hash            the hash that it ends in
  distrain.names.scripts         name of the ConfigMap that holds the scripts of the pods
  distrain.names.serviceAccount  ServiceAccount of one role's pods; nothing is the namespace's default
  distrain.names.keygen          name of the ServiceAccount and Role of the Job that makes the SSH key
  distrain.names.sshSecret       name of the Secret that holds it
*/}}

{{- define "distrain.names.instance" -}}
{{- .Release.Name -}}{{ if hasKey . "variant" }}-{{ .variant }}{{ end -}}
{{- end }}

{{- /*
distrain.names.job
  Takes the root context. Renders <release>-<hash>.

  The hash stands for all that a running job cannot take over: another image makes another job, more workers do not.
  The release name is cut so that the longest name made of the job's, for the most workers that the schema allows, has
  the 63 characters of a DNS label: <job>-worker-999, of an MXJob <job>-scheduler-0; the StatefulSet of an MPIJob
  v1alpha2 adds 11 characters to <job>-worker in a label of its pods.

  The hash takes a rendering of the whole job, so it is kept in the root context, which all templates share. The job of
  `helm test` has the run's.
*/}}
{{- define "distrain.names.job" -}}
{{- $kind := printf "%s %s" (include "distrain.job.kind" .) (include "distrain.job.apiVersion" .) -}}
{{- $cut := 43 -}}
{{- if hasPrefix "MXJob" $kind -}}
{{- $cut = 42 -}}
{{- else if eq $kind "MPIJob v1alpha2" -}}
{{- $cut = 36 -}}
{{- end -}}
{{- $variant := "" -}}
{{- if hasKey . "variant" -}}
{{- $variant = printf "-%s" .variant -}}
{{- end -}}
{{- printf "%s%s-%s" (.Release.Name | trunc (sub $cut (len $variant) | int) | trimSuffix "-") $variant (include "distrain.names.hash" .) -}}
{{- end }}

{{- define "distrain.names.hash" -}}
{{- if not (hasKey . "distrainHash") -}}
{{- $_ := include "distrain.job.fixed" . | sha256sum | trunc 8 | set . "distrainHash" -}}
{{- end -}}
{{- .distrainHash -}}
{{- end }}

{{- /*
distrain.names.scripts
  Takes the job's name. Its hash covers the scripts, so a running pod never sees another version of them.
*/}}
{{- define "distrain.names.scripts" -}}
{{- printf "%s-scripts" . -}}
{{- end }}

{{- /*
distrain.names.serviceAccount
  Takes (dict "root" <root context> "role" <role>).

  The launcher that starts its ranks with kubectl needs the account that its operator makes, and binds to a Role.
*/}}
{{- define "distrain.names.serviceAccount" -}}
{{- $own := .root.Values.rbac.create | ternary .root.Release.Name "" -}}
{{- if and (eq .role "launcher") (include "distrain.job.is" (dict "root" .root "a" "kubexec")) -}}
{{- $own = "" -}}
{{- end -}}
{{- .root.Values.serviceAccountName | default $own -}}
{{- end }}

{{- define "distrain.names.keygen" -}}
{{- printf "%s-keygen" .Release.Name -}}
{{- end }}

{{- define "distrain.names.sshSecret" -}}
{{- .Values.ssh.secretName | default (printf "%s-ssh" .Release.Name) -}}
{{- end }}
