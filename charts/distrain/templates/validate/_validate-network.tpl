{{- /*
Rules on the network.

  distrain.validate.network.policy   if networkPolicy.enabled is true, no pod uses the node's network
  distrain.validate.network.family   network.ipFamilyPolicy is set only if the chart itself creates the Services
  distrain.validate.network.subnets  network.subnets is set only for MPI, and never with network.excludeInterfaces
*/}}

{{- /*
distrain.validate.network.policy
  Kubernetes does not define what a NetworkPolicy means for pods on the node's network. Network plugins do not apply
  policies to such pods, and treat their traffic as traffic of the node. So the policies of the other pods would deny
  that traffic.

  With `enabled: false`, other keys of networkPolicy are allowed: a later values file may turn off the policies that an
  earlier file describes.
*/}}
{{- define "distrain.validate.network.policy" -}}
{{- $policy := .Values.networkPolicy | default dict -}}
{{- if not (hasKey $policy "enabled") -}}
{{- range $key, $_ := $policy -}}
{{- if not (hasPrefix "x-" $key) -}}
{{- printf "distrain: networkPolicy.%s: is set, but networkPolicy.enabled is false, so there is no policy; set networkPolicy.enabled to true, or remove networkPolicy.%s\n" $key $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $policy.enabled -}}
{{- if not $policy.egress -}}
{{- if .Values.trainer.install -}}
{{- "distrain: trainer.install: pip needs its package index, which networkPolicy.enabled blocks; add a rule for it to networkPolicy.egress, or give up one of the two settings\n" -}}
{{- end -}}
{{- if ne (.Values.serviceMesh | default "none") "none" -}}
{{- printf "distrain: serviceMesh: %s: the proxies need the mesh's control plane, which networkPolicy.enabled blocks; add a rule for it to networkPolicy.egress, or give up one of the two settings\n" .Values.serviceMesh -}}
{{- end -}}
{{- end -}}
{{- range $at, $values := .Job.given -}}
{{- if ($values.podSpec | default dict).hostNetwork -}}
{{- printf "distrain: networkPolicy.enabled: is true, but %spodSpec.hostNetwork puts pods on the node's network, which no NetworkPolicy covers; remove one of the two\n" $at -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.network.family" -}}
{{- with .Values.network.ipFamilyPolicy -}}
{{- if not $.Job.isPlain -}}
{{- printf "distrain: network.ipFamilyPolicy: %s is set, but the operator of %s, not the chart, creates its Services; remove it\n" . (include "distrain.text.aVersion" $) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.network.subnets
  MPI ignores network.excludeInterfaces if network.subnets is set, so the rule refuses to set both. The default [lo] of
  network.excludeInterfaces does not count as set.
*/}}
{{- define "distrain.validate.network.subnets" -}}
{{- $network := .Values.network -}}
{{- if and $network.subnets (not .Job.usesMpi) -}}
{{- printf "distrain: network.subnets: is set, but only MPI uses it, and %s has no MPI; remove it, or name the interface in network.interface\n" (include "distrain.text.aKind" .) -}}
{{- end -}}
{{- $excluded := $network.excludeInterfaces | default (list "lo") -}}
{{- if and $network.subnets .Job.usesMpi (ne (toJson $excluded) (list "lo" | toJson)) -}}
{{- "distrain: network.excludeInterfaces: is set, but MPI ignores it when network.subnets is set; --set network.excludeInterfaces=null, or remove network.subnets\n" -}}
{{- end -}}
{{- end }}
