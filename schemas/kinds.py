"""Copy the facts about each kind of job into the chart and the plugin: `python -m schemas.kinds`.

The source is schemas/kinds.yaml, which people read and change. Helm reads JSON several times as fast as YAML. The
plugin has its own copy, because the trainer's images contain the plugin without the chart.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "schemas" / "kinds.yaml"
TARGETS = (
    REPOSITORY / "charts" / "distrain" / "files" / "kinds.json",
    REPOSITORY / "plugin" / "distrain" / "workload" / "kinds.json",
)


def build() -> str:
    """Return the content of each copy: the facts as JSON. The same YAML gives the same bytes."""
    return json.dumps(yaml.safe_load(SOURCE.read_text(encoding="utf-8")), indent=1) + "\n"


if __name__ == "__main__":
    for target in TARGETS:
        target.write_text(build(), encoding="utf-8")
        print(f"wrote {target}")
