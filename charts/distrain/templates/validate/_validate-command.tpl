{{- /*
Rules on the user's own program.

  distrain.validate.command.words      the program and each argument are separate items
  distrain.validate.command.starter    the program is not one that starts ranks, such as mpirun
  distrain.validate.command.behindEnv  the command; if it starts with `env`, without `env` and the arguments of `env`

The messages do not repeat arguments, which may be secret.
*/}}

{{- define "distrain.validate.command.words" -}}
{{- with .Values.command -}}
{{- $words := regexSplit "\\s+" (first . | toString | trim) -1 -}}
{{- if gt (len $words) 1 -}}
{{- $program := first $words -}}
{{- printf "distrain: command[0]: \"%s ...\" is one string with spaces; write each word as an item, as in [%s, ...], or let a shell split it, as in [sh, -c, \"%s ...\"]\n" $program $program $program -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.command.starter
  If `command` began with mpirun, every rank would run mpirun, and each mpirun would start all ranks again.
*/}}
{{- define "distrain.validate.command.starter" -}}
{{- $words := concat (include "distrain.validate.command.behindEnv" .Values.command | fromJsonArray) (list "" "" "") -}}
{{- $program := first $words | toString | base -}}
{{- $starter := "" -}}
{{- if has $program (list "mpirun" "mpiexec" "mpiexec.hydra" "orterun" "prterun" "horovodrun" "srun" "torchrun" "deepspeed") -}}
{{- $starter = $program -}}
{{- else if and (eq $program "accelerate") (eq (index $words 1 | toString) "launch") -}}
{{- $starter = "accelerate launch" -}}
{{- else if and (regexMatch "^python[0-9.]*$" $program) (eq (index $words 1 | toString) "-m") -}}
{{- $module := index $words 2 | toString -}}
{{- if has $module (list "torch.distributed.run" "torch.distributed.launch" "accelerate.commands.launch") -}}
{{- $starter = printf "%s -m %s" $program $module -}}
{{- end -}}
{{- end -}}
{{- with $starter -}}
{{- $more := $.Job.usesMpi | ternary " (options of mpirun belong in mpi.flags)" "" -}}
{{- printf "distrain: command: %s starts ranks, but distrain starts every rank itself: it runs this command once per rank; leave out %s and its options%s, or call it in your own script if each rank has to start more ranks\n" . . $more -}}
{{- end -}}
{{- end }}

{{- /*
distrain.validate.command.behindEnv
  Takes the command. Renders the command as a JSON list. If the command starts with `env`, the list leaves out `env` and
  its options and NAME=VALUE arguments.
*/}}
{{- define "distrain.validate.command.behindEnv" -}}
{{- $isEnv := true -}}
{{- $isArgument := false -}}
{{- $words := list -}}
{{- range $index, $item := . -}}
{{- $word := toString $item -}}
{{- if $isArgument -}}
{{- $isArgument = false -}}
{{- else if and $isEnv (eq (base $word) "env") -}}
{{- else if and $isEnv $index (or (hasPrefix "-" $word) (contains "=" $word)) -}}
{{- $isArgument = has $word (list "-u" "--unset" "-C" "--chdir") -}}
{{- else -}}
{{- $isEnv = false -}}
{{- $words = append $words $word -}}
{{- end -}}
{{- end -}}
{{- toJson $words -}}
{{- end }}
