{{- /*
Properties of one role's pods. Roles: launcher, worker, server, scheduler, master, chief, and keygen for the Job that
makes the SSH key.

  distrain.role.request    CPU or memory that the role's pods request
  distrain.role.container  name of the role's first container
*/}}

{{- /*
distrain.role.request
  Takes (dict "root" <root context> "role" <role> "of" <cpu or memory>). Renders nothing if there is no request.

  The values of launcher do not apply to the Job that makes the SSH key. Workers without GPUs get a small default
  request, so that a mistyped workers.replicas cannot put hundreds of pods on one node. If the user's `resources`
  contain a request or limit for CPU, CPU gets no default request here; the same is true for memory.
*/}}
{{- define "distrain.role.request" -}}
{{- $cpu := dict "launcher" "100m" "chief" "100m" "server" "1" "scheduler" "100m" "keygen" "100m" -}}
{{- $memory := dict "launcher" "512Mi" "chief" "2Gi" "server" "2Gi" "scheduler" "1Gi" "keygen" "128Mi" -}}
{{- if not .root.Values.workers.gpus -}}
{{- range $role := list "worker" "master" -}}
{{- $_ := set $cpu $role "100m" -}}
{{- $_ := set $memory $role "256Mi" -}}
{{- end -}}
{{- end -}}
{{- $given := index (get .root.Job.roles .role) .of -}}
{{- $theirs := (get .root.Job.roles .role).resources | default dict -}}
{{- $isTheirs := or (hasKey ($theirs.requests | default dict) .of) (hasKey ($theirs.limits | default dict) .of) -}}
{{- if and (eq $given nil) (not $isTheirs) -}}
{{- $given = get (ternary $cpu $memory (eq .of "cpu")) .role -}}
{{- end -}}
{{- if ne $given nil -}}
{{- include (eq .of "cpu" | ternary "distrain.text.number" "distrain.text.scalar") $given -}}
{{- end -}}
{{- end }}

{{- /*
distrain.role.container
  Takes (dict "root" <root context> "role" <role>).
*/}}
{{- define "distrain.role.container" -}}
{{- .root.Job.facts.container | default .role -}}
{{- end }}
