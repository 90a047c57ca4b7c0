#!/usr/bin/env bash
# Pin the packages of each .in file, with hashes. The lock files do not name the package index, because users have
# different indexes.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
  uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header "$@"
}
compile --universal --python-version 3.10 requirements.in -o requirements.txt
# Use the same versions, so that the tests run with the versions that the plugin ships.
compile --universal --python-version 3.10 plugin/requirements.in -c requirements.txt -o plugin/requirements.txt
# Do not use the lab's NumPy version: it is older than the newest Python that users have.
compile --universal --python-version 3.10 plugin/requirements.in plugin/requirements-report.in -c plugin/requirements.txt \
  -o plugin/requirements-report.txt
compile --universal --python-version 3.10 requirements-browser.in -o requirements-browser.txt
compile --universal --python-version 3.10 requirements-go.in -o requirements-go.txt
compile --universal --python-version 3.10 requirements-scanners.in -o requirements-scanners.txt
compile --universal --python-version 3.10 requirements-audit.in -o requirements-audit.txt
compile --universal --python-version 3.10 requirements-mutants.in -o requirements-mutants.txt
# Only for the platform of `make bench`. Most packages of CUDA are left out: lab/builds/readers.py replaces what needs them.
for name in cublas cuda-nvrtc cudnn cufft cufile curand cusolver cusparse cusparselt nccl nvjitlink nvshmem nvtx; do
  without_cuda+=(--no-emit-package "nvidia-$name-cu12")
done
for_bench=(--python-version 3.11 --python-platform x86_64-manylinux_2_28)
compile "${for_bench[@]}" "${without_cuda[@]}" --no-emit-package triton requirements-readers.in -o requirements-readers.txt
compile "${for_bench[@]}" requirements-readers-tensorflow.in -o requirements-readers-tensorflow.txt
