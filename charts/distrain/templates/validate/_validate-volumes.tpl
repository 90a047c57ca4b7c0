{{- /*
Rules on volumes, and on folders in data.uri, data.cache.folder, output.uri and checkpoint.uri.

  distrain.validate.volumes.folders   each folder is on a volume, and not on a read-only one if the run writes to it
  distrain.validate.volumes.mountOf   the volume that holds a folder
  distrain.validate.volumes.list      names and kinds of volumes
  distrain.validate.volumes.mounts    names and paths of mounts
  distrain.validate.volumes.caBundle  the S3 server's certificates
  distrain.validate.volumes.shared    top-level volumes that the pods of a section get
*/}}

{{- /*
distrain.validate.volumes.folders
  A folder outside all volumes is on the read-only root file system, or is lost with the pod. The run writes to the
  folder <namespace>/<release> below output.uri and checkpoint.uri, so the rule checks whether this folder is on a
  volume. The volume need not be mounted at the uri itself: <uri>/<namespace> is accepted, for example. A volume without
  a type is an emptyDir. The rule accepts an emptyDir for output.uri if the pod has a sidecar, because a sidecar can
  copy the files elsewhere. The rule refuses an emptyDir for checkpoint.uri, because a checkpoint has to outlive its
  pod. In a TFJob the Chief writes output and checkpoints. The Chief has the top-level volumes and those in
  launcher.volumes.
*/}}
{{- define "distrain.validate.volumes.folders" -}}
{{- $values := .Values -}}
{{- if and (hasPrefix "/" $values.data.uri) (not $values.command) -}}
{{- if not (include "distrain.validate.volumes.mountOf" (dict "root" . "role" "worker" "folder" $values.data.uri) | fromJson) -}}
{{- printf "distrain: data.uri: %q is not on a volume; mount a volume there with volumes and volumeMounts, or use s3://bucket/prefix\n" $values.data.uri -}}
{{- end -}}
{{- end -}}
{{- with ($values.data.cache | default dict).folder -}}
{{- $found := include "distrain.validate.volumes.mountOf" (dict "root" $ "role" "worker" "folder" .) | fromJson -}}
{{- if not (or $found $values.command) -}}
{{- printf "distrain: data.cache.folder: %q is not on a volume; mount a volume there with volumes and volumeMounts, or leave data.cache.folder empty\n" . -}}
{{- else if $found.readOnly -}}
{{- printf "distrain: data.cache.folder: %q is on volume %q, which is mounted read-only; mount a writable volume there, or leave data.cache.folder empty\n" . $found.name -}}
{{- end -}}
{{- end -}}
{{- $role := and (hasKey (.Job.facts.roles | default dict) "chief") (not $values.command) | ternary "chief" "worker" -}}
{{- $place := eq $role "chief" | ternary "a volume of the Chief, which writes it," "a volume" -}}
{{- $how := eq $role "chief" | ternary "the top-level volumes and volumeMounts" "volumes and volumeMounts" -}}
{{- range $path, $uri := dict "output.uri" $values.output.uri "checkpoint.uri" $values.checkpoint.uri -}}
{{- if hasPrefix "/" $uri -}}
{{- $folder := printf "%s/%s" $uri $.Job.names.run -}}
{{- $found := include "distrain.validate.volumes.mountOf" (dict "root" $ "role" $role "folder" $folder) | fromJson -}}
{{- if not $found -}}
{{- printf "distrain: %s: %q is not on %s and would be lost; mount a volume there with %s, or use s3://bucket/prefix\n" $path $uri $place $how -}}
{{- else if $found.readOnly -}}
{{- printf "distrain: %s: %q is on volume %q, which is mounted read-only; mount a writable volume there, or use s3://bucket/prefix\n" $path $uri $found.name -}}
{{- else if and (has $found.type (list "emptyDir" "ephemeral")) (or (eq $path "checkpoint.uri") (not (get $.Job.roles $role).sidecars)) -}}
{{- printf "distrain: %s: %q is on volume %q, whose kind is %s: its files are lost with the pod; use a persistentVolumeClaim, or s3://bucket/prefix\n" $path $uri $found.name $found.type -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.volumes.mountOf
  Takes (dict "root" <root context> "role" <role> "folder" <absolute path>). Looks among the role's volumeMounts for the
  longest mountPath that contains the folder. Renders name, type and readOnly of the volume mounted there, as JSON; {}
  if no mountPath contains the folder.
*/}}
{{- define "distrain.validate.volumes.mountOf" -}}
{{- $role := dict "root" .root "role" .role -}}
{{- $mount := dict -}}
{{- $depth := 0 -}}
{{- range include "distrain.volumes.user" (merge (dict "key" "volumeMounts" "by" "mountPath") $role) | fromYamlArray -}}
{{- $path := clean .mountPath | trimSuffix "/" -}}
{{- if and (hasPrefix (printf "%s/" $path) (printf "%s/" (clean $.folder))) (ge (len $path) $depth) -}}
{{- $mount = . -}}
{{- $depth = len $path -}}
{{- end -}}
{{- end -}}
{{- $found := dict -}}
{{- range include "distrain.volumes.user" (merge (dict "key" "volumes" "by" "name") $role) | fromYamlArray -}}
{{- if eq .name ($mount.name | default "") -}}
{{- $type := omit . "name" | keys | first | default "emptyDir" -}}
{{- $readOnly := or $mount.readOnly (index . $type | default dict).readOnly (has $type (list "configMap" "downwardAPI" "image" "projected" "secret")) -}}
{{- $found = dict "name" .name "type" $type "readOnly" ($readOnly | default false) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{- define "distrain.validate.volumes.list" -}}
{{- $taken := list "scripts" "tmp" "shm" "checkpoints" "ssh-auth" "mpi-job-config" "mpi-job-kubectl" -}}
{{- if .Values.s3.caBundle -}}
{{- $taken = append $taken "s3-ca" -}}
{{- end -}}
{{- if .Job.archive -}}
{{- $taken = append $taken "trainer" -}}
{{- end -}}
{{- if .Job.namesUser -}}
{{- $taken = append $taken "user" -}}
{{- end -}}
{{- $level := .Values.podSecurity -}}
{{- $allowed := list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "persistentVolumeClaim" "projected" "secret" -}}
{{- range $at, $values := .Job.given -}}
{{- $seen := list -}}
{{- range $index, $volume := $values.volumes -}}
{{- $path := printf "%svolumes[%d]" $at $index -}}
{{- if has $volume.name $taken -}}
{{- printf "distrain: %s.name: %q is the name of a volume that the job itself has; choose another name\n" $path $volume.name -}}
{{- end -}}
{{- if has $volume.name $seen -}}
{{- printf "distrain: %s.name: %q appears twice; choose another name\n" $path $volume.name -}}
{{- end -}}
{{- $seen = append $seen $volume.name -}}
{{- range $type, $_ := omit $volume "name" -}}
{{- if or (and (eq $level "restricted") (not (has $type $allowed))) (and (eq $level "baseline") (eq $type "hostPath")) -}}
{{- printf "distrain: %s.%s: podSecurity %s forbids it; use a persistentVolumeClaim, or --set podSecurity=%s\n" $path $type $level (ternary "privileged" "baseline" (eq $type "hostPath")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.volumes.mounts
  The API server accepts a job whose pod template is invalid, and only the operator would notice the error later.
*/}}
{{- define "distrain.validate.volumes.mounts" -}}
{{- $taken := list "/" "/tmp" "/dev/shm" "/opt/distrain/bin" "/etc/mpi" "/opt/kube" (include "distrain.mpi.sshFolder" .) -}}
{{- if has "worker" .Job.checkpointRoles -}}
{{- $taken = append $taken "/checkpoints" -}}
{{- end -}}
{{- if .Values.s3.caBundle -}}
{{- $taken = append $taken "/etc/distrain/s3-ca" -}}
{{- end -}}
{{- if .Job.archive -}}
{{- $taken = append $taken "/opt/distrain/trainer" -}}
{{- end -}}
{{- if .Job.namesUser -}}
{{- $taken = append $taken "/etc/passwd" -}}
{{- end -}}
{{- range $at, $values := .Job.given -}}
{{- $section := get $.Job.paths $at -}}
{{- $names := list -}}
{{- range concat ($values.volumes | default list) (include "distrain.validate.volumes.shared" (dict "root" $ "section" $section) | fromJsonArray) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $seen := list -}}
{{- range $index, $mount := $values.volumeMounts -}}
{{- $path := printf "%svolumeMounts[%d]" $at $index -}}
{{- if not (has $mount.name $names) -}}
{{- printf "distrain: %s.name: %q is not in %svolumes; add it there\n" $path $mount.name $at -}}
{{- end -}}
{{- if has (clean $mount.mountPath) $taken -}}
{{- printf "distrain: %s.mountPath: %q is a path that the job itself mounts; choose another path\n" $path $mount.mountPath -}}
{{- end -}}
{{- if has (clean $mount.mountPath) $seen -}}
{{- printf "distrain: %s.mountPath: %q appears twice; choose another path\n" $path $mount.mountPath -}}
{{- end -}}
{{- $seen = append $seen (clean $mount.mountPath) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "distrain.validate.volumes.caBundle" -}}
{{- $bundle := .Values.s3.caBundle | default dict -}}
{{- if and (hasKey .Values.s3 "caBundle") (not (or $bundle.secretName $bundle.configMapName)) -}}
{{- "distrain: s3.caBundle: names no Secret and no ConfigMap; set s3.caBundle.secretName or s3.caBundle.configMapName, or remove s3.caBundle\n" -}}
{{- else if and $bundle.secretName $bundle.configMapName -}}
{{- printf "distrain: s3.caBundle: names the Secret %q and the ConfigMap %q; remove one of the two\n" $bundle.secretName $bundle.configMapName -}}
{{- end -}}
{{- if and $bundle .Values.s3.insecureTLS -}}
{{- "distrain: s3.caBundle: is set, but s3.insecureTLS is true, which accepts any certificate; set s3.insecureTLS to false\n" -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.volumes.shared
  Takes (dict "root" <root context> "section" <section of the values>). Renders the top-level volumes that the section's
  pods get, as a JSON list.
*/}}
{{- define "distrain.validate.volumes.shared" -}}
{{- $shared := list -}}
{{- range $role := .root.Job.volumeRoles -}}
{{- if and (hasKey ($.root.Job.facts.roles | default dict) $role) (eq (get $.root.Kinds.roles $role) $.section) -}}
{{- $shared = $.root.Values.volumes | default list -}}
{{- end -}}
{{- end -}}
{{- toJson $shared -}}
{{- end }}
