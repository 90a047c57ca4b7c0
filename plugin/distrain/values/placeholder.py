"""Define the placeholder that `init` writes where it finds no image, and refuse to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distrain.errors import ValuesError

# No registry can have a name that ends in .invalid (RFC 2606).
REGISTRY = "registry.invalid/"


def refuse_placeholder(values: Mapping[str, Any]) -> None:
    """Raise ValuesError if the image is the placeholder."""
    image = str((values.get("image") or {}).get("repository") or "")
    if image.startswith(REGISTRY):
        words = "is the placeholder of `helm distrain init`; name the image in your registry"
        raise ValuesError(f'image.repository: "{image}" {words} (docs/images.md says how to build it)')
