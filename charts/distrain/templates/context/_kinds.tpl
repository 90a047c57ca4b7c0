{{- /*
What each kind of job is: files/kinds.yaml, for every template that asks. The facts are explained there.

  distrain.kinds.read    sets .Kinds to the content of the file
  distrain.kinds.facts   the facts of a kind in one of its versions
  distrain.kinds.served  the versions of a kind that the cluster serves
  distrain.kinds.having  the kinds and versions that have a fact, in words
*/}}

{{- /*
distrain.kinds.read
  Takes the root context, to which it adds the content under "Kinds". All templates share that context.
*/}}
{{- define "distrain.kinds.read" -}}
{{- if not (hasKey . "Kinds") -}}
{{- $_ := .Files.Get "files/kinds.yaml" | fromYaml | set . "Kinds" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.kinds.facts
  Takes (dict "root" <root context> "kind" <one of .Kinds.kinds> "version" <name of a version; any other text for none>
  "facts" <the map that it fills>).
*/}}
{{- define "distrain.kinds.facts" -}}
{{- $version := dict -}}
{{- range .kind.versions -}}
{{- if eq .name $.version -}}
{{- $version = . -}}
{{- end -}}
{{- end -}}
{{- $operator := get .root.Kinds.operators ($version.operators | default (list "") | first) | default dict -}}
{{- range list $operator .kind $version -}}
{{- range $fact, $value := . -}}
{{- $_ := set $.facts $fact $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.kinds.served
  Takes (dict "root" <root context> "kind" <one of .Kinds.kinds>). Renders a list, the newest first. Without a cluster it
  has what --api-versions names, which may be nothing.
*/}}
{{- define "distrain.kinds.served" -}}
{{- $served := list -}}
{{- range .kind.versions -}}
{{- if $.root.Capabilities.APIVersions.Has (printf "%s/%s/%s" $.kind.group .name $.kind.name) -}}
{{- $served = append $served .name -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end }}

{{- /*
distrain.kinds.having
  Takes (dict "root" <root context> "fact" <name of a fact>).
*/}}
{{- define "distrain.kinds.having" -}}
{{- $words := list -}}
{{- range $kind := .root.Kinds.kinds -}}
{{- if get $kind $.fact -}}
{{- $words = append $words (printf "job.kind %s" $kind.name) -}}
{{- end -}}
{{- range $kind.versions -}}
{{- if get . $.fact -}}
{{- $words = append $words (printf "%s %s" $kind.name .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join " or " $words -}}
{{- end }}
