{{- /*
Where the pods may stand.

  distrain.placement.all          nodeSelector, tolerations, affinity and spread of a role's pods
  distrain.placement.tolerations  its tolerations
  distrain.placement.affinity     its affinity

A role is (dict "root" <root context> "role" <role>).
*/}}

{{- define "distrain.placement.all" -}}
{{- $values := get .root.Job.roles .role -}}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "distrain.placement.tolerations" . }}
tolerations:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "distrain.placement.affinity" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- $topology := .root.Values.workers.topology }}
{{- if and (eq $topology.policy "spread") (has .role .root.Job.rankRoles) }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $topology.key | quote }}
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" $topology.required }}
    {{- /* A node with a taint that keeps the workers away must not count as one that has none yet. */}}
    nodeTaintsPolicy: Honor
    labelSelector:
      {{- include "distrain.labels.selector" .root | nindent 6 }}
{{- end }}
{{- end }}

{{- /*
distrain.placement.tolerations
  The user's, then how long a pod stays on a node that is lost; a taint that the user tolerates is his to limit.
*/}}
{{- define "distrain.placement.tolerations" -}}
{{- $tolerations := (get .root.Job.roles .role).tolerations | default list -}}
{{- $covered := dict -}}
{{- range $tolerations -}}
{{- if has (.effect | default "NoExecute") (list "NoExecute") -}}
{{- $_ := set $covered (.key | default "all") true -}}
{{- end -}}
{{- end -}}
{{- $seconds := .root.Values.workers.evictAfterSeconds -}}
{{- if and (ne $seconds nil) (not $covered.all) -}}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- if not (hasKey $covered $key) -}}
{{- $toleration := dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" (int64 $seconds) -}}
{{- $tolerations = append $tolerations $toleration -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $tolerations -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- /*
distrain.placement.affinity
  The user's, and beside it the term that packs the workers.
*/}}
{{- define "distrain.placement.affinity" -}}
{{- $affinity := (get .root.Job.roles .role).affinity | default dict -}}
{{- $topology := .root.Values.workers.topology -}}
{{- if and (eq $topology.policy "pack") (has .role .root.Job.rankRoles) -}}
{{- $affinity = deepCopy $affinity -}}
{{- $near := $affinity.podAffinity | default dict -}}
{{- $term := dict "topologyKey" $topology.key "labelSelector" (include "distrain.labels.selector" .root | fromYaml) -}}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- if not $topology.required -}}
{{- $key = "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $term = dict "weight" 100 "podAffinityTerm" $term -}}
{{- end -}}
{{- $_ := set $near $key (append (get $near $key | default list) $term) -}}
{{- $_ := set $affinity "podAffinity" $near -}}
{{- end -}}
{{- with $affinity -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}
