"""Keep track of temporary files and waiting processes while a command runs.

`cli.py` removes the files and ends the processes, even after Ctrl-C.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

# Processes that may still be waiting for their input.
processes: list[subprocess.Popen[bytes]] = []
_folders: list[str] = []
# Maps the path of each temporary copy to the file name that the user gave.
_named: dict[str, str] = {}


def folder() -> Path:
    """Return a new folder that only the current user can read."""
    import tempfile
    from pathlib import Path

    _folders.append(tempfile.mkdtemp(prefix="distrain-"))
    return Path(_folders[-1])


def copy(named: str, content: bytes) -> str:
    """Write a file with this content, and return its path. `named` is the name that the user gave the file."""
    file = folder() / "values"
    file.write_bytes(content)
    _named[str(file)] = named
    return str(file)


def with_names(message: str) -> str:
    """Return a message in which each path of a temporary copy is replaced by the name that the user gave the file."""
    for path, named in _named.items():
        message = message.replace(path, named)
    return message


def remove() -> None:
    """Delete all temporary files, and kill the processes that are still running."""
    while processes:
        process = processes.pop()
        process.kill()
        process.wait()
    if not _folders:
        return
    import shutil

    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
