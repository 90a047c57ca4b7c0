"""Run Flux on the lab: source-controller, and one of two versions of helm-controller.

kustomize-controller does not run, so the tests apply GitRepositories and HelmReleases with kubectl.
"""

from __future__ import annotations

from pathlib import Path

from lab.builds.golang import binary, module_dir
from lab.cluster.client import apply
from lab.cluster.namespaces import NODE_ADDRESS
from lab.gitops import controllers, git
from lab.paths import KUBECONFIG, STATE_DIR

NAMESPACE = "flux-system"
# Maps a version of helm-controller to its Go module.
HELM_CONTROLLERS = {"1.6": "helm-controller-1.6", "1.4": "gitops-controllers"}
DEFAULT = "1.6"
PROGRAMS = ("source-controller", f"helm-controller-{DEFAULT}")
SOURCE_CONTROLLER, HELM_CONTROLLER = CONTROLLERS = ("source-controller", "helm-controller")

_FOLDER = STATE_DIR / "flux"
_STORAGE = f"{NODE_ADDRESS}:18092"


def start(version: str = DEFAULT) -> None:
    """Install Flux's CRDs into the running cluster, and start source-controller and this helm-controller."""
    git.serve()
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    module = HELM_CONTROLLERS[version]
    controllers.put_crds(_crds("gitops-controllers", SOURCE_CONTROLLER))
    controllers.put_crds(_crds(module, HELM_CONTROLLER))
    artifacts = [
        f"--storage-path={_folder('artifacts')}",
        f"--storage-addr={_STORAGE}",
        f"--storage-adv-addr={_STORAGE}",
    ]
    _start(SOURCE_CONTROLLER, binary(SOURCE_CONTROLLER), artifacts, 18093)
    _start(HELM_CONTROLLER, binary(f"{HELM_CONTROLLER}-{version}"), [], 18095)


def stop() -> None:
    """Stop Flux's controllers. Flux's CRDs and objects stay in the cluster."""
    for name in reversed(CONTROLLERS):
        controllers.stop(name)


def _crds(module: str, controller: str) -> Path:
    return module_dir(module, f"github.com/fluxcd/{controller}") / "config" / "crd" / "bases"


def _start(name: str, program: Path, arguments: list[str], port: int) -> None:
    common = [
        "--watch-all-namespaces=true",
        "--interval-jitter-percentage=0",
        f"--metrics-addr=:{port}",
        f"--health-addr=:{port + 1}",
    ]
    environment = {
        "KUBECONFIG": str(KUBECONFIG),
        "RUNTIME_NAMESPACE": NAMESPACE,
        "TMPDIR": str(_folder("tmp")),
        "HOME": str(_folder("home")),
    }
    controllers.start(name, [program, *common, *arguments], environment, port + 1)


def _folder(name: str) -> Path:
    folder = _FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
