"""Write the page of a report: one HTML file that loads no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from distrain import __version__
from distrain.report import plot, summary
from distrain.report.figures import Run
from distrain.report.panels import MOST_ROWS, Panel

TEMPLATE = "page.html"


def html(runs: Sequence[Run], panels: Sequence[Panel]) -> str:
    """Return the HTML page about the runs. All texts from a record are escaped."""
    values = summary.values(runs)
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(TEMPLATE).render(
        title=title(runs),
        runs=runs,
        facts=summary.facts(runs),
        values=values[: summary.MOST_VALUES],
        left_out_values=len(values[summary.MOST_VALUES :]),
        # matplotlib made the SVG and has escaped the texts in it.
        plots=[(panel, Markup(plot.svg(panel)) if panel.is_drawn else "") for panel in panels],
        most_rows=MOST_ROWS,
        version=__version__,
    )


def png(runs: Sequence[Run], panels: Sequence[Panel]) -> bytes:
    facts = summary.in_short(runs[0]) if len(runs) == 1 else summary.of_several(runs)
    return plot.png(panels, facts, title(runs))


def title(runs: Sequence[Run]) -> str:
    labels = [run.label for run in runs]
    return f"Run {labels[0]}" if len(labels) == 1 else f"Runs {', '.join(labels[:-1])} and {labels[-1]}"
