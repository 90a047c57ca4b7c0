{{- /*
NetworkPolicies, for a namespace that denies all traffic by default. A policy only adds to what other policies allow.

  distrain.network.isOn      empty unless the values ask for the policies
  distrain.network.job       spec of the policy for the job's pods
  distrain.network.callers   spec of the policy for pods that call the API server
  distrain.network.pods      label selector of the pods of some roles
  distrain.network.apiRoles  roles of the job's pods that call the API server, as a JSON list
  distrain.network.s3        egress rules for S3, and for the credentials of a cloud's role
*/}}

{{- /*
distrain.network.isOn
  Takes the root context.
*/}}
{{- define "distrain.network.isOn" -}}
{{- if and .Values.job.enabled (.Values.networkPolicy | default dict).enabled -}}
true
{{- end -}}
{{- end }}

{{- /*
distrain.network.job
  Takes the root context.

  - Ports between the pods are free: mpirun, NCCL, Gloo and the parameter servers choose theirs.
  - DNS has port 53, and 5353 behind OpenShift's Service: most network plugins see the port of the pod that answers.
  - The rules name no address, as some network plugins know Pods and the API server by other means.
*/}}
{{- define "distrain.network.job" -}}
{{- $policy := .Values.networkPolicy -}}
{{- $monitoring := .Values.monitoring -}}
{{- $peers := include "distrain.network.pods" (dict "root" . "roles" (keys .Job.facts.roles | sortAlpha)) -}}
podSelector:
  {{- $peers | nindent 2 }}
policyTypes: [Ingress, Egress]
ingress:
  - from:
      - podSelector:
          {{- $peers | nindent 10 }}
  {{- if or $monitoring.podMonitor $monitoring.annotations .Job.servesMetrics }}
  - ports:
      - {protocol: TCP, port: {{ int $monitoring.port }}}
  {{- end }}
  {{- with $policy.ingress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
egress:
  - to:
      - podSelector:
          {{- $peers | nindent 10 }}
  - ports:
      {{- range list 53 5353 }}
      - {protocol: UDP, port: {{ . }}}
      - {protocol: TCP, port: {{ . }}}
      {{- end }}
  {{- with include "distrain.network.s3" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $policy.egress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /*
distrain.network.callers
  Takes (dict "root" <root context> "roles" <roles>). These pods find the API server by its address, without DNS.
*/}}
{{- define "distrain.network.callers" -}}
podSelector:
  {{- include "distrain.network.pods" . | nindent 2 }}
policyTypes: [Ingress, Egress]
egress:
  - ports:
      {{- range .root.Values.networkPolicy.apiServerPorts | default (list 443 6443) }}
      - {protocol: TCP, port: {{ int . }}}
      {{- end }}
{{- end }}

{{- /*
distrain.network.pods
  Takes (dict "root" <root context> "roles" <roles>). Renders a label selector of the roles' pods.
*/}}
{{- define "distrain.network.pods" -}}
matchLabels:
  app.kubernetes.io/name: distrain
  app.kubernetes.io/instance: {{ .root.Job.names.instance | quote }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: {{ toJson .roles }}
{{- end }}

{{- /*
distrain.network.apiRoles
  Takes the root context. A launcher that runs `kubectl exec` is one of them.
*/}}
{{- define "distrain.network.apiRoles" -}}
{{- $roles := list -}}
{{- if .Job.usesKubexec -}}
{{- $roles = append $roles "launcher" -}}
{{- end -}}
{{- if .Job.makesKey -}}
{{- $roles = append $roles "keygen" -}}
{{- end -}}
{{- toJson $roles -}}
{{- end }}

{{- /*
distrain.network.s3
  Takes the root context. Empty if no value refers to S3. Without keys, S3's client asks AWS' STS, the metadata service of
  the node, or the agent of EKS Pod Identity for credentials.
*/}}
{{- define "distrain.network.s3" -}}
{{- if include "distrain.env.s3" . | fromJsonArray -}}
{{- $url := urlParse .Values.s3.endpoint -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (eq $url.scheme "http" | ternary "80" "443") -}}
- ports:
    - {protocol: TCP, port: {{ $port }}}
    {{- if and (not .Values.s3.secretName) (ne $port "443") }}
    - {protocol: TCP, port: 443}
    {{- end }}
{{- if not .Values.s3.secretName }}
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
    - ipBlock: {cidr: 169.254.170.23/32}
  ports:
    - {protocol: TCP, port: 80}
{{- end }}
{{- end -}}
{{- end }}
