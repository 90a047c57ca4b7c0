{{- /*
Rules on the containers of each role's pods. These containers come from the role's values and from the top level.

  distrain.validate.containers.nonRoot  no container with runAsNonRoot has the user root
  distrain.validate.containers.mounts   the pods have the volumes that the user's containers mount
  distrain.validate.containers.all      map from a path in the values to the user's container there, for a role's pods
  distrain.validate.containers.at       the list at a path in a map of values

A mistake in a top-level value appears in several roles, so each rule prints the same message only once.
*/}}

{{- /*
distrain.validate.containers.nonRoot
  kubelet refuses to start a container with runAsNonRoot if its user is root. A container's own runAsNonRoot and
  runAsUser override the pod's. If the cluster chooses the user, only kubelet can check this.
*/}}
{{- define "distrain.validate.containers.nonRoot" -}}
{{- $isRoot := eq (include "distrain.security.user" .) "0" -}}
{{- $lines := list -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $section := get $.Kinds.roles $role -}}
{{- $values := get $.Job.roles $role -}}
{{- $main := $values.containerSecurityContext | default dict -}}
{{- $pod := ($values.securityContext | default dict).runAsNonRoot -}}
{{- $key := hasKey $main "runAsNonRoot" | ternary "containerSecurityContext" "securityContext" -}}
{{- $isTold := and $isRoot (hasKey $main "runAsNonRoot" | ternary $main.runAsNonRoot $pod) -}}
{{- if $isTold -}}
{{- $path := include "distrain.roles.path" (dict "root" $ "section" $section "keys" (list $key "runAsNonRoot")) -}}
{{- $why := eq $.Values.runAsUser nil | ternary (printf "podSecurity %s makes the pods' user root" $.Values.podSecurity) "runAsUser is 0, which is root" -}}
{{- $lines = printf "distrain: %s: is true, but %s; --set runAsUser=1000 or another user of the image, or remove it" $path $why | append $lines -}}
{{- end -}}
{{- range $at, $container := include "distrain.validate.containers.all" (dict "root" $ "section" $section) | fromJson -}}
{{- $own := $container.securityContext | default dict -}}
{{- $nonRoot := hasKey $own "runAsNonRoot" | ternary $own.runAsNonRoot $pod -}}
{{- $root := hasKey $own "runAsUser" | ternary (eq (toString $own.runAsUser) "0") $isRoot -}}
{{- if and $nonRoot $root (or (hasKey $own "runAsNonRoot") (hasKey $own "runAsUser") (not $isTold)) -}}
{{- $lines = printf "distrain: %s.securityContext: runAsNonRoot is true, but the container's user is 0, which is root; set runAsUser there to another user, or runAsNonRoot to false" $at | append $lines -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range uniq $lines -}}
{{- print . "\n" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.containers.mounts
  Only the pods that train get the top-level volumes, but all pods get a top-level container. The API server refuses a
  pod with a volumeMount whose volume is missing. The operator of an MPIJob adds volumes of its own to the pods, so the
  user's containers may mount these too.
*/}}
{{- define "distrain.validate.containers.mounts" -}}
{{- $lines := list -}}
{{- range $role, $_ := .Job.facts.roles -}}
{{- $section := get $.Kinds.roles $role -}}
{{- range $at, $container := include "distrain.validate.containers.all" (dict "root" $ "section" $section) | fromJson -}}
{{- with concat ($container.volumeMounts | default list) ($container.volumeDevices | default list) -}}
{{- $names := eq $.Job.kind "MPIJob" | ternary (list "ssh-auth" "mpi-job-config" "mpi-job-kubectl") list -}}
{{- range include "distrain.volumes.all" (dict "root" $ "role" $role "job" $.Job.names.job) | fromYamlArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range . -}}
{{- if not (has .name $names) -}}
{{- $where := hasPrefix (print $section ".") $at | ternary (printf "is not in %s.volumes; add it there" $section) (printf "the pods of %s lack; add it to %s.volumes, or move the container below the roles that have it" $section $section) -}}
{{- $lines = printf "distrain: %s: mounts the volume %q, which %s" $at .name $where | append $lines -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range uniq $lines -}}
{{- print . "\n" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.containers.all
  Takes (dict "root" <root context> "section" <section of the values>). Renders a JSON map, from a container's path in
  the values to the container.
*/}}
{{- define "distrain.validate.containers.all" -}}
{{- $found := dict -}}
{{- $own := index .root.Values .section -}}
{{- $merged := get .root.Job.sections .section -}}
{{- if or $merged.sidecars $merged.initContainers (($merged.podSpec | default dict).initContainers) -}}
{{- range $keys := list (list "sidecars") (list "initContainers") (list "podSpec" "initContainers") -}}
{{- $places := dict -}}
{{- range $at, $values := dict "" $.root.Values (print $.section ".") $own -}}
{{- range $index, $container := include "distrain.validate.containers.at" (dict "values" $values "keys" $keys) | fromJsonArray -}}
{{- $_ := printf "%s%s[%d]" $at (join "." $keys) $index | set $places $container.name -}}
{{- end -}}
{{- end -}}
{{- range include "distrain.validate.containers.at" (dict "values" $merged "keys" $keys) | fromJsonArray -}}
{{- $_ := set $found (get $places .name) . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{- /*
distrain.validate.containers.at
  Takes (dict "values" <a map> "keys" <path in the map>). Renders as JSON the list at the path `keys` of the map
  `values`.
*/}}
{{- define "distrain.validate.containers.at" -}}
{{- $value := .values -}}
{{- range .keys -}}
{{- $value = index ($value | default dict) . -}}
{{- end -}}
{{- $value | default list | toJson -}}
{{- end }}
