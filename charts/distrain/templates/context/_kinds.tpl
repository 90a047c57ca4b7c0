{{- /*
Facts about the kinds of job, from files/kinds.json. A fact is a name and a value, such as `isElastic: true` for
PyTorchJob. schemas/kinds.yaml explains all facts.

  distrain.kinds.read    sets .Kinds to the content of files/kinds.json
  distrain.kinds.facts   adds the facts about one version of a kind to a map
  distrain.kinds.having  text that lists the kinds and versions with a fact: "job.kind Plain or MPIJob v2beta1"
*/}}

{{- /*
distrain.kinds.read
  Takes the root context. All templates share the root context, so the file is read once.
*/}}
{{- define "distrain.kinds.read" -}}
{{- if not (hasKey . "Kinds") -}}
{{- $_ := .Files.Get "files/kinds.json" | fromJson | set . "Kinds" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.kinds.facts
  Takes (dict "root" <root context> "kind" <one of .Kinds.kinds> "version" <name of a version> "facts" <a map>). Adds
  three groups of facts to the map `facts`: first the operator's, then the kind's, then the version's. If two of
  these groups contain the same fact, the later group's value is used. An unknown version adds no facts.
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
distrain.kinds.having
  Takes (dict "root" <root context> "fact" <name of a fact>). A kind or version is listed if the value of the fact is
  true, or not empty.
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
