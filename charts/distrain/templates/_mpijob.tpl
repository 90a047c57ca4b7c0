{{- /*
The MPIJob's specification, a part of its own because the job's name is a hash over it.

  distrain.mpijob.spec   spec of the MPIJob
  distrain.mpijob.fixed  what a running MPIJob cannot take over, as text
*/}}

{{- /*
distrain.mpijob.spec
  Takes (dict "root" <root context> "job" <the job's name>).

  Nothing here may depend on workers.replicas but Worker.replicas.
*/}}
{{- define "distrain.mpijob.spec" -}}
{{- $values := .root.Values -}}
{{- $launcher := dict "root" .root "role" "launcher" "job" .job -}}
{{- $worker := dict "root" .root "role" "worker" "job" .job -}}
mpiImplementation: OpenMPI
slotsPerWorker: {{ include "distrain.mpi.slots" .root }}
sshAuthMountPath: {{ include "distrain.mpi.sshFolder" .root }}
{{- /* distrain-launch waits for the workers; the other policy deadlocks with a scheduler that wants all pods at once. */}}
launcherCreationPolicy: AtStartup
runPolicy:
  cleanPodPolicy: {{ $values.job.cleanPodPolicy }}
  backoffLimit: {{ int $values.job.backoffLimit }}
  {{- with $values.job.activeDeadlineSeconds }}
  activeDeadlineSeconds: {{ int64 . }}
  {{- end }}
mpiReplicaSpecs:
  Launcher:
    replicas: 1
    {{- /* Never: another try is another pod, counted by backoffLimit, and the failed one's log stays. */}}
    restartPolicy: Never
    template:
      metadata:
        labels:
          {{- include "distrain.labels.pod" $launcher | nindent 10 }}
        annotations:
          {{- include "distrain.annotations.pod" .root | nindent 10 }}
      spec:
        {{- include "distrain.pod.common" .root | nindent 8 }}
        containers:
          - name: launcher
            {{- include "distrain.pod.container" .root | nindent 12 }}
            command: [/opt/distrain/bin/distrain-launch]
            args:
              {{- include "distrain.mpi.launcherArgs" .root | nindent 14 }}
            {{- with include "distrain.env.all" .root }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with include "distrain.pod.resources" (pick $values.launcher "cpu" "memory") }}
            {{- . | nindent 12 }}
            {{- end }}
            volumeMounts:
              {{- include "distrain.pod.volumeMounts" $launcher | nindent 14 }}
        volumes:
          {{- include "distrain.pod.volumes" $launcher | nindent 10 }}
  Worker:
    replicas: {{ int $values.workers.replicas }}
    {{- /* OnFailure: a worker that crashed is there again for the launcher's next try. */}}
    restartPolicy: OnFailure
    template:
      metadata:
        labels:
          {{- include "distrain.labels.pod" $worker | nindent 10 }}
        annotations:
          {{- include "distrain.annotations.pod" .root | nindent 10 }}
      spec:
        {{- include "distrain.pod.common" .root | nindent 8 }}
        {{- range $key := list "nodeSelector" "tolerations" "affinity" }}
        {{- with index $values.workers $key }}
        {{- dict $key . | toYaml | nindent 8 }}
        {{- end }}
        {{- end }}
        containers:
          - name: worker
            {{- include "distrain.pod.container" .root | nindent 12 }}
            command: [/opt/distrain/bin/distrain-worker]
            args:
              {{- include "distrain.mpi.workerArgs" .root | nindent 14 }}
            {{- with include "distrain.env.all" .root }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with include "distrain.pod.resources" (pick $values.workers "cpu" "memory" "gpus" "gpuResource") }}
            {{- . | nindent 12 }}
            {{- end }}
            volumeMounts:
              {{- include "distrain.pod.volumeMounts" $worker | nindent 14 }}
        volumes:
          {{- include "distrain.pod.volumes" $worker | nindent 10 }}
{{- end }}

{{- /*
distrain.mpijob.fixed
  Takes the root context.

  mpi-operator creates the launcher once and never changes a pod. It follows Worker.replicas and cleanPodPolicy while
  the job runs; labels and annotations do not touch what is trained. The release's name is in, as the job's name may
  hold only a part of it.
*/}}
{{- define "distrain.mpijob.fixed" -}}
{{- $spec := include "distrain.mpijob.spec" (dict "root" . "job" "") | fromYaml -}}
{{- range $role := $spec.mpiReplicaSpecs -}}
{{- $_ := unset $role.template "metadata" -}}
{{- end -}}
{{- $_ := unset $spec.mpiReplicaSpecs.Worker "replicas" -}}
{{- $_ := unset $spec.runPolicy "cleanPodPolicy" -}}
{{- $scripts := list (.Files.Get "files/distrain-launch") (.Files.Get "files/distrain-worker") -}}
{{- toJson (list .Release.Name $spec $scripts) -}}
{{- end }}
