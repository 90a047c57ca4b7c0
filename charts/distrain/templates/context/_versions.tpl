{{- /*
The version of the job's kind, such as v1 of MPIJob.

  distrain.versions.known   versions of a kind that the chart can write
  distrain.versions.served  the known versions that the cluster serves
  distrain.versions.chosen  the version that the job gets

Lists are JSON, the newest version first. A kind is one item of the list `kinds` in files/kinds.json (.Kinds.kinds).
*/}}

{{- /*
distrain.versions.known
  Takes a kind.
*/}}
{{- define "distrain.versions.known" -}}
{{- $known := list -}}
{{- range .versions -}}
{{- $known = append $known .name -}}
{{- end -}}
{{- toJson $known -}}
{{- end }}

{{- /*
distrain.versions.served
  Takes (dict "root" <root context> "kind" <a kind>). Without a cluster, Helm knows only the versions that
  --api-versions names.
*/}}
{{- define "distrain.versions.served" -}}
{{- $served := list -}}
{{- range .kind.versions -}}
{{- if $.root.Capabilities.APIVersions.Has (printf "%s/%s/%s" $.kind.group .name $.kind.name) -}}
{{- $served = append $served .name -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end }}

{{- /*
distrain.versions.chosen
  Takes (dict "root" <root context> "known" <list> "served" <list>). If job.apiVersion is `auto`, renders the newest
  version that the cluster serves. If Helm knows of no served version, renders the newest version that the chart can
  write. Empty for Plain.
*/}}
{{- define "distrain.versions.chosen" -}}
{{- $asked := .root.Values.job.apiVersion -}}
{{- eq $asked "auto" | ternary (concat .served .known (list "") | first) $asked -}}
{{- end }}
