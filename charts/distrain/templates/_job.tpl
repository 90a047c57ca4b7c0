{{- /*
What the job is, for all templates that ask.

  distrain.job.kind        MPIJob, PyTorchJob, MXJob, TFJob or Plain
  distrain.job.apiVersion  its version, such as v2beta1; nothing for Plain
  distrain.job.versions    the versions of a kind that the chart can write
  distrain.job.served      those of them that the cluster serves; distrain.job.servedOf those of any kind
  distrain.job.isReal      whether a real cluster answers, which `helm template` lacks
  distrain.job.is          whether the job has a property: see there
  distrain.job.slots       ranks per worker
  distrain.job.pods        number of pods that have to run at once
  distrain.job.resource    the job's resources, with the name given
  distrain.job.documents   every resource of the job
  distrain.job.fixed       what a running job cannot take over, as text
  distrain.job.fixedSpec   the part of it in a Kubeflow resource's spec
  distrain.job.runPolicy, distrain.job.restartPolicy  of the training-operator's kinds
  distrain.job.launcherRetries  how often a lost launcher's pod is made anew

All but the resource take the root context. One with the key `variant: test` is the job of `helm test`: see _names.tpl
and _labels.tpl for what differs.
*/}}

{{- /*
distrain.job.kind, distrain.job.apiVersion, distrain.job.is
  Everything asks for them, so what they find is kept in the root context, which all templates share.
*/}}
{{- define "distrain.job.kind" -}}
{{- if not (hasKey . "distrainKind") -}}
{{- $_ := include "distrain.job.newKind" . | set . "distrainKind" -}}
{{- end -}}
{{- .distrainKind -}}
{{- end }}

{{- define "distrain.job.newKind" -}}
{{- $kinds := dict "pytorch" "PyTorchJob" "tensorflow" "MPIJob" "mxnet" "MPIJob" -}}
{{- if eq .Values.strategy "parameter-server" -}}
{{- $kinds = dict "pytorch" "PyTorchJob" "tensorflow" "TFJob" "mxnet" "MXJob" -}}
{{- end -}}
{{- eq .Values.job.kind "auto" | ternary (get $kinds .Values.framework) .Values.job.kind -}}
{{- end }}

{{- /*
distrain.job.versions
  Takes the kind. Renders a list, the newest first; a list of nothing for Plain.
*/}}
{{- define "distrain.job.versions" -}}
{{- $versions := dict "MPIJob" (list "v2beta1" "v1" "v1alpha2") "MXJob" (list "v1" "v1beta1") "PyTorchJob" (list "v1") "TFJob" (list "v1") -}}
{{- get $versions . | default list | toJson -}}
{{- end }}

{{- /*
distrain.job.served, distrain.job.servedOf
  The second takes (dict "root" <root context> "kind" <kind>). Offline it is what --api-versions says, which may be nothing.
*/}}
{{- define "distrain.job.served" -}}
{{- include "distrain.job.servedOf" (dict "root" . "kind" (include "distrain.job.kind" .)) -}}
{{- end }}

{{- define "distrain.job.servedOf" -}}
{{- $served := list -}}
{{- range $version := include "distrain.job.versions" .kind | fromJsonArray -}}
{{- if $.root.Capabilities.APIVersions.Has (printf "kubeflow.org/%s/%s" $version $.kind) -}}
{{- $served = append $served $version -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end }}

{{- /*
distrain.job.isReal
  apiregistration.k8s.io is what every real cluster has and Helm's built-in list lacks.
*/}}
{{- define "distrain.job.isReal" -}}
{{- .Capabilities.APIVersions.Has "apiregistration.k8s.io/v1" | ternary "true" "" -}}
{{- end }}

{{- define "distrain.job.apiVersion" -}}
{{- if not (hasKey . "distrainVersion") -}}
{{- $_ := include "distrain.job.newApiVersion" . | set . "distrainVersion" -}}
{{- end -}}
{{- .distrainVersion -}}
{{- end }}

{{- define "distrain.job.newApiVersion" -}}
{{- if ne .Values.job.apiVersion "auto" -}}
{{- .Values.job.apiVersion -}}
{{- else -}}
{{- $served := include "distrain.job.served" . | fromJsonArray -}}
{{- $known := include "distrain.job.kind" . | include "distrain.job.versions" | fromJsonArray -}}
{{- concat $served $known (list "") | first -}}
{{- end -}}
{{- end }}

{{- /*
distrain.job.is
  Takes the root context as "root" and a property as "a". Renders "true" or nothing.

  mpi               mpirun starts the ranks
  kubexec           it does so with kubectl exec, as the older MPI operators have it
  ssh               it does so through SSH
  elastic           workers may come and go under torchrun
  fixed             they may not, as the environment of the pods tells their number
  queued            Kueue admits it, and ends and queues anew a job whose number of pods has changed
  replaced          another size is another job: the pods' environment tells the size, Kueue or the user wants it so
  trainingOperator  the training-operator's common part runs the pods
*/}}
{{- define "distrain.job.is" -}}
{{- if not (hasKey .root "distrainJobIs") -}}
{{- $_ := include "distrain.job.properties" .root | fromJson | set .root "distrainJobIs" -}}
{{- end -}}
{{- get .root.distrainJobIs .a | ternary "true" "" -}}
{{- end }}

{{- define "distrain.job.properties" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $version := include "distrain.job.apiVersion" . -}}
{{- $elastic := and (eq $kind "PyTorchJob") .Values.job.elastic -}}
{{- $isFixed := and (has $kind (list "MXJob" "TFJob" "PyTorchJob")) (not $elastic) -}}
{{- $kubexec := and (eq $kind "MPIJob") (ne $version "v2beta1") -}}
{{- $queued := eq .Values.gang.scheduler "kueue" -}}
{{- $mode := .Values.rescale.mode -}}
{{- if eq $mode "auto" -}}
{{- $mode = empty .Values.command | ternary "live" "replace" -}}
{{- end -}}
{{- dict
  "mpi" (has $kind (list "MPIJob" "Plain"))
  "kubexec" $kubexec
  "ssh" (and (has $kind (list "MPIJob" "Plain")) (not $kubexec))
  "elastic" $elastic
  "fixed" $isFixed
  "queued" $queued
  "replaced" (or $isFixed $queued (eq $mode "replace"))
  "trainingOperator" (and (eq $version "v1") (ne $kind "Plain"))
  | toJson
-}}
{{- end }}

{{- /*
distrain.job.slots
  One rank per GPU; a worker without GPUs has one rank.
*/}}
{{- define "distrain.job.slots" -}}
{{- max (int .Values.workers.gpus) 1 -}}
{{- end }}

{{- define "distrain.job.pods" -}}
{{- $more := dict "MPIJob" 1 "Plain" 1 "PyTorchJob" 0 "TFJob" 1 "MXJob" 1 -}}
{{- $servers := ternary (.Values.servers.replicas | default 1 | int) 0 (eq .Values.strategy "parameter-server") -}}
{{- add (int .Values.workers.replicas) $servers (get $more (include "distrain.job.kind" .)) -}}
{{- end }}

{{- /*
distrain.job.resource
  Takes (dict "root" <root context> "job" <the job's name>).
*/}}
{{- define "distrain.job.resource" -}}
{{- include (printf "distrain.%s.resource" (include "distrain.job.kind" .root | lower)) . -}}
{{- end }}

{{- define "distrain.job.documents" -}}
{{- $job := dict "root" . "job" (include "distrain.names.job" .) -}}
---
{{ include "distrain.scripts.configmap" $job }}
---
{{ include "distrain.job.resource" $job }}
{{- end }}

{{- /*
distrain.job.fixed
  Operators create a pod once and never change it. They follow sizes, and the training-operator the whole run policy,
  while the job runs; labels and annotations do not touch what is trained. The scripts are left out: their ConfigMap
  changes in place, so that another version of the chart replaces no job. Plain: a Job's pod template is immutable, so
  every field of the pods is in.
*/}}
{{- define "distrain.job.fixed" -}}
{{- $kind := include "distrain.job.kind" . -}}
{{- $resource := include (printf "distrain.%s.fixed" (lower $kind)) (dict "root" . "job" "") | fromJson -}}
{{- $queue := include "distrain.gang.queue" . -}}
{{- toJson (list (include "distrain.job.apiVersion" .) $kind $resource $queue) -}}
{{- end }}

{{- /*
distrain.job.fixedSpec
  Takes (dict "root" <root context> "spec" <spec of a Kubeflow resource, which it changes> "replicas" <key of its roles>).
  Renders JSON.
*/}}
{{- define "distrain.job.fixedSpec" -}}
{{- $spec := .spec -}}
{{- range $role, $replica := get $spec .replicas -}}
{{- $_ := unset $replica.template "metadata" -}}
{{- if not (include "distrain.job.is" (dict "root" $.root "a" "replaced")) -}}
{{- $_ := unset $replica "replicas" -}}
{{- end -}}
{{- end -}}
{{- if include "distrain.job.is" (dict "root" .root "a" "trainingOperator") -}}
{{- $_ := unset $spec "runPolicy" -}}
{{- else -}}
{{- range list $spec ($spec.runPolicy | default dict) -}}
{{- $_ := unset . "cleanPodPolicy" -}}
{{- $_ := unset . "schedulingPolicy" -}}
{{- end -}}
{{- end -}}
{{- $_ := unset $spec "cleanPodPolicy" -}}
{{- toJson $spec -}}
{{- end }}

{{- /*
distrain.job.runPolicy
  Takes the root context. The run policy of the training-operator's kinds.

  Without a backoffLimit: at that limit the operator deletes every pod with its log, whatever cleanPodPolicy says.
*/}}
{{- define "distrain.job.runPolicy" -}}
{{- $job := .Values.job -}}
cleanPodPolicy: {{ $job.cleanPodPolicy }}
{{- with $job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int64 . }}
{{- end }}
{{- with include "distrain.gang.schedulingPolicy" . }}
{{ . }}
{{- end }}
{{- end }}

{{- /*
distrain.job.restartPolicy
  Takes the root context. The restart policy of the training-operator's pods.

  With ExitCode a pod that was killed or deleted (128 and above) is made anew, and one that failed (below) fails the job
  at once and keeps its log. The operator counts neither. What may be tried again is tried inside the pod.
*/}}
{{- define "distrain.job.restartPolicy" -}}
{{- $isMade := and .Values.job.maxRestarts (ne (include "distrain.job.apiVersion" .) "v1beta1") -}}
{{- empty $isMade | ternary "Never" "ExitCode" -}}
{{- end }}

{{- /*
distrain.job.launcherRetries
  Takes the root context. How often a launcher's Job makes another pod.

  For a pod that was deleted or killed. The Job makes one for a run that has failed too, which then ends as the first
  did, but the Job waits longer before each: ten seconds, then twenty, then forty.
*/}}
{{- define "distrain.job.launcherRetries" -}}
{{- min 3 (int64 .Values.job.maxRestarts) -}}
{{- end }}

{{- /*
distrain.job.shown
  Takes (dict "root" <root context> "kind" <kind>). The job's resource when it is of this kind.
*/}}
{{- define "distrain.job.shown" -}}
{{- if and .root.Values.job.enabled (eq (include "distrain.job.kind" .root) .kind) -}}
{{- include "distrain.job.resource" (dict "root" .root "job" (include "distrain.names.job" .root)) -}}
{{- end -}}
{{- end }}
