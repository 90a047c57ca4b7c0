"""Read a checkpoint by the published layout alone: https://github.com/huggingface/safetensors#format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "BOOL": "bool"}
TYPES |= {"U8": "uint8", "I8": "int8", "I16": "int16", "BF16": "bfloat16", "C64": "complex64"}


def newest(folder: Path) -> Path:
    """Return the checkpoint that HEAD names."""
    path: Path = folder / json.loads((folder / "HEAD").read_text())["checkpoint"]
    return path


def arrays(checkpoint: Path) -> dict[str, dict[str, Any]]:
    """Return the type, the shape and a digest of each array of a checkpoint."""
    return {
        name: {"dtype": TYPES[told["dtype"]], "shape": told["shape"], "sha256": hashlib.sha256(content).hexdigest()}
        for name, told, content in _read(checkpoint)
    }


def _read(checkpoint: Path) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    for path in sorted(checkpoint.glob("*.safetensors")):
        content = path.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        for name, told in json.loads(content[8:start]).items():
            first, last = told["data_offsets"]
            yield name, told, content[start + first : start + last]
