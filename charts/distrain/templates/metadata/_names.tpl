{{- /*
Names of the release's objects.

A name depends only on the release, the chart's alias, nameOverride and fullnameOverride. Helm deletes and rolls back
only objects of the last revision. If that revision gave the job another name and then failed, Helm would no longer
manage the running job.

  distrain.names.base            prefix of the names of all objects, before it is shortened
  distrain.names.full            the same prefix, shortened so that no object's name is too long
  distrain.names.alias           alias of this chart in an umbrella chart; empty without one
  distrain.names.run             folder of the run below checkpoint.uri and output.uri
  distrain.names.instance        label app.kubernetes.io/instance
  distrain.names.job             name of the job's resource
  distrain.names.identity        name and content hash of the job
  distrain.names.helper          name of an auxiliary object: preflight, test, replace, keygen, api or test-api
  distrain.names.short           short hash of the release's name
  distrain.names.scripts         name of the ConfigMap with the pods' scripts
  distrain.names.trainer         name of the ConfigMap with the trainer, if the chart delivers it
  distrain.names.serviceAccount  ServiceAccount of a role's pods; empty for the namespace's default
  distrain.names.sshSecret       name of the Secret with the SSH key

distrain.context computes the names `short`, `full`, `instance`, `job` and `run` only once. Other templates read these
names from .Job.names.
*/}}

{{- /*
distrain.names.base
  Takes the root context. The name follows the rules of `helm create`, but leaves out the chart's name.

  The alias is part of the name unless an override replaces it: two aliases in one release must not share a name.
*/}}
{{- define "distrain.names.base" -}}
{{- $alias := include "distrain.names.alias" . -}}
{{- $name := .Values.nameOverride | default $alias -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if not $name -}}
{{- .Release.Name -}}
{{- else if and (contains $name .Release.Name) (not $alias) -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.full
  Takes the root context.

  A DNS label has at most 63 characters. A limit of 45 leaves room for the longest pod name, <name>-plain-worker-999,
  because the schema allows at most 1000 workers. The limit also keeps a label's value within 63 characters: a
  StatefulSet gives its pods the label controller-revision-hash, whose value is <name>-worker- and up to 10 more
  characters. A shortened name ends with a hash, so that two releases never get the same name.
*/}}
{{- define "distrain.names.full" -}}
{{- $base := include "distrain.names.base" . -}}
{{- if gt (len $base) 45 -}}
{{- printf "%s-%s" ($base | trunc 36 | trimSuffix "-") .Job.names.short -}}
{{- else -}}
{{- trimSuffix "-" $base -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.alias
  Takes the root context.

  Helm sets .Chart.Name to the alias. Names of objects allow only lower-case letters, digits and dashes. Other
  characters of the alias become dashes, and a hash is added, so that similar aliases get different names.

  An umbrella chart may contain another umbrella chart, which contains this chart. In this case the template uses the
  path of this chart below the outermost chart, such as inner/distrain, instead of the alias. Two inner charts may both
  contain this chart under the same alias, but their paths differ.
*/}}
{{- define "distrain.names.alias" -}}
{{- $path := .Template.BasePath | trimSuffix "/templates" | splitList "/charts/" | rest | join "/" -}}
{{- $own := contains "/" $path | ternary $path .Chart.Name -}}
{{- if ne $own "distrain" -}}
{{- $name := regexReplaceAll "[^a-z0-9-]" (lower $own) "-" | trimAll "-" -}}
{{- if ne $name $own -}}
{{- $name = printf "%s-%s" $name (sha256sum $own | trunc 4) | trimPrefix "-" -}}
{{- end -}}
{{- $name -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.run
  Takes the root context. The folder does not depend on nameOverride and fullnameOverride, so a run that was renamed
  with them still finds its checkpoints. Release names cannot contain a dot, so <release>.<alias> is never the name of
  another release.
*/}}
{{- define "distrain.names.run" -}}
{{- $alias := include "distrain.names.alias" . -}}
{{- .Release.Namespace }}/{{ .Release.Name }}{{ if $alias }}.{{ $alias }}{{ end -}}
{{- end }}

{{- /*
distrain.names.instance
  Takes the root context. Selectors find a job's pods by this label. So each alias of the chart has its own value of the
  label. The pods of `helm test` have another value than the job's pods.
*/}}
{{- define "distrain.names.instance" -}}
{{- $alias := include "distrain.names.alias" . -}}
{{- if hasKey . "variant" -}}
{{- include "distrain.names.helper" (dict "root" . "part" .variant) -}}
{{- else if not $alias -}}
{{- .Release.Name -}}
{{- else if gt (add (len .Release.Name) 1 (len $alias)) 63 -}}
{{- printf "%s.%s" .Release.Name (sha256sum $alias | trunc 8) -}}
{{- else -}}
{{- printf "%s.%s" .Release.Name $alias -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.job
  Takes the root context.

  The name of a Plain job ends with -plain. Without this ending, its Service, Job and Secret would have the same names
  as the objects that mpi-operator creates, and Helm refuses to take over objects that it did not create.
*/}}
{{- define "distrain.names.job" -}}
{{- if hasKey . "variant" -}}
{{- include "distrain.names.helper" (dict "root" . "part" .variant) -}}
{{- else -}}
{{- .Job.names.full }}{{ if .Job.isPlain }}-plain{{ end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.identity
  Takes (dict "root" <root context> "job" <the job's name>). The trainer identifies its job by this text, so a job with
  the same name but different content is another job for the trainer. While the chart computes the content hash, the
  job's name is empty, and the template renders nothing.
*/}}
{{- define "distrain.names.identity" -}}
{{- if .job -}}
{{- printf "%s-%s" .job (include "distrain.hash.content" .root) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.helper
  Takes (dict "root" <root context> "part" <preflight, test, replace or keygen>).

  The name ends with a hash. Without the hash, the test of release run1 would have the same name as a release run1-test.
*/}}
{{- define "distrain.names.helper" -}}
{{- $room := sub 35 (len .part) | int -}}
{{- printf "%s-%s-%s" (.root.Job.names.full | trunc $room | trimSuffix "-") .part .root.Job.names.short -}}
{{- end }}

{{- /*
distrain.names.short
  Takes the root context.
*/}}
{{- define "distrain.names.short" -}}
{{- printf "%s/%s/%s" .Release.Name (include "distrain.names.alias" .) (include "distrain.names.base" .) | sha256sum | trunc 8 -}}
{{- end }}

{{- /*
distrain.names.scripts
  Takes the job's name.
*/}}
{{- define "distrain.names.scripts" -}}
{{- printf "%s-scripts" . -}}
{{- end }}

{{- /*
distrain.names.trainer
  Takes the root context.

  The pods mount this ConfigMap, and its name contains the hash of the trainer's archive. So a new trainer changes the
  pods, and the job is replaced. If an upgrade changed the trainer without replacing the pods, a rank that
  restarts later would run the new code, and the other ranks the old code. `helm test` uses the release's ConfigMap.
*/}}
{{- define "distrain.names.trainer" -}}
{{- printf "%s-trainer-%s" .Job.names.full .Job.archive -}}
{{- end }}

{{- /*
distrain.names.serviceAccount
  Takes (dict "root" <root context> "role" <role>).

  A launcher that runs `kubectl exec` needs the ServiceAccount that the operator creates and binds to a Role.
*/}}
{{- define "distrain.names.serviceAccount" -}}
{{- $own := .root.Values.rbac.create | ternary .root.Job.names.full "" -}}
{{- if and (eq .role "launcher") .root.Job.usesKubexec -}}
{{- $own = "" -}}
{{- end -}}
{{- .root.Values.serviceAccountName | default $own -}}
{{- end }}

{{- /*
distrain.names.sshSecret
  Takes the root context.
*/}}
{{- define "distrain.names.sshSecret" -}}
{{- .Values.ssh.secretName | default (printf "%s-plain-ssh" .Job.names.full) -}}
{{- end }}
