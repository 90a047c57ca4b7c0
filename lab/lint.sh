#!/usr/bin/env bash
# Run all checks that do not execute the project's code.
set -euo pipefail
cd "$(dirname "$0")/.."
# Copies from an earlier release, which are not changed.
frozen=':!tests/chart/scripts/previous'

# Scripts are found by their first line, so a new script needs no entry here.
interpreters=$(git grep --untracked --no-color -nIE '^#!' -- . "$frozen" | sed -nE 's/^([^:]*):1:#!/\1 /p')
scripts_of() {
  awk -v name="$1" '$0 ~ "[ /](" name ")( |$)" {print $1}' <<<"$interpreters"
}
mapfile -t shell < <(scripts_of 'sh|bash')
mapfile -t python < <(scripts_of 'python3?')
if unknown=$(grep -vE '[ /](sh|bash|python3?)( |$)' <<<"$interpreters"); then
  printf 'lint.sh: no linter here knows the language of this script: %s\n' "$unknown" >&2
  exit 1
fi
files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" "$frozen"
}

# If a target has two recipes, make uses the last one and only warns.
if warnings=$(make --dry-run help 2>&1 >/dev/null | grep 'warning:'); then
  printf '%s\n' "$warnings" >&2
  exit 1
fi
shellcheck "${shell[@]}"
ruff check . "${python[@]}"
ruff format --check . "${python[@]}"
# Leave out tests/cluster/probe: it imports frameworks, which only the images contain.
files '*.py' ':!charts' ':!tests/cluster/probe' | xargs -0 mypy
for script in "${python[@]}"; do
  case $script in
    charts/* | tests/cluster/probe/*) ;;
    *) mypy "$script" ;;
  esac
done
# The pods' scripts run on Python 3.6, where list[str] is an error, so their lists and dicts have no element types.
{ files 'charts/*.py'; printf '%s\0' "${python[@]}" | grep -z '^charts/'; } | MYPYPATH=charts/distrain/files \
  xargs -0 mypy --config-file= --cache-dir=.mypy_cache/scripts --scripts-are-modules --disallow-untyped-defs \
  --disable-error-code=var-annotated \
  --disable-error-code=union-attr --disable-error-code=type-var --disable-error-code=func-returns-value
yamllint --strict .
helm=$(python -c 'from lab.builds import golang; print(golang.binary("helm4"))')
for values in values/*.yaml; do
  "$helm" lint --quiet charts/distrain -f "$values"
done
PYTHONPATH=plugin:trainer lint-imports --no-cache --no-logo
