"""Run Argo CD on the lab: repository server, application controller, ApplicationSet controller, and Redis.

Argo CD's web server does not run. The tests read and write Applications through the Kubernetes API.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from lab.builds.golang import binary, module_dir
from lab.cluster.client import apply, kubectl
from lab.cluster.namespaces import NODE_ADDRESS
from lab.errors import LabError
from lab.gitops import controllers, git
from lab.paths import KUBECONFIG, REPOSITORY, STATE_DIR

NAMESPACE = "argocd"
PROGRAMS = ("argocd", "helm3")
_REDIS, _REPO_SERVER = "redis-server", "argocd-repo-server"
_APPLICATION, _APPLICATION_SET = "argocd-application-controller", "argocd-applicationset-controller"
CONTROLLERS = (_REDIS, _REPO_SERVER, _APPLICATION, _APPLICATION_SET)
KINDS = ("MPIJob", "PyTorchJob", "MXJob", "TFJob")
HEALTH = REPOSITORY / "docs" / "argocd" / "health.lua"
# The application controller looks for new commits at this interval.
RESYNC_SECONDS = 20

_FOLDER = STATE_DIR / "argocd"
_REDIS_PORT, _REPO_PORT, _REPO_METRICS, _METRICS, _SET_METRICS = 6390, 18081, 18082, 18083, 18084


def start() -> None:
    """Install Argo CD's CRDs and settings into the running cluster, and start its programs."""
    if shutil.which(_REDIS) is None:
        raise LabError("not installed: redis-server, which Argo CD needs: run `lab/setup.sh` with the group gitops")
    git.serve()
    _FOLDER.mkdir(exist_ok=True)
    _put_settings()
    _start_redis()
    _start_programs()


def stop() -> None:
    """Stop Argo CD's programs. Its CRDs, Applications and settings stay in the cluster."""
    for name in reversed(CONTROLLERS):
        controllers.stop(name)


def trust(address: str, authority: Path) -> None:
    """Make Argo CD trust a registry's certificate authority, by a file instead of the ConfigMap argocd-tls-certs-cm."""
    shutil.copy(authority, _folder("certificates") / address)


def health_settings() -> dict[str, str]:
    """Return the settings that docs/gitops.md tells users to put into the ConfigMap argocd-cm."""
    health = HEALTH.read_text(encoding="utf-8")
    return {f"resource.customizations.health.kubeflow.org_{kind}": health for kind in KINDS}


def _put_settings() -> None:
    manifests = module_dir("gitops-controllers", "github.com/argoproj/argo-cd/v3") / "manifests"
    controllers.put_crds(manifests / "crds")
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    rendered = kubectl("kustomize", str(manifests / "base" / "config"))
    for settings in yaml.safe_load_all(rendered):
        if settings["metadata"]["name"] == "argocd-cm":
            settings["data"] |= health_settings()
        elif settings["metadata"]["name"] == "argocd-secret":
            # Usually Argo CD's web server creates this key, but the web server does not run on the lab.
            settings["stringData"] = {"server.secretkey": "lab"}
        settings["metadata"]["namespace"] = NAMESPACE
        apply(settings)
    apply(_default_project())


def _default_project() -> dict[str, object]:
    """Return the project `default`, which Argo CD's web server would create. It allows everything."""
    spec = {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }
    metadata = {"name": "default", "namespace": NAMESPACE}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": metadata, "spec": spec}


def _start_redis() -> None:
    folder = _folder("redis")
    command = [_REDIS, "--port", str(_REDIS_PORT), "--bind", NODE_ADDRESS, "--protected-mode", "no", "--save", ""]
    controllers.start(_REDIS, [*command, "--dir", folder], {}, _REDIS_PORT)


def _start_programs() -> None:
    redis = ["--redis", f"{NODE_ADDRESS}:{_REDIS_PORT}"]
    ports = ["--port", str(_REPO_PORT), "--metrics-port", str(_REPO_METRICS)]
    _start(_REPO_SERVER, [*ports, "--disable-tls", *redis], _REPO_PORT)
    server = f"{NODE_ADDRESS}:{_REPO_PORT}"
    repository = ["--repo-server", server, "--repo-server-plaintext"]
    resync = ["--app-resync", str(RESYNC_SECONDS), "--app-resync-jitter", "0"]
    _start(_APPLICATION, [*repository, *redis, *resync, "--metrics-port", str(_METRICS)], _METRICS)
    addresses = [f"--metrics-addr=:{_SET_METRICS}", "--probe-addr=:18085", "--webhook-addr=:18086"]
    repository = ["--argocd-repo-server", server, "--repo-server-plaintext"]
    _start(_APPLICATION_SET, [*repository, *addresses, f"--namespace={NAMESPACE}"], _SET_METRICS)


def _start(name: str, arguments: list[str], port: int) -> None:
    # Argo CD's programs write to fixed paths in /tmp. So the lab mounts a folder of its own on /tmp for them.
    covered = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /tmp && exec "$@"', str(_folder("tmp"))]
    controllers.start(name, [*covered, binary("argocd"), name, *arguments], _environment(), port)


def _environment() -> dict[str, str]:
    programs = _folder("bin")
    helm = programs / "helm"
    if not helm.exists():
        helm.symlink_to(binary("helm3"))
    return {
        "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
        "KUBECONFIG": str(_kubeconfig()),
        # Argo CD uses this kubeconfig, and not a ServiceAccount, for the cluster in which it runs.
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_TLS_DATA_PATH": str(_folder("certificates")),
        "ARGOCD_SSH_DATA_PATH": str(_folder("ssh")),
    }


def _folder(name: str) -> Path:
    folder = _FOLDER / name
    folder.mkdir(exist_ok=True)
    return folder


def _kubeconfig() -> Path:
    """Write the administrator's kubeconfig with Argo CD's namespace as the default namespace.

    Argo CD reads its settings from the default namespace of the kubeconfig's context.
    """
    path = _FOLDER / "kubeconfig"
    config = yaml.safe_load(KUBECONFIG.read_text())
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
