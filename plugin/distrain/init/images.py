"""Choose the trainer's image from the images that the nodes have pulled.

A node lists at most 50 images, so an image that no node lists may still exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

# containerd and the kubelet add this registry to image names that contain no registry.
DEFAULT_REGISTRY = "docker.io/"


class FoundImage(Struct, frozen=True):
    """An image, and the number of nodes that have it."""

    name: str
    nodes: int
    of: int


def trainers_name(framework: str, gpus: int) -> str:
    """Return the name that docs/images.md gives to the trainer's image."""
    return f"distrain/{framework}-cuda" if gpus else f"distrain/{framework}"


def found_image(name: str, version: str, nodes: Sequence[Sequence[str]]) -> FoundImage | None:
    """Choose an image of this name: prefer images of this version, and among these the image that the most nodes have.

    `nodes` lists the images of each node.
    """
    counts = Counter(image for images in nodes for image in set(images) if _is_of(name, image))
    if not counts:
        return None
    best = max(sorted(counts), key=lambda image: (image.endswith(f":{version}"), counts[image]))
    # If the user sets no tag, the chart uses the image with the chart's own version as its tag.
    shown = best.removeprefix(DEFAULT_REGISTRY).removesuffix(f":{version}")
    return FoundImage(shown, counts[best], len(nodes))


def _is_of(name: str, image: str) -> bool:
    repository, _, tag = image.rpartition(":")
    # Skip a name that contains a digest (`@`): the node also lists a name of the same image with a tag.
    return "@" not in image and bool(tag) and (repository == name or repository.endswith(f"/{name}"))
