"""Read the positional arguments [NAME] [CHART] as Helm does: a chart may be given without a name.

A single word is a chart if it contains a slash, is "." or "..", or ends in .tgz; otherwise it is a name.
"""

from __future__ import annotations

from distrain.command_line.arguments import VALUES_FILES, release_name
from distrain.errors import ValuesError

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from distrain.command_line.arguments import Parser


class Chart(str):
    """A word on the command line that names a chart, not a release."""

    __slots__ = ()


def add(parser: Parser, words: str, *, default: str | None = None, may_lack: bool = True) -> None:
    """Add the positional arguments NAME (with this help) and CHART. NAME is required, unless `may_lack` is set."""
    settings = {"nargs": "?", "default": default} if may_lack else {}
    parser.add_argument("name", metavar="NAME", type=name_or_chart, help=words, **settings)
    parser.add_argument("chart_word", metavar="CHART", nargs="?", help="the chart, as for --chart")
    parser.settle = settle


def name_or_chart(word: str) -> str:
    is_chart = ("/" in word and not word.endswith(VALUES_FILES)) or word.endswith(".tgz") or word in (".", "..")
    return Chart(word) if is_chart else release_name(word)


def settle(parser: Parser, options: argparse.Namespace, rest: Sequence[str]) -> list[str]:
    """Store the name and the chart in the options. Return the remaining words."""
    rest = list(rest)
    if rest and not rest[0].startswith("-") and options.chart_word is None:
        # argparse does not recognize an optional CHART if a flag stands between NAME and CHART.
        options.chart_word = rest.pop(0)
    default, naming = parser.get_default("name"), getattr(options, "naming", None)
    name = options.name if options.name != default else None
    if name and options.chart_word is None and (naming or isinstance(name, Chart)):
        name, options.chart_word = None, name
    _refuse_wrong_name(parser, name or default, naming)
    _take_chart(parser, options)
    options.name = name or (None if naming else default)
    return rest


def _refuse_wrong_name(parser: Parser, name: str | None, naming: tuple[str, str] | None) -> None:
    """Raise ValuesError if the release name is missing or wrong.

    It is wrong if the user also gives --generate-name, or gives a chart in the place of the name.
    """
    argument, may_generate = parser.positionals[0], "--generate-name" in parser.flags
    if isinstance(name, Chart):
        raise ValuesError(f'NAME: "{name}" is a chart, not a release name; give the release name first, then the chart')
    if name and naming and name != parser.get_default("name"):
        raise ValuesError(f'{naming[0]}: the argument "{name}" already names the release; leave out one of the two')
    if not (name or naming) and (may_generate or argument.nargs is None):
        words = f"is missing: {argument.help}{'; write it, or add --generate-name' if may_generate else ''}"
        raise ValuesError(f"NAME: {words}; see `{parser.prog} --help`")


def _take_chart(parser: Parser, options: argparse.Namespace) -> None:
    chart = options.chart_word
    if chart is None:
        return
    if chart.endswith(VALUES_FILES):
        raise ValuesError(f'CHART: "{chart}" is a file, not a chart; name a values file with -f')
    if options.chart not in (chart, parser.get_default("chart")):
        raise ValuesError(f'CHART: the argument "{chart}" and --chart {options.chart} both name a chart; leave out one')
    options.chart = chart
