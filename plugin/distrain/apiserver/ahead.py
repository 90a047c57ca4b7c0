"""Make a call in a thread while the caller does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any


class Ahead(threading.Thread):
    """A thread that makes one call."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        super().__init__(daemon=True)
        self._call: Callable[[], Any] = partial(call, *arguments)
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        self.join()
        if self._error:
            raise self._error
        return self._result
