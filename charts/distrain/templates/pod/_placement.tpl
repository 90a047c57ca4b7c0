{{- /*
Fields that decide on which nodes the pods run.

  distrain.placement.all          nodeSelector, tolerations, affinity and topology spread of a role's pods
  distrain.placement.tolerations  tolerations of a role's pods
  distrain.placement.affinity     affinity of a role's pods

In this file, a role is (dict "root" <root context> "role" <name of the role>).

For a role other than the workers, the topology policy `spread` spreads the role's own pods, and `pack` places them with
the workers.
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
{{- $topology := $values.topology | default dict }}
{{- $more := ($values.podSpec | default dict).topologySpreadConstraints }}
{{- if or (eq ($topology.policy | default "none") "spread") $more }}
topologySpreadConstraints:
  {{- if eq ($topology.policy | default "none") "spread" }}
  - maxSkew: 1
    topologyKey: {{ $topology.key | default "kubernetes.io/hostname" | quote }}
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" ($topology.required | default false) }}
    {{- /*
    By default, a node whose taint keeps the workers away would count as a node with 0 workers, and so distort the
    spread.
    */}}
    nodeTaintsPolicy: Honor
    labelSelector:
      {{- include "distrain.labels.peers" . | nindent 6 }}
  {{- end }}
  {{- with $more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /*
distrain.placement.tolerations
  Renders the user's tolerations, then two tolerations of the chart. The chart's tolerations limit how long a pod stays
  on a node that is unreachable or not ready. The chart adds no toleration for a taint that the user's tolerations
  already cover.
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
  Renders the user's affinity. With the topology policy `pack`, it also renders a pod affinity, which places the role's
  pods near the pods that hold ranks.
*/}}
{{- define "distrain.placement.affinity" -}}
{{- $affinity := (get .root.Job.roles .role).affinity | default dict -}}
{{- $topology := (get .root.Job.roles .role).topology | default dict -}}
{{- if eq ($topology.policy | default "none") "pack" -}}
{{- $affinity = deepCopy $affinity -}}
{{- $near := $affinity.podAffinity | default dict -}}
{{- $term := dict "topologyKey" ($topology.key | default "kubernetes.io/hostname") "labelSelector" (include "distrain.labels.selector" .root | fromYaml) -}}
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
