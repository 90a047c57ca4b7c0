"""Find the chart's folder; unpack a chart that is a .tgz file."""

from __future__ import annotations

from pathlib import Path

from distrain.errors import ValuesError


def chart_folder(named: str) -> Path:
    """Return the folder of the chart; raise ValuesError if there is no such chart."""
    chart = Path(named)
    if chart.is_file():
        # Imported here, because most charts are folders.
        from distrain.helm.archive import unpacked

        return unpacked(chart)
    if not (chart / "Chart.yaml").is_file():
        words = "is no chart's folder or .tgz file; name the folder that holds its Chart.yaml, or fetch it"
        raise ValuesError(f"--chart: {named} {words} with `helm pull`")
    return chart
