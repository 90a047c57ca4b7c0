"""Run kubectl against the cluster's API server, and ctr against its container runtime."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from lab.builds import images
from lab.builds.golang import binary
from lab.cluster import components, namespaces
from lab.errors import LabError
from lab.locking import locked
from lab.paths import KUBECONFIG, STATE_DIR

# The old image gets this name while the new image takes over the old name.
FORMER = "distrain/former:lab"


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl as the cluster's administrator and return its output. Raises LabError with kubectl's message."""
    command = [str(binary("kubectl")), f"--kubeconfig={KUBECONFIG}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def apply(*objects: dict[str, Any]) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))


def load_image(image: images.Image) -> None:
    """Import an image into the node, unless the node has already imported this archive."""
    # If two processes imported at once, one could remove the name FORMER while the other needs it.
    with locked(STATE_DIR / "images.lock"):
        _import(image)


def _import(image: images.Image) -> None:
    label = f"distrain.dev/archive={image.archive.name}"
    found = _ctr("images", "ls", f"name=={image.reference}")
    if label in found:
        return
    # The old image of this name may share layers with the new image. containerd may delete layers of an image without a
    # name. So the old image keeps another name during the import.
    if image.reference in found:
        _ctr("images", "tag", "--force", image.reference, FORMER)
    _ctr("images", "import", str(image.archive))
    _ctr("images", "label", image.reference, label)
    _ctr("images", "rm", FORMER)


def _ctr(*arguments: str) -> str:
    return namespaces.run("ctr", "--address", str(components.CONTAINERD_SOCKET), "--namespace", "k8s.io", *arguments)
