"""How the API server encodes a list in protobuf."""

from __future__ import annotations

PROTOBUF = "application/vnd.kubernetes.protobuf"
# The first bytes of each answer in protobuf.
MAGIC = b"k8s\0"
# The metadata of a list ends within this number of bytes.
BEGINNING = 4096
