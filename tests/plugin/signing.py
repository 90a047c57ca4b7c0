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
    """Sign each archive, whose description is in the file it maps to; return a keyring, in `folder`, to verify them."""
    keyring = folder / "pubring.gpg"
    # The path must be short, because the folder contains a UNIX socket.
    home = tempfile.mkdtemp(prefix="gnupg-")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GNUPGHOME", home)
        gpg = ["gpg", "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", SIGNER, "ed25519", "sign", "never"], check=True)
        for archive, description in packages.items():
            package.sign(archive, description, SIGNER)
        subprocess.run([*gpg, "--export", "--output", str(keyring)], check=True)
        subprocess.run(["gpgconf", "--kill", "all"], check=True)
    shutil.rmtree(home)
    return keyring
