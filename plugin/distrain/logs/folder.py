"""Write files into the folder that --save names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from distrain.errors import UnwrittenError, ValuesError, is_full, reason


class Folder:
    """A folder that is new or empty.

    Raises ValuesError if the folder contains files, and UnwrittenError if it is not writable.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            has_files = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        except (OSError, ValueError) as error:
            raise ValuesError(f"--save: {path} cannot be read: {reason(error)}; name another folder") from error
        if has_files:
            words = "has files" if self.path.is_dir() else "is a file"
            raise ValuesError(f"--save: {path} {words}; name a new or an empty folder")

    @contextmanager
    def file(self, *names: str) -> Iterator[BinaryIO]:
        path = self.path.joinpath(*names)
        self._make(path.parent)
        try:
            with path.open("wb") as file:
                yield file
        except OSError as error:
            words = f"{path} cannot be written: {reason(error)}; the files already written are kept"
            raise UnwrittenError(f"--save: {words}; {_next_step(error)}") from error

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            words = f"the folder {folder} cannot be created: {reason(error)}"
            raise UnwrittenError(f"--save: {words}; {_next_step(error)}") from error

    def write(self, lines: Iterable[str], *names: str) -> None:
        with self.file(*names) as file:
            file.writelines(f"{line}\n".encode(errors="backslashreplace") for line in lines)

    def write_list(self, objects: Iterable[Any], *names: str) -> int:
        """Write objects one at a time as a Kubernetes list; return their number."""
        number = 0
        with self.file(*names) as file:
            file.write(b'{"apiVersion": "v1", "kind": "List", "items": [')
            for found in objects:
                text = json.dumps(found, indent=1, ensure_ascii=True)
                file.write((",\n" if number else "\n").encode() + text.encode())
                number += 1
            file.write(b"\n]}\n")
        return number


def _next_step(error: OSError) -> str:
    return "free disk space, or name another folder" if is_full(error) else "name a folder that you may write to"
