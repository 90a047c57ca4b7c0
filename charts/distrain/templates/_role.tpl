{{- /*
What the values say of one role's pods. Roles: launcher, worker, server, scheduler, master, chief.

  distrain.role.values     the role's part of the values, with its defaults
  distrain.role.trains     whether the role's pods hold ranks: worker and master
  distrain.role.container  name of the role's first container
*/}}

{{- /*
distrain.role.values
  Takes (dict "root" <root context> "role" <role>).
*/}}
{{- define "distrain.role.values" -}}
{{- $keys := dict "launcher" "launcher" "chief" "launcher" "server" "servers" "scheduler" "scheduler" "keygen" "launcher" -}}
{{- $values := index .root.Values (get $keys .role | default "workers") -}}
{{- $defaults := dict
  "launcher" (dict "cpu" "100m" "memory" "512Mi")
  "chief" (dict "cpu" "100m" "memory" "2Gi")
  "server" (dict "cpu" "1" "memory" "2Gi")
  "scheduler" (dict "cpu" "100m" "memory" "1Gi")
  "keygen" (dict "cpu" "100m" "memory" "128Mi")
-}}
{{- $default := get $defaults .role | default dict -}}
{{- $merged := pick $values "nodeSelector" "tolerations" "affinity" -}}
{{- range $key := list "cpu" "memory" -}}
{{- $value := index $values $key -}}
{{- if or (eq $.role "keygen") (eq $value nil) -}}
{{- $value = get $default $key -}}
{{- end -}}
{{- $_ := set $merged $key (toString ($value | default "")) -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end }}

{{- define "distrain.role.trains" -}}
{{- has .role (list "worker" "master") | ternary "true" "" -}}
{{- end }}

{{- /*
distrain.role.container
  Takes (dict "root" <root context> "role" <role>). The training-operator looks for its own name.
*/}}
{{- define "distrain.role.container" -}}
{{- $names := dict "PyTorchJob" "pytorch" "TFJob" "tensorflow" "MXJob" "mxnet" -}}
{{- get $names (include "distrain.job.kind" .root) | default .role -}}
{{- end }}
