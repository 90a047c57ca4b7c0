"""Define the placeholders that `init` writes if it finds no image, and `import` if it finds no program.

Refuse values with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distrain.errors import ValuesError

# No registry can have this name: RFC 2606 reserves names that end in .invalid.
REGISTRY = "registry.invalid/"
# This image is used if the imported source names no image.
IMAGE = f"{REGISTRY}image-to-fill-in"
# This word stands for the program in a command if the imported source does not name the program.
PROGRAM = "PROGRAM-TO-FILL-IN"


def refuse_placeholder(values: Mapping[str, Any]) -> None:
    """Raise ValuesError if the image or the program is still a placeholder."""
    command = values.get("command") or [""]
    if command[0] == PROGRAM:
        step = "write the program that each rank has to run"
        raise ValuesError(f"command[0]: {PROGRAM} is a placeholder written by `helm distrain import`; {step}")
    image = str((values.get("image") or {}).get("repository") or "")
    if image.startswith(REGISTRY):
        writer = "`helm distrain import`" if image == IMAGE else "`helm distrain init`"
        words = f"is a placeholder written by {writer}; name the image in your registry"
        raise ValuesError(f'image.repository: "{image}" {words} (docs/images.md says how to build it)')
