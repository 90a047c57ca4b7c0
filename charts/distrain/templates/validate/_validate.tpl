{{- /*
Rules across several values. A rule on one value, such as a minimum, is in values.schema.json.

  distrain.validate.all    checks all rules; fails with one line for each broken rule
  distrain.validate.lines  messages of the given rules, one per line

This file has the rules on the release, the data and the release's other objects. Each file _validate-*.tpl has the
rules on one subject. A rule takes the root context, and renders a line for each mistake: the value's path, the finding,
the next step.
*/}}

{{- define "distrain.validate.all" -}}
{{- include "distrain.context" . -}}
{{- /*
If the user sets one of these maps to null, Helm removes the map. The templates still read the map, so an empty map is
set here.
*/ -}}
{{- range list (list "workers" "podSpec") (list "mpi" "mca") (list "mpi" "env") -}}
{{- $group := index $.Values (first .) -}}
{{- if not (get $group (last .)) -}}
{{- $_ := set $group (last .) dict -}}
{{- end -}}
{{- end -}}
{{- $lines := include "distrain.validate.lines" (dict "root" . "rules" (list "release" "names" "enabled" "rbac" "metadata.common" "metadata.account")) -}}
{{- if .Values.job.enabled -}}
{{- $noKind := include "distrain.validate.kind.name" . -}}
{{- $noKind = $noKind | default (include "distrain.validate.kind.version" .) -}}
{{- $rules := list "worker-count.total" "length" "recipe" "delivery" "data" "s3" "tensorboard" "volumes.folders" "volumes.list" "volumes.mounts" "volumes.caBundle" "pod.sizes" "pod.security" "podMonitor" "preflight" "test" "command.words" -}}
{{- if not $noKind -}}
{{- /* These rules need a valid kind and version. */ -}}
{{- $rules = concat (list "kind.served" "worker-count.elastic" "worker-count.perWorker" "kind.roles" "job.runPolicy" "job.suspend" "job.rescale" "job.gang" "job.managedBy" "mpi.options" "mpi.interfaces" "mpi.ssh" "metrics") $rules -}}
{{- $rules = concat $rules (list "roles.resources" "roles.limits" "roles.devices" "roles.podSpec" "roles.claims" "roles.schedulers" "roles.security" "pod.containers" "containers.nonRoot" "containers.mounts" "pod.env" "pod.metadata" "network.policy" "network.family" "network.subnets" "command.starter") -}}
{{- end -}}
{{- $lines = print $lines $noKind (include "distrain.validate.lines" (dict "root" . "rules" $rules)) -}}
{{- end -}}
{{- with $lines -}}
{{- fail (trim .) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.lines
  Takes (dict "root" <root context> "rules" <names of rules>).
*/}}
{{- define "distrain.validate.lines" -}}
{{- range .rules -}}
{{- include (printf "distrain.validate.%s" .) $.root -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.release
  Helm allows release names that cannot be host names. mpi-operator would report such a name only in an event.
*/}}
{{- define "distrain.validate.release" -}}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" .Release.Name) -}}
{{- printf "distrain: release name: %q cannot be the host name of a pod; start it with a letter and use only a-z, 0-9 and -\n" .Release.Name -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.names
  A release run1 with the nameOverride or alias `plain` would be called run1-plain. That is also the name of the Plain
  job of a release run1.
*/}}
{{- define "distrain.validate.names" -}}
{{- $name := .Values.nameOverride | default (include "distrain.names.alias" .) -}}
{{- if and (regexMatch "(^|-)plain$" $name) (not .Values.fullnameOverride) -}}
{{- printf "distrain: nameOverride: a name that ends in %q can clash with the name of another run of job.kind Plain; set nameOverride to another name\n" $name -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.enabled
  If enabled is false and the umbrella chart has the condition `distrain.enabled`, Helm does not render this chart, so
  this rule does not run.
*/}}
{{- define "distrain.validate.enabled" -}}
{{- if not .Values.enabled -}}
{{- "distrain: enabled: is false, but Helm installs this chart nevertheless; add `condition: distrain.enabled` to its dependency in the umbrella chart, or set enabled to true\n" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.length
  Both values may be null: distrain.trainer.length sets the default.
*/}}
{{- define "distrain.validate.length" -}}
{{- $trainer := .Values.trainer -}}
{{- if and $trainer.epochs (not .Values.data.uri) (not .Values.command) -}}
{{- printf "distrain: trainer.epochs: is %d, but random data has no epochs; set data.uri, or trainer.steps instead\n" (int64 $trainer.epochs) -}}
{{- end -}}
{{- if and $trainer.steps $trainer.epochs -}}
{{- printf "distrain: trainer.steps: %d steps and trainer.epochs: %d epochs are both set; drop one, with --set trainer.steps=null or --set trainer.epochs=null\n" (int64 $trainer.steps) (int64 $trainer.epochs) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.data
  data.uri alone decides which data is read. data.source is left from older versions of the chart, which required it.
*/}}
{{- define "distrain.validate.data" -}}
{{- $uri := .Values.data.uri -}}
{{- $found := "synthetic" -}}
{{- if $uri -}}
{{- $found = ternary "s3" "volume" (hasPrefix "s3://" $uri) -}}
{{- end -}}
{{- $source := .Values.data.source | default $found -}}
{{- if and (ne $source $found) (or $uri (not .Values.command)) -}}
{{- printf "distrain: data.source: is `%s`, but data.uri %q means `%s`; correct data.uri, or set data.source to null\n" $source $uri $found -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.s3
  The pods get the S3 settings only if a value refers to S3, such as s3.endpoint or a URI with s3://. Without such a
  value, s3.region and s3.addressingStyle have no effect, so the rule refuses them.
*/}}
{{- define "distrain.validate.s3" -}}
{{- if and .Values.s3.addressingStyle (not (include "distrain.env.s3" . | fromYamlArray)) -}}
{{- printf "distrain: s3.addressingStyle: is %s, but no value refers to S3; set s3.endpoint or s3.secretName if the program uses S3, or remove s3.addressingStyle\n" .Values.s3.addressingStyle -}}
{{- end -}}
{{- $region := .Values.s3.region -}}
{{- if and (ne $region "us-east-1") (not (include "distrain.env.s3" . | fromYamlArray)) -}}
{{- printf "distrain: s3.region: is %s, but no value refers to S3; set s3.endpoint or s3.secretName if the program uses S3, or remove s3.region\n" $region -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.tensorboard
  If `command` is set, the chart ignores all other values of trainer. But it refuses trainer.tensorboard, because the
  user would look for event files in vain.
*/}}
{{- define "distrain.validate.tensorboard" -}}
{{- if .Values.trainer.tensorboard -}}
{{- if .Values.command -}}
{{- "distrain: trainer.tensorboard: is true, but only the trainer's own programs write event files, and command is set; let your program write event files, and set trainer.tensorboard to false\n" -}}
{{- else if not .Values.output.uri -}}
{{- "distrain: trainer.tensorboard: is true, but output.uri, below which the event files go, is empty; set output.uri, as in s3://bucket/prefix, or set trainer.tensorboard to false\n" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.rbac" -}}
{{- $rbac := .Values.rbac -}}
{{- if and (not .Values.job.enabled) (not $rbac.aggregateToKubeflowEdit) -}}
{{- "distrain: job.enabled: is false, and so is rbac.aggregateToKubeflowEdit, so there is nothing to install; set one of the two to true\n" -}}
{{- end -}}
{{- if $rbac.aggregateToKubeflowEdit -}}
{{- if not $rbac.create -}}
{{- "distrain: rbac.aggregateToKubeflowEdit: is true, but with rbac.create=false the chart creates no roles; set rbac.create to true\n" -}}
{{- end -}}
{{- if and (not $rbac.kinds) (not .Values.job.enabled) -}}
{{- "distrain: rbac.kinds: is empty and job.enabled is false, so there is no kind to grant rights for; name the kinds, as in --set rbac.kinds={MPIJob}\n" -}}
{{- end -}}
{{- if and (not $rbac.kinds) .Job.isPlain -}}
{{- "distrain: rbac.kinds: is empty and job.kind is Plain, which is not a Kubeflow kind; name the kinds to grant rights for, as in --set rbac.kinds={MPIJob}, or set rbac.aggregateToKubeflowEdit to false\n" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.podMonitor" -}}
{{- $served := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PodMonitor" -}}
{{- if and .Values.monitoring.podMonitor .Job.isReal (not $served) -}}
{{- "distrain: monitoring.podMonitor: this cluster does not serve PodMonitor v1; install the Prometheus operator (https://prometheus-operator.dev), or set it to false\n" -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.metrics" -}}
{{- $port := int .Values.monitoring.port -}}
{{- if and .Job.servesMetrics .Job.usesSsh (eq $port (int .Values.ssh.port)) -}}
{{- printf "distrain: monitoring.port: %d is also ssh.port, on which sshd listens in the workers; set one of the two to another port\n" $port -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.preflight" -}}
{{- if and .Values.preflight.enabled (not .Values.preflight.serviceAccountName) (not .Values.rbac.create) -}}
{{- "distrain: preflight.serviceAccountName: is empty but rbac.create is false; name a ServiceAccount that may list nodes and pods\n" -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.test" -}}
{{- $test := .Values.test -}}
{{- with $why := include "distrain.test.missing" . -}}
{{- range $key, $default := dict "workers" nil "timeoutSeconds" 300 -}}
{{- $value := index $test $key -}}
{{- if ne (toString $value) (toString $default) -}}
{{- printf "distrain: test.%s: %d is set, but %s; --set test.%s=%s\n" $key (int64 $value) $why $key (eq $default nil | ternary "null" (toString $default)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
