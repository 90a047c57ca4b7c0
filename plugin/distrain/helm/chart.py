"""Find the chart's folder; unpack a chart that is a .tgz file; refuse a chart whose files cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from distrain.errors import ValuesError, reason

# Distrain's own chart, which is beside the modules, is not checked at each start.
OWN = Path(__file__).parents[1] / "chart"
SCHEMA = "values.schema.json"


def chart_folder(named: str) -> Path:
    """Return the folder of the chart; raise ValuesError if there is no such chart."""
    chart = Path(named)
    if chart.is_file():
        # Imported here, because most charts are folders.
        from distrain.helm.archive import unpacked

        return unpacked(chart)
    if not (chart / "Chart.yaml").is_file():
        words = (
            "is neither a chart's folder nor a .tgz file; name the folder that contains Chart.yaml, or fetch the chart"
        )
        raise ValuesError(f"--chart: {named} {words} with `helm pull`")
    return chart


def refuse_broken(chart: Path, named: str) -> None:
    """Raise ValuesError with a line for each unreadable file of the chart.

    `named` is the name that the user gave the chart.
    """
    if chart.resolve() != OWN.resolve() and (mistakes := [*_mistakes(chart)]):
        raise ValuesError(*(f"--chart: {named}: {mistake}" for mistake in mistakes))


def chart_schema(chart: Path) -> dict[str, Any]:
    """Return the schema of the chart's values; raise ValuesError if the chart has none."""
    try:
        schema = json.loads((chart / SCHEMA).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValuesError(f"--chart: {chart} has no {SCHEMA} that can be read; is it distrain's chart?") from error
    return schema if isinstance(schema, dict) else {}


def _mistakes(chart: Path) -> Iterator[str]:
    """Yield a line for each file of the chart that has a wrong form."""
    # Imported here, because most charts are distrain's own.
    from distrain.yaml.yaml_loader import load

    for name, parse in (("Chart.yaml", load), ("values.yaml", load), (SCHEMA, json.loads)):
        if (chart / name).exists() and (mistake := _mistake(chart / name, parse)):
            yield f"{name} {mistake}; correct that file"


def _mistake(path: Path, parse: Callable[[str], Any]) -> str:
    """Return what is wrong with a file, or an empty string if nothing is wrong."""
    try:
        found = parse(path.read_text("utf-8"))
    except (OSError, UnicodeError) as error:
        return f"cannot be read: {reason(error)}"
    except (ValueError, RecursionError):
        return f"is no {'JSON' if path.name == SCHEMA else 'YAML'}"
    if found is None and path.name == "values.yaml":
        return ""
    if not isinstance(found, dict):
        return "is not a mapping of keys"
    if path.name == "Chart.yaml" and not all(isinstance(found.get(key), str) for key in ("name", "version")):
        return "has no name or no version"
    return ""
