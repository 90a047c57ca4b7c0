{{- /*
NetworkPolicies, for a namespace that denies all traffic by default. NetworkPolicies are additive: each policy can only
allow additional traffic.

  distrain.network.isOn      empty unless networkPolicy.enabled is true
  distrain.network.job       spec of the policy for the job's pods
  distrain.network.callers   spec of the policy for pods that call the API server
  distrain.network.pods      label selector of the pods of the given roles
  distrain.network.apiRoles  roles of the job's pods that call the API server, as a JSON list
  distrain.network.s3        egress rules for S3, and for the cloud services from which S3 clients get credentials
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

  - All ports between the job's pods are allowed, because mpirun, NCCL, Gloo and the parameter servers choose their
    ports at run time.

  - DNS uses port 53. But the pods behind OpenShift's DNS Service listen on port 5353, and most network plugins check
    the port of the pod. So the policy allows both ports.

  - Rules for Pods and for the API server contain no IP addresses, because some network plugins ignore rules with IP
    addresses for Pods and for the API server.
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
  Takes (dict "root" <root context> "roles" <roles> "label" <as for distrain.network.pods>). These pods need no DNS,
  because Kubernetes gives them the API server's address in environment variables.
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
  Takes (dict "root" <root context> "roles" <roles> "label" <label with the release's instance, by default
  app.kubernetes.io/instance>). Renders a label selector of the roles' pods.
*/}}
{{- define "distrain.network.pods" -}}
matchLabels:
  app.kubernetes.io/name: distrain
  {{ .label | default "app.kubernetes.io/instance" }}: {{ .root.Job.names.instance | quote }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: {{ toJson .roles }}
{{- end }}

{{- /*
distrain.network.apiRoles
  Takes the root context. A launcher that runs `kubectl exec` calls the API server.
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
  Takes the root context. Renders nothing if no value refers to S3. Without s3.secretName, the S3 client gets its
  credentials from AWS STS, from the node's metadata service (169.254.169.254, or fd00:ec2::254 with IPv6) or from the
  agent of EKS Pod Identity (169.254.170.23 or fd00:ec2::23).
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
    - ipBlock: {cidr: "fd00:ec2::254/128"}
    - ipBlock: {cidr: "fd00:ec2::23/128"}
  ports:
    - {protocol: TCP, port: 80}
{{- end }}
{{- end -}}
{{- end }}
