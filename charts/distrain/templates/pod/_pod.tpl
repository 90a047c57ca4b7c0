{{- /*
The pods of every kind and role.

  distrain.pod.template      a role's pod template
  distrain.pod.common        its pod but for containers, volumes and placement
  distrain.pod.container     a container but for name, command, environment, resources and mounts
  distrain.pod.image         the image
  distrain.pod.inRegistry    an image in the registry of global.imageRegistry
  distrain.pod.pullSecrets   the registries' passwords
  distrain.pod.resources     resources of a role's container
  distrain.pod.ports         ports of a role's container
  distrain.pod.sidecars      more containers of the user's
  distrain.pod.grace         seconds from SIGTERM to SIGKILL
  distrain.pod.ranksGrace    seconds of these that ranks have to stop
  distrain.pod.more          more fields of the training pods

A role is (dict "root" <root context> "role" <role> "job" <the job's name>). Nothing here may depend on
workers.replicas: the operators never change a pod that exists.
*/}}

{{- /*
distrain.pod.template
  Takes a role.
*/}}
{{- define "distrain.pod.template" -}}
metadata:
  labels:
    {{- include "distrain.labels.pod" . | nindent 4 }}
  annotations:
    {{- include "distrain.annotations.pod" . | nindent 4 }}
spec:
  {{- include "distrain.pod.common" . | nindent 2 }}
  {{- with include "distrain.placement.all" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "distrain.pod.more" . }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ include "distrain.role.container" . }}
      {{- include "distrain.pod.container" . | nindent 6 }}
      {{- include "distrain.program.command" . | nindent 6 }}
      {{- with include "distrain.env.all" . }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with include "distrain.pod.resources" . }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with include "distrain.pod.ports" . }}
      {{- . | nindent 6 }}
      {{- end }}
      volumeMounts:
        {{- include "distrain.volumes.mounts" . | nindent 8 }}
    {{- if has .role .root.Job.rankRoles }}
    {{- with include "distrain.pod.sidecars" (dict "root" .root "containers" .root.Values.workers.sidecars) }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- end }}
  volumes:
    {{- include "distrain.volumes.all" . | nindent 4 }}
{{- end }}

{{- /*
distrain.pod.common
  Takes a role.

  Only pods that call the API server get a token. The variables that Kubernetes makes of every Service would only add
  to the ranks' environment.
*/}}
{{- define "distrain.pod.common" -}}
{{- $values := .root.Values -}}
automountServiceAccountToken: {{ or (eq .role "keygen") (and .root.Job.usesKubexec (eq .role "launcher")) }}
enableServiceLinks: false
{{- if eq .role "keygen" }}
serviceAccountName: {{ include "distrain.names.keygen" .root | quote }}
{{- else }}
{{- with include "distrain.names.serviceAccount" . }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- end }}
{{- with include "distrain.pod.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  {{- include "distrain.security.pod" .root | nindent 2 }}
{{- end }}

{{- /*
distrain.pod.container
  Takes a role.
*/}}
{{- define "distrain.pod.container" -}}
image: {{ include "distrain.pod.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- include "distrain.security.container" . | nindent 2 }}
{{- end }}

{{- /*
distrain.pod.image
  Takes the root context.
*/}}
{{- define "distrain.pod.image" -}}
{{- $repository := .Values.image.repository | default (printf "distrain/%s" .Values.framework) -}}
{{- $repository = include "distrain.pod.inRegistry" (dict "root" . "image" $repository) -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.inRegistry
  Takes (dict "root" <root context> "image" <image>). global.imageRegistry takes the place of the registry that the image
  names, as in other charts.
*/}}
{{- define "distrain.pod.inRegistry" -}}
{{- $image := .image -}}
{{- with (.root.Values.global | default dict).imageRegistry -}}
{{- $image = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $image "") -}}
{{- end -}}
{{- $image -}}
{{- end }}

{{- /*
distrain.pod.pullSecrets
  Takes the root context. Renders nothing when there are none. global.imagePullSecrets may hold names, or maps with one.
*/}}
{{- define "distrain.pod.pullSecrets" -}}
{{- $names := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.image.pullSecrets | default list) -}}
{{- $names = append $names (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") .) -}}
{{- end -}}
{{- with uniq $names -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.ports
  Takes a role. Renders nothing when there are none. Under hostNetwork a declared port is one of the node's: the scheduler
  then puts no two workers on one node that want the same, of one release or of two.
*/}}
{{- define "distrain.pod.ports" -}}
{{- $ports := list -}}
{{- if has .role .root.Job.rankRoles -}}
{{- if and .root.Job.usesSsh (.root.Values.workers.podSpec | default dict).hostNetwork -}}
{{- $ports = append $ports (dict "name" "ssh" "containerPort" (int .root.Values.ssh.port)) -}}
{{- end -}}
{{- if .root.Values.monitoring.podMonitor -}}
{{- /* By this name the PodMonitor finds it. */ -}}
{{- $ports = append $ports (dict "name" "metrics" "containerPort" (int .root.Values.monitoring.port)) -}}
{{- end -}}
{{- end -}}
{{- with $ports -}}
ports:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.resources
  Takes a role. Renders nothing when there is nothing to ask for.

  GPUs stand under limits alone: Kubernetes copies the limit of an extended resource into the request, and rejects a
  pod whose two figures differ. Memory is requested and limited alike: a pod that uses more than it requested is the
  first to be killed when its node runs short. Only what a worker without GPUs requests by default is no limit, as nobody
  has said what it needs. CPU has no limit: a throttled rank holds up all the others. The user's claims are those of the
  container that trains.
*/}}
{{- define "distrain.pod.resources" -}}
{{- $requests := dict -}}
{{- $limits := dict -}}
{{- with merge (dict "of" "cpu") . | include "distrain.role.request" -}}
{{- $_ := set $requests "cpu" . -}}
{{- end -}}
{{- with merge (dict "of" "memory") . | include "distrain.role.request" -}}
{{- $_ := set $requests "memory" . -}}
{{- if not (and (has $.role $.root.Job.rankRoles) (eq $.root.Values.workers.memory nil)) -}}
{{- $_ := set $limits "memory" . -}}
{{- end -}}
{{- end -}}
{{- if has .role .root.Job.rankRoles -}}
{{- with .root.Values.workers.gpus -}}
{{- $_ := set $limits $.root.Values.workers.gpuResource (int64 .) -}}
{{- end -}}
{{- with .root.Values.network.rdma.resource -}}
{{- $_ := set $limits . (int64 $.root.Values.network.rdma.count) -}}
{{- end -}}
{{- end -}}
{{- $claims := list -}}
{{- if has .role .root.Job.rankRoles -}}
{{- range (.root.Values.workers.podSpec | default dict).resourceClaims -}}
{{- $claims = append $claims (dict "name" .name) -}}
{{- end -}}
{{- end -}}
{{- $resources := dict -}}
{{- range $key, $amounts := dict "requests" $requests "limits" $limits "claims" $claims -}}
{{- if $amounts -}}
{{- $_ := set $resources $key $amounts -}}
{{- end -}}
{{- end -}}
{{- with $resources -}}
resources:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.sidecars
  Takes (dict "root" <root context> "containers" <containers>). Renders a list; the pod's Security Standard asks of
  every container what it asks of the job's own.
*/}}
{{- define "distrain.pod.sidecars" -}}
{{- $containers := list -}}
{{- range .containers -}}
{{- $ours := include "distrain.security.sidecar" $.root | fromYaml -}}
{{- $theirs := deepCopy . -}}
{{- $containers = append $containers (set $theirs "securityContext" (mergeOverwrite $ours (.securityContext | default dict))) -}}
{{- end -}}
{{- with $containers -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.more
  Takes a role. A scheduler for all roles, the user's fields for those that train.
*/}}
{{- define "distrain.pod.more" -}}
{{- $more := dict -}}
{{- if ne .role "keygen" -}}
{{- $_ := set $more "terminationGracePeriodSeconds" (include "distrain.pod.grace" .root | int64) -}}
{{- end -}}
{{- with include "distrain.gang.podScheduler" . -}}
{{- $_ := set $more "schedulerName" . -}}
{{- end -}}
{{- if .root.Job.isPlain -}}
{{- $_ := set $more "restartPolicy" (ternary "OnFailure" "Never" (eq .role "keygen")) -}}
{{- if eq .role "worker" -}}
{{- $_ := set $more "subdomain" .job -}}
{{- end -}}
{{- end -}}
{{- if has .role .root.Job.rankRoles -}}
{{- $theirs := deepCopy (.root.Values.workers.podSpec | default dict) -}}
{{- if and $theirs.hostNetwork (not $theirs.dnsPolicy) -}}
{{- /* Else the pod asks its node for names, which knows none of the cluster's. */}}
{{- $_ := set $theirs "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- with $theirs.initContainers -}}
{{- $_ := set $theirs "initContainers" (include "distrain.pod.sidecars" (dict "root" $.root "containers" .) | fromYamlArray) -}}
{{- end -}}
{{- $more = merge $more (omit $theirs "terminationGracePeriodSeconds") -}}
{{- end -}}
{{- with $more -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.grace, distrain.pod.ranksGrace
  Take the root context. The ranks have what the values give, to stop at a step boundary and save. The pods have 15
  seconds more: 2 until the launcher asks, 10 to end mpirun by force, 3 to end the pod. Of the launcher too, which waits
  for the ranks. `helm uninstall` is over as soon: with the default within a minute, should a pod be ended before it can
  hear of it. 0 is Kubernetes' own: at once.
*/}}
{{- define "distrain.pod.grace" -}}
{{- $ranks := include "distrain.pod.ranksGrace" . | int64 -}}
{{- ternary 0 (add $ranks 15) (eq $ranks 0) -}}
{{- end }}

{{- define "distrain.pod.ranksGrace" -}}
{{- $theirs := (.Values.workers.podSpec | default dict).terminationGracePeriodSeconds -}}
{{- eq $theirs nil | ternary 40 $theirs | int64 -}}
{{- end }}
