{{- /*
Names of the job's resources.

  distrain.names.job      name of the job resource
  distrain.names.scripts  name of the ConfigMap that holds distrain-launch and distrain-worker
*/}}

{{- /*
distrain.names.job
  Takes the root context. Renders <release>-<hash>.

  The hash stands for all that a running job cannot take over: another image makes another job, more workers do not.
  The release name is cut to 43 characters, so that <job>-worker-999, the last that the schema allows, is a DNS label
  of 63: the cut must not depend on the size.
*/}}
{{- define "distrain.names.job" -}}
{{- $fixed := include "distrain.mpijob.fixed" . -}}
{{- printf "%s-%s" (.Release.Name | trunc 43 | trimSuffix "-") ($fixed | sha256sum | trunc 8) -}}
{{- end }}

{{- /*
distrain.names.scripts
  Takes the job's name. Its hash covers the scripts, so a running pod never sees another version of them.
*/}}
{{- define "distrain.names.scripts" -}}
{{- printf "%s-scripts" . -}}
{{- end }}
