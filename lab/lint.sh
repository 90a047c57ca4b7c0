#!/usr/bin/env bash
# Every check that runs nothing of the project.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff check .
ruff format --check .
mypy plugin/distrain trainer/distrain_trainer lab tests schemas docs
# The pods' scripts run on Python 3.6, where list[str] is an error: their lists and dicts have no element types.
git ls-files -z 'charts/distrain/files/distrain*' | MYPYPATH=charts/distrain/files xargs -0 mypy --config-file= \
  --cache-dir=.mypy_cache/scripts --scripts-are-modules --disallow-untyped-defs --disable-error-code=var-annotated \
  --disable-error-code=union-attr --disable-error-code=type-var --disable-error-code=func-returns-value
git ls-files -z '*.sh' .ci/run plugin/bin plugin/plugin.complete trainer/pip-install trainer/horovod-install | xargs -0 shellcheck
yamllint --strict .
helm=$(python -c 'from lab.builds import golang; print(golang.binary("helm4"))')
for values in values/*.yaml; do
  "$helm" lint --quiet charts/distrain -f "$values"
done
PYTHONPATH=plugin:trainer lint-imports --no-cache --no-logo
