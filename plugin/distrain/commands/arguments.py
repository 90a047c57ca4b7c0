"""What the arguments of all commands have in common: their parser, which teaches, and the types of their values."""

from __future__ import annotations

import argparse
import os
import re
from functools import partial

from distrain import console
from distrain.commands import helptext
from distrain.errors import ValuesError

TYPE_CHECKING = False  # as in cli.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NoReturn

RELEASE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
# Of --help, where the terminal is not narrower.
WIDTH = 100


class Parser(argparse.ArgumentParser):
    """A parser that raises ValuesError, names what was probably meant, and shows the text of its topic as --help."""

    def __init__(self, *, topic: str, **settings: Any) -> None:
        form = partial(argparse.RawDescriptionHelpFormatter, width=_width(), max_help_position=30)
        super().__init__(formatter_class=form, allow_abbrev=False, exit_on_error=False, **settings)
        self.topic = topic

    def format_help(self) -> str:
        """Return usage, description, arguments, examples and exit codes."""
        text, width = helptext.read(self.topic), _width()
        # Short: the flags stand below it, each with a line.
        words = [_usage(action) for action in self._actions if not action.option_strings]
        self.usage = " ".join([self.prog, *words, "[FLAGS]"])
        self.description = helptext.plain(f"{text.summary}\n\n{text.description}".strip(), width)
        if commands := commands_of(self):
            rows = [f"| {name} | {helptext.read(name).summary} |" for name in commands]
            self.description += "\n\ncommands:\n" + helptext.plain("\n".join(rows), width)
        shown = [title for title in (helptext.EXAMPLES, helptext.EXIT_CODES) if title in text.sections]
        told = [f"{title.lower()}:\n{helptext.plain(text.sections[title], width)}" for title in shown]
        self.epilog = "\n\n".join(told)
        return super().format_help()

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options of a whole command line; raises ValuesError for what is wrong in it."""
        first = arguments[0] if arguments else ""
        if first.startswith("-") and first not in self._option_string_actions:
            raise ValuesError(f"{first}: flags stand behind the command, as in `{self.prog} check {first} ...`")
        options: argparse.Namespace
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            raise ValuesError(_unknown(unknown[0], commands_of(self)[options.command]))
        return options

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Raise ValuesError where argparse raises an error that knows no next step."""
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise ValuesError(f"{self._taught(error)}; see `{self.prog} --help`") from error

    def error(self, message: str) -> NoReturn:
        """Say what is missing; argparse raises all else."""
        missing = [action for action in self._actions if action.required and _name(action) in message]
        told = "; ".join(f"{_name(action)}: is missing: {_what(action)}" for action in missing) or message
        raise ValuesError(f"{told}; see `{self.prog} --help`")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help or the version; argparse would pass over a disk that is full."""
        console.answer(message.rstrip("\n"))

    def _taught(self, error: argparse.ArgumentError) -> str:
        action = next((action for action in self._actions if _name(action) == error.argument_name), None)
        if action and error.message.startswith("expected"):
            return f"{error.argument_name}: a value is missing: {action.metavar or 'NAME'}, {action.help}"
        return f"{error.argument_name}: {error.message}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(action.choices)
            words = f'{_name(action)}: there is no "{value}"; it takes {", ".join(choices)}'
            # `version` is a command of other programs.
            flags = list(self._option_string_actions) if isinstance(action, argparse._SubParsersAction) else []
            raise ValuesError(words + meant(str(value), [*choices, *flags]))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """Return the parser of each command, by its name."""
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(subparsers[0].choices) if subparsers else {}


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a parser, less --help."""
    return [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]


def release_name(name: str) -> str:
    """Read the name of a release, as Helm allows it."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        raise argparse.ArgumentTypeError(f'"{name}" is a file, not a release\'s name; name a values file with -f')
    if len(name) > 53 or not RELEASE_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f'"{name}" is no release name: use a-z, 0-9 and -, 53 characters at most')
    return name


def count(number: str) -> int:
    """Read a number of GPUs."""
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f'"{number}" is no number of GPUs: write 8')
    return int(number)


def total(number: str) -> int:
    """Read a number of GPUs that may be none."""
    return 0 if number == "0" else count(number)


def workers(number: str) -> int:
    """Read a number of workers."""
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f'"{number}" is no number of workers: write 4')
    return int(number)


def seconds(duration: str) -> float:
    """Read a duration as Helm writes it: 90s, 10m, 1h30m."""
    found = DURATION.fullmatch(duration)
    if not duration or not found:
        raise argparse.ArgumentTypeError(f'"{duration}" is no duration: write 90s, 10m or 1h30m')
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + rest)


def _width() -> int:
    try:
        return min(WIDTH, os.get_terminal_size().columns)
    except OSError:
        return WIDTH


def _what(action: argparse.Action) -> str:
    return str(action.help) if action.choices is None else f"one of {', '.join(action.choices)}"


def _usage(action: argparse.Action) -> str:
    return f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)


def _name(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or str(action.metavar)


def _unknown(word: str, parser: argparse.ArgumentParser) -> str:
    """Say of a word that no argument takes what it may have been meant for."""
    flags = [flag for action in parser._actions for flag in action.option_strings]
    hint = f"; see `{parser.prog} --help`"
    if word.startswith("-"):
        return f"{word.partition('=')[0]}: there is no such flag" + (meant(word.partition("=")[0], flags) or hint)
    if "--chart" in flags and "/" in word and not word.endswith((".yaml", ".yml")):
        return f'"{word}": is one word too many; name a chart\'s folder with --chart'
    if "--values" in flags and "=" not in word:
        return f'"{word}": is one word too many; name a values file with -f'
    return f'"{word}": is one word too many{hint}'


def meant(word: str, choices: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(choices), n=1)
    return f"; did you mean {close[0]}?" if close else ""
