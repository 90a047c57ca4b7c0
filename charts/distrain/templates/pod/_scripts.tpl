{{- /*
The scripts that the pods start with.

  distrain.scripts.files  names of the files that the job's kind needs, from files/
*/}}

{{- /*
distrain.scripts.files
  Takes the root context. Renders a list.
*/}}
{{- define "distrain.scripts.files" -}}
{{- $names := list -}}
{{- if .Job.usesMpi -}}
{{- $names = list "distrain-launch" "distrain-worker" "distrain_keepers.py" "distrain_message.py" "distrain_output.py" "distrain_program.py" "distrain_root.py" "distrain_sigterm.py" "distrain_watch.py" "distrain_workers.py" -}}
{{- else if .Job.isElastic -}}
{{- $names = list "distrain-torchrun" "distrain_message.py" "distrain_output.py" "distrain_program.py" "distrain_sigterm.py" -}}
{{- else -}}
{{- $names = list "distrain-run" "distrain_message.py" "distrain_output.py" "distrain_program.py" "distrain_sigterm.py" -}}
{{- end -}}
{{- if .Job.makesKey -}}
{{- $names = concat $names (list "distrain-keygen" "distrain_kube.py") -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}
