"""Run Helm as a user of an OCI registry would."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.registry import USER, Registry


@dataclass(frozen=True)
class User:
    """A user of a registry, with a Helm program and a home folder of their own."""

    helm: Path
    home: Path
    registry: Registry

    @property
    def charts(self) -> str:
        return f"oci://{self.registry.host}/charts"

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        homes = {f"HELM_{kind}_HOME": str(self.home / kind) for kind in ("DATA", "CONFIG", "CACHE")}
        environment = {**os.environ, **homes, "KUBECONFIG": os.devnull}
        return subprocess.run(
            [self.helm, *arguments], env=environment, input=stdin, capture_output=True, text=True, cwd=self.home
        )

    def trusting(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run Helm with the flag that makes it trust the registry's certificate authority."""
        return self.run(*arguments, "--ca-file", str(self.registry.authority), stdin=stdin)

    def log_in(self) -> None:
        login = ("registry", "login", self.registry.host, "--username", USER, "--password-stdin")
        done = self.trusting(*login, stdin=self.registry.password)
        assert done.returncode == 0, done.stderr
