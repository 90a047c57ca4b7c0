"""Sign packages with a temporary GnuPG key."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.builds import package

SIGNER = "distrain test <test@distrain.invalid>"


def sign(packages: Mapping[Path, Path], folder: Path) -> Path:
    """Sign archives with a new key. Return a keyring in `folder` that verifies the archives.

    `packages` maps the path of an archive to the path of its Chart.yaml or plugin.yaml.
    """
    keyring = folder / "pubring.gpg"
    # gpg creates a UNIX socket in this folder. A socket's path is limited to 107 characters, so pytest's folder is too
    # deep.
    home = tempfile.mkdtemp(prefix="gnupg-")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GNUPGHOME", home)
        gpg = ["gpg", "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", SIGNER, "ed25519", "sign", "never"], check=True)
        for archive, description in packages.items():
            package.sign(archive, description, SIGNER)
        subprocess.run([*gpg, "--export", "--output", str(keyring)], check=True)
        subprocess.run(["gpgconf", "--kill", "all"], check=True)
    # The gpg agent ends a moment later and removes its sockets itself, so ignore files that are already gone.
    shutil.rmtree(home, ignore_errors=True)
    return keyring
