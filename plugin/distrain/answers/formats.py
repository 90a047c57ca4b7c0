"""Return an answer as JSON or YAML, for --output."""

from __future__ import annotations

import json
from typing import Any

MARKDOWN = "markdown"


def dumped(answer: Any, form: str) -> str:
    """Return the answer in the format `form`, which is `json` or `yaml`."""
    text = json.dumps(answer, indent=2)
    if form == "json":
        return text
    # Imported late, because an answer in JSON does not need it.
    from distrain.yaml import yaml_writer

    # Parse the JSON again, because PyYAML cannot write an enum: parsed JSON contains only strings, numbers, lists and
    # maps.
    return yaml_writer.dump(json.loads(text), width=120).rstrip()
