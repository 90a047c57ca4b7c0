{{- /*
Rules across several values. Rules on one value are in the schema.

  distrain.validate.all  every rule; ends rendering at the first that is broken

Those on what is trained stand below, those on the job's kind in _validate-job.tpl, those on its pods in
_validate-pod.tpl. Every rule takes the root context and renders nothing. A message names the value, what was found
and the next step.
*/}}

{{- define "distrain.validate.all" -}}
{{- /* null removes a map, and templates look into it. */ -}}
{{- range list (list "workers" "podSpec") (list "mpi" "mca") (list "mpi" "env") -}}
{{- $group := index $.Values (first .) -}}
{{- if not (get $group (last .)) -}}
{{- $_ := set $group (last .) dict -}}
{{- end -}}
{{- end -}}
{{- $rules := list "release" "rbac" -}}
{{- if .Values.job.enabled -}}
{{- $rules = concat $rules (list "kind" "apiVersion" "cluster" "gpus" "replicas" "roles" "runPolicy" "rescale" "gang") -}}
{{- $rules = concat $rules (list "length" "data" "folders" "mpi" "interfaces" "ssh" "security" "volumes" "volumeMounts") -}}
{{- $rules = concat $rules (list "containers" "podSpec" "env" "podMetadata") -}}
{{- $rules = concat $rules (list "podMonitor" "preflight") -}}
{{- end -}}
{{- range $rules -}}
{{- include (printf "distrain.validate.%s" .) $ -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.release
  Helm allows names that mpi-operator does not: it makes host names of them, and then only writes an event.
*/}}
{{- define "distrain.validate.release" -}}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" .Release.Name) -}}
{{- fail (printf "distrain: release name: %q cannot be the host name of a pod; start it with a letter and use only a-z, 0-9 and -" .Release.Name) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.gpus" -}}
{{- $replicas := int .Values.workers.replicas -}}
{{- $each := int .Values.workers.gpus -}}
{{- $product := mul $replicas $each | int -}}
{{- if ne .Values.gpus nil -}}
{{- $gpus := int .Values.gpus -}}
{{- if ne $gpus $product -}}
{{- $mend := printf "--set gpus=%d" $product -}}
{{- if and (gt $each 0) (gt $gpus 0) (eq (mod $gpus (max $each 1) | int) 0) -}}
{{- $mend = printf "--set workers.replicas=%d or %s" (div $gpus $each) $mend -}}
{{- end -}}
{{- fail (printf "distrain: gpus: %d is not workers.replicas * workers.gpus = %d * %d = %d; %s; or leave both out for `helm distrain derive`" $gpus $replicas $each $product $mend) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.length
  The trainer's default for both null is in distrain.trainer.length.
*/}}
{{- define "distrain.validate.length" -}}
{{- $trainer := .Values.trainer -}}
{{- if and $trainer.epochs (eq .Values.data.source "synthetic") (not .Values.command) -}}
{{- fail (printf "distrain: trainer.epochs: %d epochs of data.source synthetic, which has no end; set trainer.steps instead" (int64 $trainer.epochs)) -}}
{{- end -}}
{{- if and $trainer.steps $trainer.epochs -}}
{{- fail (printf "distrain: trainer.steps: %d steps and trainer.epochs: %d epochs are both set; drop one, with --set trainer.steps=null or --set trainer.epochs=null" (int64 $trainer.steps) (int64 $trainer.epochs)) -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.data" -}}
{{- $source := .Values.data.source -}}
{{- $uri := .Values.data.uri -}}
{{- if eq $source "synthetic" -}}
{{- if $uri -}}
{{- fail (printf "distrain: data.uri: %q is set but data.source is synthetic; --set data.source=%s, or leave data.uri empty" $uri (ternary "s3" "volume" (hasPrefix "s3://" $uri))) -}}
{{- end -}}
{{- else if and (not $uri) (not .Values.command) -}}
{{- fail (printf "distrain: data.uri: is empty but data.source is %s; set data.uri to %s" $source (ternary "s3://bucket/prefix" "the folder's absolute path" (eq $source "s3"))) -}}
{{- else if and $uri (ne (eq $source "s3") (hasPrefix "s3://" $uri)) -}}
{{- fail (printf "distrain: data.uri: %q does not fit data.source %s, which takes %s" $uri $source (ternary "s3://bucket/prefix" "a folder's absolute path" (eq $source "s3"))) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.folders
  A folder that is on no volume is on the read-only root file system, or gone with the pod.
*/}}
{{- define "distrain.validate.folders" -}}
{{- range $path, $uri := dict "output.uri" .Values.output.uri "checkpoint.uri" .Values.checkpoint.uri -}}
{{- if hasPrefix "/" $uri -}}
{{- $mounted := false -}}
{{- range $.Values.volumeMounts -}}
{{- if hasPrefix (printf "%s/" (clean .mountPath)) (printf "%s/" (clean $uri)) -}}
{{- $mounted = true -}}
{{- end -}}
{{- end -}}
{{- if not $mounted -}}
{{- fail (printf "distrain: %s: %q lies on no volume and would be lost; mount one there with volumes and volumeMounts, or use s3://bucket/prefix" $path $uri) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.rbac" -}}
{{- $rbac := .Values.rbac -}}
{{- if and (not .Values.job.enabled) (not $rbac.aggregateToKubeflowEdit) -}}
{{- fail "distrain: job.enabled: is false and rbac.aggregateToKubeflowEdit too, so there is nothing to install; set one of them to true" -}}
{{- end -}}
{{- if $rbac.aggregateToKubeflowEdit -}}
{{- if not $rbac.create -}}
{{- fail "distrain: rbac.aggregateToKubeflowEdit: is true but rbac.create is false, which makes no roles; set rbac.create to true" -}}
{{- end -}}
{{- if and (not $rbac.kinds) (not .Values.job.enabled) -}}
{{- fail "distrain: rbac.kinds: is empty and job.enabled is false, so there is no kind to allow; name them, as in --set rbac.kinds={MPIJob}" -}}
{{- end -}}
{{- if and (not $rbac.kinds) (eq (include "distrain.job.kind" .) "Plain") -}}
{{- fail "distrain: rbac.kinds: is empty and job.kind is Plain, which needs no Kubeflow kind; name those to allow, as in --set rbac.kinds={MPIJob}, or set rbac.aggregateToKubeflowEdit to false" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.podMonitor" -}}
{{- $served := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PodMonitor" -}}
{{- if and .Values.monitoring.podMonitor (include "distrain.job.isReal" .) (not $served) -}}
{{- fail "distrain: monitoring.podMonitor: this cluster does not serve PodMonitor v1; install the Prometheus operator (https://prometheus-operator.dev), or set it to false" -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.preflight" -}}
{{- if and .Values.preflight.enabled (not .Values.preflight.serviceAccountName) (not .Values.rbac.create) -}}
{{- fail "distrain: preflight.serviceAccountName: is empty but rbac.create is false; name a ServiceAccount that may list nodes and pods" -}}
{{- end -}}
{{- end }}
