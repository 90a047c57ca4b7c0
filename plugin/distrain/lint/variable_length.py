"""Warn if an environment variable is so long that Linux cannot start a program with it.

The API server accepts a variable of any length.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.lint.subject import Subject, ValueWarning

# The largest size in bytes of one environment variable, written as `NAME=value`. Linux' MAX_ARG_STRLEN
# (include/uapi/linux/binfmts.h) is 32 pages, here of 4 KiB each. It also counts the zero byte at the end.
MOST = 32 * 4096 - 1


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    for name, variable in subject.variables.items():
        size = len(f"{name}={variable.value}".encode())
        if size > MOST:
            found = f"has {size:,} bytes with its name, and Linux starts no program with more than {MOST:,}"
            yield ValueWarning(variable.path, found, "put the text into a file of the image or of a volume")
