{{- /*
Whether a service mesh adds its proxy to the pods.

  distrain.mesh.injects   true if the mesh's proxy is to be in a role's pods, else false
  distrain.mesh.isMarked  empty if a role's pods have no label or annotation for Linkerd and Istio's ambient mode
*/}}

{{- /*
distrain.mesh.injects
  Takes (dict "root" <root context> "role" <role> "mesh" <istio or linkerd>). The pods of hooks and the pod that makes
  the SSH key only call the API server, which is in no mesh.
*/}}
{{- define "distrain.mesh.injects" -}}
{{- and (eq (.root.Values.serviceMesh | default "none") .mesh) (hasKey (.root.Job.facts.roles | default dict) .role) -}}
{{- end }}

{{- /*
distrain.mesh.isMarked
  Takes (dict "root" <root context> "role" <role>).

  Older versions of the chart had neither the label nor the annotation. Where Kubernetes makes the workers from a Job or a
  StatefulSet, both are rendered only if the values say what they are to be: a Job's pod template is immutable, and a
  StatefulSet whose template has changed restarts its pods.
*/}}
{{- define "distrain.mesh.isMarked" -}}
{{- $isHook := not (or (eq .role "keygen") (hasKey (.root.Job.facts.roles | default dict) .role)) -}}
{{- if or .root.Values.serviceMesh $isHook (not (dig "makes" "worker" "" .root.Job.facts)) -}}
true
{{- end -}}
{{- end }}
