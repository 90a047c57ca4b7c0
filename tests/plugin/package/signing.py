"""Sign packages with a GnuPG key that is made for them alone."""

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
    """Sign archives with a new key. Return a keyring that verifies them, in `folder`.

    `packages` gives for each archive its Chart.yaml or plugin.yaml.
    """
    keyring = folder / "pubring.gpg"
    # Not in pytest's folder: gpg makes a UNIX socket there, whose path must not be longer than 107 characters.
    home = tempfile.mkdtemp(prefix="gnupg-")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GNUPGHOME", home)
        gpg = ["gpg", "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", SIGNER, "ed25519", "sign", "never"], check=True)
        for archive, description in packages.items():
            package.sign(archive, description, SIGNER)
        subprocess.run([*gpg, "--export", "--output", str(keyring)], check=True)
        subprocess.run(["gpgconf", "--kill", "all"], check=True)
    # The agent, which ends by itself, may remove its sockets at the same time.
    shutil.rmtree(home, ignore_errors=True)
    return keyring
