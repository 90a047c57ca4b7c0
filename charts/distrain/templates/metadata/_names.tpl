{{- /*
Names of the release's objects. None depends on a value, the job's size or the chart's version, except nameOverride and
fullnameOverride: Helm deletes and rolls back only the names of the last revision, so a name that changed with a revision
that was refused would leave the running job to nobody. distrain.context makes short, full, instance, job and run once:
templates take these from .Job.names.

  distrain.names.base            what all names begin with, uncut
  distrain.names.full            the same, short enough for every object's name
  distrain.names.alias           the alias of this chart in an umbrella chart, or its place far below; else nothing
  distrain.names.run             the run's own folder below checkpoint.uri and output.uri
  distrain.names.instance        label app.kubernetes.io/instance
  distrain.names.job             name of the job resource
  distrain.names.identity        what tells one content of the job from another
  distrain.names.hash            short hash of the job's content
  distrain.names.helper          name of what is not the job's own: preflight, test, replace, keygen
  distrain.names.short           a short hash of the release's name
  distrain.names.scripts         name of the ConfigMap that holds the scripts of the pods
  distrain.names.serviceAccount  ServiceAccount of one role's pods; nothing is the namespace's default
  distrain.names.keygen          name of the ServiceAccount and Role of the Job that makes the SSH key
  distrain.names.sshSecret       name of the Secret that holds the SSH key
*/}}

{{- /*
distrain.names.base
  Takes the root context. The rules of `helm create`, except that the chart's own name is left out.

  An alias is part of it unless an override takes its place: two aliases of one release must not share a name.
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

  45 characters leave room for the longest name that is made of it, for the most workers that the schema allows, in the
  63 characters of a DNS label: <name>-plain-worker-999. The StatefulSet that an operator makes of workers adds 11
  characters to <name>-worker in a label of its pods. Where a name is cut, a hash keeps two releases apart.
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
  Takes the root context. Helm gives a chart that has an alias the alias as its name. Names of objects take lower case,
  digits and dashes alone; a hash keeps apart aliases that are alike in those. Below a chart that is itself below another,
  the names of all charts but the first stand for the alias: two such charts may each have this one.
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
  Takes the root context. The overrides of names are not in it: a run that is renamed goes on from its checkpoints. No
  release's name can have the dot.
*/}}
{{- define "distrain.names.run" -}}
{{- $alias := include "distrain.names.alias" . -}}
{{- .Release.Namespace }}/{{ .Release.Name }}{{ if $alias }}.{{ $alias }}{{ end -}}
{{- end }}

{{- /*
distrain.names.instance
  Takes the root context. By this label pods find each other: those of `helm test` and of another alias must not match.
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

  Plain's name has an end of its own, because mpi-operator makes a Service, a Job and a Secret of the names that Plain
  would use: Helm refuses to take over objects that it did not make.
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
  Takes (dict "root" <root context> "job" <the job's name>). The trainer knows its job by it: a job of the same name and
  another content is another job. Renders nothing without a name, while the hash itself is made.
*/}}
{{- define "distrain.names.identity" -}}
{{- if .job -}}
{{- printf "%s-%s" .job (include "distrain.names.hash" .root) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.names.hash
  Takes the root context. It takes a rendering of the whole job, so it is kept in .Job. The job of `helm test` has the
  run's.
*/}}
{{- define "distrain.names.hash" -}}
{{- if not .Job.hash -}}
{{- $_ := include "distrain.job.fixed" . | sha256sum | trunc 8 | set .Job "hash" -}}
{{- end -}}
{{- .Job.hash -}}
{{- end }}

{{- /*
distrain.names.helper
  Takes (dict "root" <root context> "part" <preflight, test, replace or keygen>).

  The hash keeps it apart from every object of another release: run1's test is not release run1-test.
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
distrain.names.serviceAccount
  Takes (dict "root" <root context> "role" <role>).

  The launcher that starts its ranks with kubectl needs the account that its operator makes, and binds to a Role.
*/}}
{{- define "distrain.names.serviceAccount" -}}
{{- $own := .root.Values.rbac.create | ternary .root.Job.names.full "" -}}
{{- if and (eq .role "launcher") .root.Job.usesKubexec -}}
{{- $own = "" -}}
{{- end -}}
{{- .root.Values.serviceAccountName | default $own -}}
{{- end }}

{{- define "distrain.names.keygen" -}}
{{- include "distrain.names.helper" (dict "root" . "part" "keygen") -}}
{{- end }}

{{- define "distrain.names.sshSecret" -}}
{{- .Values.ssh.secretName | default (printf "%s-plain-ssh" .Job.names.full) -}}
{{- end }}
