{{- /*
Whether a service mesh adds its proxy to the pods.

  distrain.mesh.injects   "true" if the mesh adds its proxy to a role's pods, else "false"
  distrain.mesh.isMarked  "true" if a role's pods get the label for Istio's ambient mode and Linkerd's annotation
*/}}

{{- /*
distrain.mesh.injects
  Takes (dict "root" <root context> "role" <role> "mesh" <istio or linkerd>). The pods of hooks and the pod that makes
  the SSH key never get a proxy: they only call the API server, which is outside the mesh.
*/}}
{{- define "distrain.mesh.injects" -}}
{{- and (eq (.root.Values.serviceMesh | default "none") .mesh) (hasKey (.root.Job.facts.roles | default dict) .role) -}}
{{- end }}

{{- /*
distrain.mesh.isMarked
  Takes (dict "root" <root context> "role" <role>).

  If the workers come from a Job or a StatefulSet, the label and the annotation are rendered only if serviceMesh is set.
  Older versions of the chart set neither of them, so adding them would change the pod template of a running job. But a
  Job's pod template is immutable, and a StatefulSet restarts its pods when its template changes.
*/}}
{{- define "distrain.mesh.isMarked" -}}
{{- $isHook := not (or (eq .role "keygen") (hasKey (.root.Job.facts.roles | default dict) .role)) -}}
{{- if or .root.Values.serviceMesh $isHook (not (dig "makes" "worker" "" .root.Job.facts)) -}}
true
{{- end -}}
{{- end }}
