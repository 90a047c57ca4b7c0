{{- /*
Pods of every kind and role.

  distrain.pod.template     pod template of a role
  distrain.pod.once         fields that do not depend on the job's name, rendered once
  distrain.pod.placed       fields that do not depend on containers and volumes
  distrain.pod.main         first container's image, securityContext and command
  distrain.pod.rest         first container's resources, ports and mounts
  distrain.pod.common       pod fields that do not depend on containers, volumes and placement
  distrain.pod.container    image, pull policy and securityContext of a role's container
  distrain.pod.image        the image
  distrain.pod.inRegistry   an image's name, with its registry replaced by global.imageRegistry
  distrain.pod.pullSecrets  imagePullSecrets
  distrain.pod.ports        ports of a role's container
  distrain.pod.resources    resources of a role's container
  distrain.pod.sidecars     the user's containers, completed with a securityContext
  distrain.pod.first        init containers of a role's pods, native sidecars included
  distrain.pod.userContainer  init container that writes an /etc/passwd with the pod's user
  distrain.pod.more         fields from the user's podSpec, and fields that differ between roles
  distrain.pod.grace        seconds from SIGTERM to SIGKILL of a pod
  distrain.pod.ranksGrace   seconds after SIGTERM within which the ranks must stop

In this file, a role is (dict "root" <root context> "role" <name of the role> "job" <the job's name>). No field of a pod
may depend on workers.replicas: when the number changes, operators create or delete pods, but never change an existing
pod.
*/}}

{{- /*
distrain.pod.template
  Takes a role. An empty job name means that the content hash is being computed. If an operator creates the pods, the
  hash leaves out their labels and annotations, because these do not affect the training. For a Plain job, the hash
  contains the pods' labels and annotations, because a Job's pod template is immutable.
*/}}
{{- define "distrain.pod.template" -}}
{{- if or .job .root.Job.isPlain -}}
metadata:
  labels:
    {{- include "distrain.labels.pod" . | nindent 4 }}
  annotations:
    {{- include "distrain.annotations.pod" . | nindent 4 }}
{{ end -}}
spec:
  {{- include "distrain.pod.once" (dict "part" "placed" "of" .) | nindent 2 }}
  {{- with include "distrain.pod.more" . }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ include "distrain.role.container" . }}
      {{- include "distrain.pod.once" (dict "part" "main" "of" .) | nindent 6 }}
      {{- with include "distrain.env.all" . }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- include "distrain.pod.once" (dict "part" "rest" "of" .) | nindent 6 }}
    {{- with include "distrain.pod.sidecars" (dict "root" .root "containers" (get .root.Job.roles .role).sidecars "native" false) }}
    {{- . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "distrain.volumes.all" . | nindent 4 }}
{{- end }}

{{- /*
distrain.pod.once
  Takes (dict "part" <name> "of" <a role>). The name `placed`, `main` or `rest` selects one of the three templates
  below. Every pod is rendered twice: once for the content hash and once for the job. The parts that do not depend on
  the job's name are kept in .Job.parts for the second rendering.
*/}}
{{- define "distrain.pod.once" -}}
{{- $parts := .of.root.Job.parts -}}
{{- $key := printf "%s %s" .part .of.role -}}
{{- if not (hasKey $parts $key) -}}
{{- $_ := include (printf "distrain.pod.%s" .part) .of | set $parts $key -}}
{{- end -}}
{{- get $parts $key -}}
{{- end }}

{{- /*
distrain.pod.placed, distrain.pod.main, distrain.pod.rest
  Take a role. These templates do not read the job's name.
*/}}
{{- define "distrain.pod.placed" -}}
{{- include "distrain.pod.common" . }}
{{- with include "distrain.placement.all" . | trim }}
{{ . }}
{{- end }}
{{- end }}

{{- define "distrain.pod.main" -}}
{{ include "distrain.pod.container" . }}
{{ include "distrain.program.command" . }}
{{- end }}

{{- define "distrain.pod.rest" -}}
{{- with include "distrain.pod.resources" . }}
{{- . }}
{{ end }}
{{- with include "distrain.pod.ports" . }}
{{- . }}
{{ end -}}
volumeMounts:
  {{- include "distrain.volumes.mounts" . | nindent 2 }}
{{- end }}

{{- /*
distrain.pod.common
  Takes a role.

  Only pods that call the API server get a ServiceAccount token. enableServiceLinks is off, because it would add
  variables for every Service of the namespace to the ranks' environment.
*/}}
{{- define "distrain.pod.common" -}}
automountServiceAccountToken: {{ or (eq .role "keygen") (and .root.Job.usesKubexec (eq .role "launcher")) }}
enableServiceLinks: false
{{- if eq .role "keygen" }}
serviceAccountName: {{ include "distrain.names.helper" (dict "root" .root "part" "keygen") | quote }}
{{- else }}
{{- with include "distrain.names.serviceAccount" . }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- end }}
{{- with include "distrain.pod.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with (get .root.Job.roles .role).priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  {{- include "distrain.security.pod" . | nindent 2 }}
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
  Takes (dict "root" <root context> "image" <image>). As in other charts, global.imageRegistry replaces the registry in
  the image's name.
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
  Takes the root context. Renders nothing if there are no such Secrets. An entry of global.imagePullSecrets is a name,
  or a map with a name.
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
  Takes a role. Renders nothing if the role has no ports. With hostNetwork a declared port is a port of the node: the
  scheduler never places two workers with the same port on one node, even if they belong to different releases.
*/}}
{{- define "distrain.pod.ports" -}}
{{- $ports := list -}}
{{- if has .role .root.Job.rankRoles -}}
{{- if and .root.Job.usesSsh ((get .root.Job.roles .role).podSpec | default dict).hostNetwork -}}
{{- $ports = append $ports (dict "name" "ssh" "containerPort" (int .root.Values.ssh.port)) -}}
{{- end -}}
{{- end -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if and (or $monitoring.podMonitor $monitoring.annotations .root.Job.servesMetrics) (has .role .root.Job.metricsRoles) -}}
{{- /* The PodMonitor finds the port by this name. */ -}}
{{- $ports = append $ports (dict "name" "metrics" "containerPort" (int $monitoring.port)) -}}
{{- end -}}
{{- with $ports -}}
ports:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.resources
  Takes a role. Renders nothing if the container requests nothing.

  - GPUs have only a limit: Kubernetes copies the limit of an extended resource into the request, and rejects a pod
    whose request differs from the limit.

  - Memory has a limit equal to its request, so a worker never uses more memory than it requested. If a node runs short
    of memory, pods that use more than they requested are killed first. Without workers.memory there is no limit,
    because the chart does not know how much memory the workers need.

  - CPU has no limit by default: a throttled rank slows down all other ranks.

  - The user's `resources` are merged over these requests and limits. The container uses the resource claims in
    resources.claims. If resources.claims is not set, the container uses all claims of the pod.
*/}}
{{- define "distrain.pod.resources" -}}
{{- $values := get .root.Job.roles .role -}}
{{- $theirs := $values.resources | default dict -}}
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
{{- if and .root.Values.workers.gpus .root.Values.workers.gpuResource -}}
{{- $_ := int64 .root.Values.workers.gpus | set $limits .root.Values.workers.gpuResource -}}
{{- end -}}
{{- with .root.Values.network.rdma.resource -}}
{{- $_ := set $limits . (int64 $.root.Values.network.rdma.count) -}}
{{- end -}}
{{- end -}}
{{- range $name, $amount := $theirs.requests -}}
{{- $_ := include "distrain.text.quantity" $amount | set $requests $name -}}
{{- end -}}
{{- range $name, $amount := $theirs.limits -}}
{{- $_ := include "distrain.text.quantity" $amount | set $limits $name -}}
{{- end -}}
{{- $claims := $theirs.claims | default list -}}
{{- if not (hasKey $theirs "claims") -}}
{{- range ($values.podSpec | default dict).resourceClaims -}}
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
  Takes (dict "root" <root context> "containers" <containers> "native" <true, false or absent>). Renders a list. If
  "native" is true, the list has only the containers with restartPolicy Always. If "native" is false, the list has only
  the other containers. Each container gets a securityContext, because the Pod Security Standard applies to every
  container of a pod.
*/}}
{{- define "distrain.pod.sidecars" -}}
{{- $containers := list -}}
{{- range .containers -}}
{{- $isNative := eq (.restartPolicy | default "") "Always" -}}
{{- if or (not (hasKey $ "native")) (eq $isNative $.native) -}}
{{- $ours := include "distrain.security.sidecar" $.root | fromYaml -}}
{{- $theirs := deepCopy . -}}
{{- $containers = append $containers (set $theirs "securityContext" (mergeOverwrite $ours (.securityContext | default dict))) -}}
{{- end -}}
{{- end -}}
{{- with $containers -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.first
  Takes a role. Renders a list. Kubernetes runs native sidecars beside the main container and ends them after it. Native
  sidecars come before the other init containers in the list, so that the other init containers can use them.
*/}}
{{- define "distrain.pod.first" -}}
{{- $values := get .root.Job.roles .role -}}
{{- $first := include "distrain.pod.sidecars" (dict "root" .root "containers" $values.sidecars "native" true) | fromYamlArray -}}
{{- if .root.Job.namesUser -}}
{{- $first = prepend $first (include "distrain.pod.userContainer" . | fromYaml) -}}
{{- end -}}
{{- $theirs := concat (($values.podSpec | default dict).initContainers | default list) ($values.initContainers | default list) -}}
{{- with concat $first (include "distrain.pod.sidecars" (dict "root" .root "containers" $theirs) | fromYamlArray) -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.userContainer
  Takes a role. This init container needs requests and limits, because a quota or the QoS class Guaranteed may require
  them. They equal the main container's requests and limits. They do not increase what the pod requests, because the two
  containers never run at the same time.
*/}}
{{- define "distrain.pod.userContainer" -}}
name: distrain-user
{{ include "distrain.pod.container" . }}
command: [/opt/distrain/bin/distrain-user]
args: [/run/distrain/passwd]
{{- $resources := dict -}}
{{- range $key, $amounts := omit ((include "distrain.pod.resources" . | fromYaml).resources | default dict) "claims" -}}
{{- with pick $amounts "cpu" "memory" -}}
{{- $_ := set $resources $key . -}}
{{- end -}}
{{- end -}}
{{- with $resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: scripts, mountPath: /opt/distrain/bin, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: user, mountPath: /run/distrain}
{{- end }}

{{- /*
distrain.pod.more
  Takes a role. The user's podSpec cannot override a field of the chart, because distrain.validate.roles.podSpec refuses
  such values.
*/}}
{{- define "distrain.pod.more" -}}
{{- $values := get .root.Job.roles .role -}}
{{- $more := dict -}}
{{- if ne .role "keygen" -}}
{{- $_ := set $more "terminationGracePeriodSeconds" (include "distrain.pod.grace" .root | int64) -}}
{{- end -}}
{{- range $key := list "runtimeClassName" "schedulerName" -}}
{{- with get $values $key -}}
{{- $_ := set $more $key . -}}
{{- end -}}
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
{{- range $key, $value := $values.podSpec -}}
{{- if not (or (hasKey $more $key) (hasPrefix "x-" $key) (has $key (list "initContainers" "terminationGracePeriodSeconds" "topologySpreadConstraints"))) -}}
{{- $_ := set $more $key $value -}}
{{- end -}}
{{- end -}}
{{- if and $more.hostNetwork (not $more.dnsPolicy) -}}
{{- /*
With hostNetwork, the default dnsPolicy uses the node's DNS, which cannot resolve names of the cluster's Services.
*/}}
{{- $_ := set $more "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- if or .root.Job.namesUser $values.sidecars $values.initContainers ($values.podSpec | default dict).initContainers -}}
{{- with include "distrain.pod.first" . | fromYamlArray -}}
{{- $_ := set $more "initContainers" . -}}
{{- end -}}
{{- end -}}
{{- with $more -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.pod.grace, distrain.pod.ranksGrace
  Take the root context. After SIGTERM, the ranks stop at a step boundary and save a checkpoint;
  workers.podSpec.terminationGracePeriodSeconds is their time limit. The grace period of every pod, including the
  launcher's, is 15 s longer. The launcher needs 2 s to tell the ranks to stop, 10 s to kill mpirun, and 3 s to end the
  pod. With the default of 40 s for the ranks, `helm uninstall` ends every pod within a minute, even a pod that ignores
  SIGTERM. As in Kubernetes, a grace period of 0 ends pods at once.
*/}}
{{- define "distrain.pod.grace" -}}
{{- $ranks := include "distrain.pod.ranksGrace" . | int64 -}}
{{- ternary 0 (add $ranks 15) (eq $ranks 0) -}}
{{- end }}

{{- define "distrain.pod.ranksGrace" -}}
{{- $theirs := (.Job.sections.workers.podSpec | default dict).terminationGracePeriodSeconds -}}
{{- eq $theirs nil | ternary 40 $theirs | int64 -}}
{{- end }}
