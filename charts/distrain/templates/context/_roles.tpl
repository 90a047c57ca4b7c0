{{- /*
The values of each role's pods: the role's section of the values, merged over the top-level defaults.

  distrain.roles.section  all values of a section, with the defaults
  distrain.roles.keygen   values of the Job that makes the SSH key, copied from the launcher
  distrain.roles.map      maps, merged by key
  distrain.roles.named    lists, merged by name
  distrain.roles.path     path of a section's value: in the section if it is set there, otherwise at the top level
*/}}

{{- /*
distrain.roles.section
  Takes (dict "values" <all values> "section" <name> "into" <a map>). Adds the role's values to the map `into`.

  - Maps are merged by key. Lists are merged by the names of their items: an item of the role replaces the top-level
    item of the same name. The items of tolerations and envFrom have no names, so the role's items are appended to the
    top-level items. A top-level string applies only to roles that do not set the string themselves.

  - env, volumes and volumeMounts are merged in _env.tpl and _volumes.tpl instead, because some roles do not get the
    top-level env, volumes and volumeMounts.
*/}}
{{- define "distrain.roles.section" -}}
{{- $into := .into -}}
{{- $top := .values -}}
{{- $own := index .values .section -}}
{{- range $key, $value := $own -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- range $key, $default := dict "nodeSelector" $top.nodeSelector "affinity" $top.affinity "securityContext" $top.securityContext "containerSecurityContext" $top.containerSecurityContext "podSpec" $top.podSpec "labels" $top.podLabels "annotations" $top.podAnnotations -}}
{{- if $default -}}
{{- include "distrain.roles.map" (dict "parts" (list $default (index $own $key)) "key" $key "into" $into) -}}
{{- end -}}
{{- end -}}
{{- range $key, $default := dict "tolerations" $top.tolerations "envFrom" $top.envFrom -}}
{{- if $default -}}
{{- $_ := get $own $key | default list | concat $default | uniq | set $into $key -}}
{{- end -}}
{{- end -}}
{{- range $key, $default := dict "sidecars" $top.sidecars "initContainers" $top.initContainers -}}
{{- if $default -}}
{{- include "distrain.roles.named" (dict "parts" (list $default (index $own $key)) "by" "name" "key" $key "into" $into) -}}
{{- end -}}
{{- end -}}
{{- range $key, $default := dict "priorityClassName" $top.priorityClassName "runtimeClassName" $top.runtimeClassName "schedulerName" $top.schedulerName -}}
{{- $isInPodSpec := hasKey ($own.podSpec | default dict) $key -}}
{{- if and $default (eq (index $own $key) nil) (not $isInPodSpec) -}}
{{- $_ := set $into $key $default -}}
{{- end -}}
{{- /* A role's own value, even an empty string, overrides the field of the same name in the top-level podSpec. */ -}}
{{- if and (ne (index $own $key) nil) (hasKey ($top.podSpec | default dict) $key) (not $isInPodSpec) -}}
{{- $_ := omit $into.podSpec $key | set $into "podSpec" -}}
{{- end -}}
{{- end -}}
{{- with $top.resources -}}
{{- $resources := dict -}}
{{- range $key := list "requests" "limits" -}}
{{- $default := index $top.resources $key | default dict -}}
{{- /* A role's own cpu and memory override the top-level requests and limits. */ -}}
{{- if and (ne $own.cpu nil) (eq $key "requests") -}}
{{- $default = omit $default "cpu" -}}
{{- end -}}
{{- if ne $own.memory nil -}}
{{- $default = omit $default "memory" -}}
{{- end -}}
{{- include "distrain.roles.map" (dict "parts" (list $default (index ($own.resources | default dict) $key)) "key" $key "into" $resources) -}}
{{- end -}}
{{- range list $top.resources ($own.resources | default dict) -}}
{{- if ne .claims nil -}}
{{- $_ := set $resources "claims" .claims -}}
{{- end -}}
{{- end -}}
{{- $_ := set $into "resources" $resources -}}
{{- end -}}
{{- end }}

{{- /*
distrain.roles.keygen
  Takes (dict "values" <all values> "launcher" <values of the launcher> "into" <a map>). Adds the values of the Job that
  makes the SSH key to the map `into`. The launcher cannot start before this Job has stored the key. So the Job gets the
  launcher's placement, priority and security context: it can run wherever the launcher can.
*/}}
{{- define "distrain.roles.keygen" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "securityContext" "priorityClassName" "runtimeClassName" -}}
{{- $_ := get $.launcher $key | set $.into $key -}}
{{- end -}}
{{- /* A quota on CPU limits refuses a pod without a CPU limit. */ -}}
{{- with ((.values.resources | default dict).limits | default dict).cpu -}}
{{- $_ := dict "requests" (dict "cpu" "100m") "limits" (dict "cpu" .) | set $.into "resources" -}}
{{- end -}}
{{- $_ := set .into "labels" .values.podLabels -}}
{{- $_ := set .into "annotations" .values.podAnnotations -}}
{{- end }}

{{- /*
distrain.roles.map
  Takes (dict "parts" <maps or null> "key" <key> "into" <a map>). Merges the parts, and stores the result as `key` in
  the map `into`. A later part overrides an earlier one; a null removes its key from the result.
*/}}
{{- define "distrain.roles.map" -}}
{{- $merged := dict -}}
{{- range .parts -}}
{{- range $name, $value := . -}}
{{- if eq $value nil -}}
{{- $_ := unset $merged $name -}}
{{- else -}}
{{- $_ := set $merged $name $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set .into .key $merged -}}
{{- end }}

{{- /*
distrain.roles.named
  Takes (dict "parts" <lists or null> "by" <key> "key" <key> "into" <a map>). Merges the lists in `parts`, and stores
  the result as `key` in the map `into`. `by` is the key that contains an item's name: `name`, or `mountPath` for
  volumeMounts. An item replaces the item of the same name from an earlier list.
*/}}
{{- define "distrain.roles.named" -}}
{{- $by := .by -}}
{{- $items := list -}}
{{- range $part := .parts -}}
{{- $names := list -}}
{{- range $part -}}
{{- $names = append $names (get . $by) -}}
{{- end -}}
{{- $kept := list -}}
{{- range $items -}}
{{- if not (has (get . $by) $names) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- $items = concat $kept ($part | default list) -}}
{{- end -}}
{{- $_ := set .into .key $items -}}
{{- end }}

{{- /*
distrain.roles.path
  Takes (dict "root" <root context> "section" <name> "keys" <path in the section>). Renders the path at which the value
  is set: `workers.podSpec.x` if the section itself sets it, otherwise `podSpec.x`, the top-level default.
*/}}
{{- define "distrain.roles.path" -}}
{{- $values := index .root.Values .section -}}
{{- range initial .keys -}}
{{- $values = index ($values | default dict) . | default dict -}}
{{- end -}}
{{- hasKey $values (last .keys) | ternary (print .section ".") "" -}}
{{- join "." .keys -}}
{{- end }}
