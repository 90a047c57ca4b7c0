"""Write messages about wrong fields (apimachinery pkg/util/validation/field/errors.go)."""

from __future__ import annotations

import json
from collections.abc import Iterable

NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"


def required(path: str, detail: str = "") -> str:
    return _message(path, "Required value", detail)


def forbidden(path: str, detail: str) -> str:
    return _message(path, "Forbidden", detail)


def invalid(path: str, value: object, detail: str) -> str:
    return _message(path, f"Invalid value: {as_json(value)}", detail)


def too_long(path: str, size: int, most: int) -> str:
    """Return the API server's message about a value that is too long, and add the value's size in bytes."""
    return _message(path, "Too long", f"may not be more than {most} bytes, and has {size}")


def duplicate(path: str, value: str) -> str:
    return _message(path, f"Duplicate value: {as_json(value)}")


def not_found(path: str, value: str) -> str:
    return _message(path, f"Not found: {as_json(value)}")


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    return _message(path, f"Unsupported value: {as_json(value)}", f"supported values: {listed(supported)}")


def listed(values: Iterable[str]) -> str:
    """Return the values in quotes, separated by commas."""
    return ", ".join(map(as_json, values))


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _message(path: str, what: str, detail: str = "") -> str:
    return f"{path}: {what}: {detail}" if detail else f"{path}: {what}"
