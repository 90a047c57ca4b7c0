"""Create git repositories, which the lab's git server serves over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.cluster import namespaces
from lab.cluster.namespaces import NODE_ADDRESS
from lab.errors import LabError
from lab.paths import STATE_DIR
from lab.waiting import wait_for_port

PORT = 7080
BRANCH = "main"
ROOT = STATE_DIR / "git"
ADDRESS = f"http://{NODE_ADDRESS}:{PORT}"
_SERVER = "git-server"


def serve() -> None:
    """Start the git server in the lab's network namespace, unless it already runs."""
    if namespaces.is_running(_SERVER):
        return
    ROOT.mkdir(exist_ok=True)
    program = Path(__file__).with_name("git_http.py")
    namespaces.start(_SERVER, [sys.executable, program, ROOT, NODE_ADDRESS, str(PORT)])
    wait_for_port(NODE_ADDRESS, PORT)


@dataclass(frozen=True)
class Repository:
    """A git repository on the lab's git server.

    Write files into `folder` and commit them. Then clients can read them from `url`.
    """

    name: str

    @classmethod
    def new(cls, name: str) -> Repository:
        """Make an empty repository. If a repository of this name exists, delete it first."""
        serve()
        repository = cls(name)
        shutil.rmtree(repository.folder, ignore_errors=True)
        repository.folder.mkdir()
        repository._git("init", "--quiet", f"--initial-branch={BRANCH}")
        return repository

    @property
    def url(self) -> str:
        return f"{ADDRESS}/{self.name}"

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    def commit(self, files: Mapping[str, str] | None = None) -> str:
        """Write files (path -> text), commit the whole folder, and return the hash of the commit."""
        for path, text in (files or {}).items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self._git("add", "--all")
        author = ["-c", "user.name=lab", "-c", "user.email=lab@example.com"]
        self._git(*author, "commit", "--quiet", "--allow-empty", "--message", ", ".join(files or ["a folder"]))
        return self._git("rev-parse", "HEAD").strip()

    @contextmanager
    def away(self) -> Iterator[None]:
        """While the block runs, do not serve the repository."""
        hidden = self.folder.with_name(f".{self.name}")
        self.folder.rename(hidden)
        try:
            yield
        finally:
            hidden.rename(self.folder)

    def _git(self, *arguments: str) -> str:
        # The user's git settings, and variables such as GIT_DIR from a git hook, must not affect this repository.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        command = ["git", "-C", str(self.folder), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout
