"""Copy the facts about the kinds of job into the plugin: `python -m schemas.kinds`.

People read and change charts/distrain/files/kinds.yaml. The trainer's images have the plugin without the chart, so the
plugin has a copy of its own, which is also faster to read.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "charts" / "distrain" / "files" / "kinds.yaml"
TARGET = REPOSITORY / "plugin" / "distrain" / "workload" / "kinds.json"


def build() -> str:
    """Return the text of the copy; the same YAML gives the same bytes."""
    return json.dumps(yaml.safe_load(SOURCE.read_text(encoding="utf-8")), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
