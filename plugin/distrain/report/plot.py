"""Draw the plots of a report with matplotlib: each as an SVG whose colours come from the page, and all as one PNG."""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from distrain.report.panels import EVENTS, PARTS, Panel, Series

# At its first use matplotlib logs its search for fonts, and it logs problems in the user's matplotlibrc.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

# The size of a plot in inches, and the font size in points. On the page, a plot is about as large: 4.2 inches are 302
# points or 403 pixels.
SIZE, FONT = (4.2, 2.9), 10
COLUMNS, PNG_PANEL, DPI = 3, (4.4, 3.3), 100
# For each part of a step, the index of its colour in the theme's list of colours for runs.
PART_COLOURS = (1, 3, 0, 7, 2)
DASHES = ("-", "--", "-.", ":")
MARKERS = {"start": ">", "checkpoint": "|", "rescale": "D", "kill": "x", "end": "s"}
# The points of a line get markers if the line has at most MOST_MARKED points.
MOST_MARKED = 60
# A legend cuts the names of runs to this length. Its own labels, such as "2(N-1)K/N, K = 1.687 MB", are shorter.
LONGEST_LABEL = 24
# Removed from an SVG, because a page may not contain them: the XML declaration, and matplotlib's description of the
# file.
HEAD, METADATA = re.compile(r"^.*?(?=<svg)", re.DOTALL), re.compile(r" *<metadata>.*?</metadata>\n", re.DOTALL)
# matplotlib uses the same group ids in each SVG, so these ids would clash in a page with several plots. Only elements
# to which other elements of the plot refer need an id.
NAMES = re.compile(r'(<(?:g|svg)\b[^>]*?) id="[^"]*"')
FONTS = re.compile(r"font: (?:\w+ )*?([\d.]+)px [^;\"]*|font-family: [^;\"]*;? ?")


class Theme(NamedTuple):
    """Colours.

    In an SVG the colours are placeholders for the variables of the page, because matplotlib accepts only real colours.
    """

    text: str
    grid: str
    ground: str
    runs: tuple[str, ...]
    kill: str
    rescale: str


# Each colour has a contrast ratio of at least 4.5 to white.
LIGHT = Theme(
    "#1c2430",
    "#d9dee5",
    "#ffffff",
    ("#1f6fb5", "#b35300", "#1b7f4d", "#7a4fb0", "#b3305f", "#0b7285", "#80561f", "#4d5b6b"),
    "#c0291f",
    "#1f6fb5",
)
PLACEHOLDERS = Theme(
    "#010101", "#010102", "#010103", tuple(f"#0102{number:02x}" for number in range(8)), "#010104", "#010105"
)
VARIABLES = {
    PLACEHOLDERS.text: "currentColor",
    PLACEHOLDERS.grid: "var(--grid)",
    PLACEHOLDERS.ground: "var(--ground)",
    PLACEHOLDERS.kill: "var(--kill)",
    PLACEHOLDERS.rescale: "var(--rescale)",
    **{colour: f"var(--run-{number})" for number, colour in enumerate(PLACEHOLDERS.runs)},
}
STYLE = {
    "font.size": FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": FONT,
    "legend.fontsize": FONT - 1,
    "legend.frameon": False,
    # A run's name may contain a dollar sign, which would start a formula.
    "text.parse_math": False,
    # The space in inches between the plots of the PNG and at its edges.
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.12,
    "svg.fonttype": "none",
    "path.simplify": False,
}


def svg(panel: Panel) -> str:
    """Return a plot as an SVG element for a page. The SVG has a name and a description for screen readers."""
    with _style(panel.name):
        figure = Figure(figsize=SIZE, layout="constrained")
        _draw(figure.add_subplot(), panel, PLACEHOLDERS)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = METADATA.sub("", HEAD.sub("", file.getvalue()))
    text = FONTS.sub(lambda found: f"font-size: {found[1]}px" if found[1] else "", NAMES.sub(r"\1", text))
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    return _described(text, panel)


@contextmanager
def _style(name: str = "") -> Iterator[None]:
    """Set the style of the plots, whatever the matplotlibrc of the user says.

    The same plot always gives the same bytes.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        # matplotlib prints a warning for each character that its font lacks.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        style: Any = {**STYLE, "svg.hashsalt": name}
        matplotlib.rcParams.update(style)
        yield


def _described(text: str, panel: Panel) -> str:
    """Add a role, a title and a description to an SVG, and the width of its place in the page."""
    opening = re.compile(r'<svg\b[^>]*?viewBox="([^"]*)"[^>]*>')
    named = f"{panel.name}-title {panel.name}-words"
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="\\1" role="img" aria-labelledby="{named}">'
    title = f'<title id="{panel.name}-title">{escape(panel.title)}</title>'
    words = f'<desc id="{panel.name}-words">{escape(panel.words)}</desc>'
    links = text.replace("xlink:href", "href")
    return opening.sub(lambda found: f"{found.expand(start)}{title}{words}", links, count=1)


def png(panels: Sequence[Panel], facts: Sequence[str], heading: str) -> bytes:
    """Return all plots as one PNG. The first cell contains lines with facts."""
    with _style():
        rows = math.ceil((len(panels) + 1) / COLUMNS)
        figure = Figure(figsize=(COLUMNS * PNG_PANEL[0], rows * PNG_PANEL[1]), layout="constrained")
        FigureCanvasAgg(figure)
        places = [figure.add_subplot(rows, COLUMNS, number + 1) for number in range(len(panels) + 1)]
        _write(places[0], heading, facts)
        for axes, panel in zip(places[1:], panels, strict=True):
            axes.set_title(panel.title, loc="left", color=LIGHT.text)
            if panel.is_drawn:
                _draw(axes, panel, LIGHT)
            else:
                _write(axes, panel.title, _wrapped(panel.words))
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
        return file.getvalue()


def _wrapped(words: str) -> list[str]:
    import textwrap

    return textwrap.wrap(words, 52)


def _write(axes: Any, heading: str, lines: Sequence[str]) -> None:
    axes.set_axis_off()
    axes.set_title(heading, loc="left", color=LIGHT.text, fontweight="bold")
    axes.text(0, 1, "\n".join(lines), va="top", transform=axes.transAxes, color=LIGHT.text, linespacing=1.6)


def _draw(axes: Any, panel: Panel, theme: Theme) -> None:
    drawing: dict[str, Callable[[Any, Panel, Theme], None]] = {"events": _draw_events, "step": _draw_bars}
    drawing.get(panel.name, _draw_lines)(axes, panel, theme)
    axes.set_xlabel(panel.across, color=theme.text)
    axes.set_ylabel(panel.up, color=theme.text)
    axes.tick_params(colors=theme.text)
    for spine in axes.spines.values():
        spine.set_color(theme.grid)
    legend = axes.get_legend()
    for text in legend.get_texts() if legend else ():
        text.set_color(theme.text)


def _draw_lines(axes: Any, panel: Panel, theme: Theme) -> None:
    axes.grid(color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    for series in panel.series:
        _draw_line(axes, series, theme)
    for event, place in panel.marks:
        style, colour = ("--", theme.kill) if event == "kill" else (":", theme.rescale)
        axes.axvline(place, color=colour, linewidth=0.8, linestyle=style)
    low = min(y for series in panel.series for _, y in filter(None, series.places))
    if low >= 0:
        axes.set_ylim(bottom=0)
    if panel.name in ("scaling", "all-reduce"):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    else:
        _thousands(axes.xaxis)
    _thousands(axes.yaxis)
    _add_legend(axes, panel)


def _draw_line(axes: Any, series: Series, theme: Theme) -> None:
    colour = theme.text if series.run < 0 else theme.runs[series.run % len(theme.runs)]
    across = [math.nan if place is None else place[0] for place in series.places]
    up = [math.nan if place is None else place[1] for place in series.places]
    number = len(across)
    style = "--" if series.is_ideal else DASHES[series.run // len(theme.runs) % len(DASHES)]
    is_marked = not series.is_ideal and (number <= MOST_MARKED or _has_lone(series))
    axes.plot(
        across,
        up,
        color=colour,
        linestyle="none" if series.is_points else style,
        linewidth=1.0 if series.is_ideal else 1.4,
        marker="o" if series.is_points else "." if is_marked else None,
        markersize=5 if series.is_points else 5 if number <= 12 else 4,
        label=series.label,
    )


def _has_lone(series: Series) -> bool:
    """Tell whether a series has a point without neighbours.

    The point must be drawn by itself, because no line reaches it.
    """
    places = [None, *series.places, None]
    return any(
        place is not None and places[index] is None and places[index + 2] is None
        for index, place in enumerate(series.places)
    )


def _draw_events(axes: Any, panel: Panel, theme: Theme) -> None:
    axes.grid(color=theme.grid, linewidth=0.6, axis="x")
    axes.set_axisbelow(True)
    for series in panel.series:
        for index, event in enumerate(EVENTS):
            places = [place for place in series.places if place and round(place[1]) == index]
            across, up = [x for x, _ in places], [y for _, y in places]
            colour = theme.runs[series.run % len(theme.runs)]
            label = series.label if event == "start" else None
            marker, size = MARKERS[event], 9 if event == "checkpoint" else 5
            axes.plot(across, up, linestyle="none", marker=marker, markersize=size, color=colour, label=label)
    axes.set_yticks(range(len(EVENTS)), EVENTS)
    axes.set_ylim(len(EVENTS) - 0.5, -0.5)
    _thousands(axes.xaxis)
    _add_legend(axes, panel)


def _draw_bars(axes: Any, panel: Panel, theme: Theme) -> None:
    """Draw one bar for each number of ranks.

    Each bar has the parts of a step, and each part has the same colour in every report.
    """
    labels = [bar.label for bar in panel.bars]
    left = [0.0] * len(panel.bars)
    colours = dict(zip(PARTS, (theme.runs[number] for number in PART_COLOURS), strict=True))
    for number, part in enumerate(panel.parts):
        widths = [bar.parts[number] or 0.0 for bar in panel.bars]
        places = range(len(labels))
        axes.barh(places, widths, left=left, height=0.55, color=colours[part], edgecolor=theme.ground, label=part)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(labels)), [_cut(label) for label in labels])
    # The legend is below the bars and takes this share of the plot's height.
    share = 0.03 + 0.08 * len(panel.parts)
    axes.set_ylim(len(labels) - 0.5 + max(0.9, len(labels) * share / (1 - share)), -0.6)
    axes.grid(color=theme.grid, linewidth=0.6, axis="x")
    axes.set_axisbelow(True)
    axes.legend(loc="lower left", handlelength=1.2)


def _thousands(axis: Any) -> None:
    """Write large numbers as 20k or 3M, so that adjacent numbers do not overlap."""
    axis.set_major_locator(MaxNLocator(nbins=6))
    axis.set_major_formatter(lambda number, _: _tick(number))


def _tick(number: float) -> str:
    size = abs(number)
    if size >= 1e15:
        return f"{number:.0e}"
    for letter, unit in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= unit and (size >= 10 * unit or unit > 1e3):
            return f"{number / unit:.4g}{letter}"
    return f"{number:.4g}"


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"


def _add_legend(axes: Any, panel: Panel) -> None:
    if len(panel.series) > 1:
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, [_cut(label) for label in labels], loc="best", handlelength=1.8)
