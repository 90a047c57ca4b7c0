#!/usr/bin/env bash
# Every check that runs nothing of the project.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff check .
ruff format --check .
mypy plugin/distrain trainer/distrain_trainer lab tests
git ls-files -z '*.sh' .ci/run trainer/pip-install trainer/horovod-install | xargs -0 shellcheck
yamllint --strict .
helm=$(python -c 'from lab.builds import golang; print(golang.binary("helm4"))')
for values in values/*.yaml; do
  "$helm" lint --quiet charts/distrain -f "$values"
done
PYTHONPATH=plugin lint-imports --no-cache --no-logo
