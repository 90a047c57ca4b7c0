"""Define the parser that all commands use, and the types of their arguments.

argparse has no public way to list a parser's arguments, or to change the text of an error. So the parser keeps its own
list of arguments, and checks choices itself.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
from functools import partial

from distrain import console
from distrain.command_line import helm_flags, helptext
from distrain.errors import ValuesError

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, NoReturn

# These patterns are strings, which are compiled only where they are needed.
RELEASE_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LONGEST_NAME = 53
# A word with one of these endings is a values file, and no name of a release or chart.
VALUES_FILES = (".yaml", ".yml")
# The values that Go's parser accepts for a switch, as in --wait=false.
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
# Helm has these commands, but this plugin does not. Users may type them here, because other commands have the same name
# in Helm and in this plugin.
HELMS_OWN = ("get", "history", "lint", "list", "rollback", "test", "uninstall")
# argparse's message if two arguments exclude each other.
EXCLUDED = "not allowed with argument "
# The width of --help on a wide terminal.
WIDTH = 100
# A suggestion needs at least this ratio of common characters (difflib). "bogus" and "logs" have 0.67.
LEAST_SIMILARITY = 0.7


class Parser(argparse.ArgumentParser):
    """A parser that raises ValuesError, suggests a similar word, and prints the help text of its topic for --help.

    `arguments` lists all arguments, `groups` the arguments in each titled group, and `commands` the parser of each
    command. `alone` has, for each flag that may be written without `=value`, the value that the flag then gets.
    `required` lists groups of arguments; the user must give one argument of each group. After parsing, `settle`
    completes the options, and returns the words that belong to no argument.
    """

    def __init__(self, *, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.arguments: list[argparse.Action] = []
        self.groups: dict[str, list[argparse.Action]] = {}
        self.commands: dict[str, Parser] = {}
        self.alone: dict[str, str] = {}
        self.required: list[Group] = []
        self.settle: Callable[[Parser, argparse.Namespace, Sequence[str]], list[str]] = lambda _, __, rest: [*rest]
        form = partial(argparse.RawDescriptionHelpFormatter, width=_width(), max_help_position=30)
        super().__init__(formatter_class=form, allow_abbrev=False, exit_on_error=False, **settings)

    @property
    def flags(self) -> dict[str, argparse.Action]:
        return {flag: action for action in self.arguments for flag in action.option_strings}

    @property
    def positionals(self) -> list[argparse.Action]:
        return [action for action in self.arguments if not action.option_strings]

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **_checked(names, settings))
        self.arguments.append(action)
        return action

    def add_titled(self, title: str) -> Group:
        """Add a group of arguments that has its own title in --help."""
        self.groups[title] = []
        return Group(self, self.add_argument_group(title), self.groups[title])

    def add_exclusive(self, *, required: bool = False) -> Group:
        """Add a group of arguments that exclude each other: the user may give only one of them."""
        group = Group(self, self.add_mutually_exclusive_group(required=required), [])
        self.required += [group] if required else []
        return group

    def format_help(self) -> str:
        """Return usage, description, arguments, examples and exit codes."""
        text, width = helptext.read(self.topic), _width()
        # The usage line names no flags, because each flag has its own line below it.
        words = ["COMMAND"] if self.commands else [_usage(action) for action in self.positionals]
        self.usage = " ".join([self.prog, *words, "[FLAGS]"])
        self.description = helptext.plain(f"{text.summary}\n\n{text.description}".strip(), width)
        if self.commands:
            rows = [f"| {name} | {helptext.read(name).summary} |" for name in self.commands]
            self.description += "\n\ncommands:\n" + helptext.plain("\n".join(rows), width)
        shown = [title for title in (helptext.EXAMPLES, helptext.EXIT_CODES) if title in text.sections]
        told = [f"{title.lower()}:\n{helptext.plain(text.sections[title], width)}" for title in shown]
        self.epilog = "\n\n".join(told)
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Print the help.

        Argparse would ignore an error when it writes the help, for example because the disk is full.
        """
        console.answer(self.format_help().rstrip("\n"))

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options of a whole command line; raise ValuesError if the command line is wrong."""
        first = arguments[0] if arguments else ""
        if first.startswith("-") and first not in self.flags:
            raise ValuesError(f"{first}: flags come after the command, as in `{self.prog} check {first} ...`")
        if not first.startswith("-") and first not in self.commands:
            if first in HELMS_OWN:
                raise ValuesError(f'COMMAND: distrain has no command "{first}", but Helm has it: helm {first}')
            # Other programs have a command `version`. The flags are among the words to suggest, so the message suggests
            # --version.
            raise _unknown_choice("COMMAND", first, [*self.commands], self.flags)
        if first in self.commands:
            arguments = [first, *self.commands[first].spelled_out(arguments[1:])]
        options: argparse.Namespace
        options, unknown = self.parse_known_args(arguments)
        command = self.commands[options.command]
        if unknown := command.settle(command, options, unknown):
            raise ValuesError(_unknown(unknown[0], command))
        return options

    def spelled_out(self, words: Sequence[str]) -> Iterator[str]:
        """Yield a command's words in the form that argparse needs.

        Helm also accepts two forms that argparse does not: a value for a switch (`--wait=true`), and `--dry-run`
        without a value.

        Raise ValuesError for a flag of Helm that the command refuses.
        """
        flags, name = self.flags, self.topic
        for word in self._with_negatives(words):
            flag, has_value, value = word.partition("=")
            action = flags.get(flag)
            if action is None and (why := helm_flags.refusal(name, flag)):
                raise ValuesError(f"{flag}: {name} does not accept this flag of Helm: {why}")
            if action and action.nargs == 0 and has_value:
                yield from [flag] if _is_true(flag, value) else []
            else:
                yield f"{flag}={self.alone[flag]}" if flag in self.alone and not has_value else word
        self._refuse_unknown(words)

    def _with_negatives(self, words: Sequence[str]) -> Iterator[str]:
        """Join a flag and a value such as -5s with `=`, because argparse would take this value for another flag."""
        flags, left = self.flags, iter(words)
        for word in left:
            action = flags.get(word)
            value = next(left, None) if action and action.nargs is None and word not in self.alone else None
            if value is not None and re.match(r"-\.?\d", value):
                yield f"{word}={value}" if word.startswith("--") else f"{word}{value}"
            else:
                yield word
                yield from () if value is None else (value,)

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        """Raise ValuesError for an unknown flag.

        If argparse parsed these words first, it would report missing arguments instead of the unknown flag.
        """
        flags = self.flags
        for word in itertools.takewhile(lambda word: word != "--", words):
            flag = word.partition("=")[0] if word.startswith("--") else word[:2]
            # Like argparse, treat a word that contains a space as a value, and -1 as a number.
            if re.match("--?[A-Za-z]", word) and " " not in word and flag not in flags:
                raise ValuesError(_unknown(word, self))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments. Convert argparse's error to a ValuesError that also names the next step."""
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise ValuesError(f"{self._taught(error)}; see `{self.prog} --help`") from error

    def error(self, message: str) -> NoReturn:
        """Report a missing argument.

        argparse calls this method for missing arguments, and raises an exception for any other mistake.
        """
        missing = [action for action in self.arguments if action.required and _name(action) in message]
        told = "; ".join(f"{_name(action)}: is missing: {_what(action)}" for action in missing)
        groups = [group.names for group in self.required if all(name in message for name in group.names)]
        told = told or "; ".join(f"{' or '.join(names)}: is missing" for names in groups) or message
        raise ValuesError(f"{told}; see `{self.prog} --help`")

    def _taught(self, error: argparse.ArgumentError) -> str:
        action = next((action for action in self.arguments if _name(action) == error.argument_name), None)
        if action and error.message.startswith("expected"):
            return f"{error.argument_name}: a value is missing: {action.metavar or 'NAME'}, {action.help}"
        if error.message.startswith(EXCLUDED):
            other = error.message.removeprefix(EXCLUDED)
            return f"{error.argument_name}: cannot be combined with {other}; leave out one of the two"
        return f"{error.argument_name}: {error.message}"


class Group:
    def __init__(self, parser: Parser, group: Any, members: list[argparse.Action]) -> None:
        self._parser, self._group, self._members = parser, group, members

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        action: argparse.Action = self._group.add_argument(*names, **_checked(names, settings))
        self._members.append(action)
        self._parser.arguments.append(action)
        return action

    @property
    def names(self) -> list[str]:
        return [_name(action) for action in self._members]


class Version(argparse.Action):
    """The flag --version. The flag prints the version, and fails if stdout is closed or full."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        console.answer(str(self.const))
        parser.exit()


def _checked(names: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """If an argument has choices, give it a type whose error message suggests what the user probably meant.

    If the argument has a type already, this type first converts the user's word to a choice.
    """
    if not settings.get("choices"):
        return settings
    name = "/".join(names) if names[0].startswith("-") else settings["metavar"]
    return {**settings, "type": partial(_choice, name, settings["choices"], settings.get("type", str))}


def _choice(name: str, choices: Sequence[str], meaning: Callable[[str], str], word: str) -> str:
    if (value := meaning(word)) not in choices:
        raise _unknown_choice(name, word, choices)
    return value


def _unknown_choice(name: str, value: str, choices: Sequence[str], more: Iterable[str] = ()) -> ValuesError:
    """Return the error for a wrong choice.

    The error suggests the most similar word among the choices and the words in `more`.
    """
    words = f'{name}: there is no "{value}"; choose {", ".join(choices)}'
    return ValuesError(words + meant(value, [*choices, *more]))


def named(name: str) -> str:
    """Read the name of a file or a node. The name is empty if the user's shell has not set a variable."""
    if not name:
        raise argparse.ArgumentTypeError("it is empty; name one, or leave the flag out")
    return name


def endpoint(url: str) -> str:
    """Read the URL of an S3 server. The message does not repeat the URL, because it may contain a password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(named(url))
        # Reading the port raises ValueError if it is not a number.
        is_server = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server or re.search(r"[\s@]", url):
        raise argparse.ArgumentTypeError("it is no URL of a server; write https://s3.example.com, without a login")
    return url


def release_name(name: str) -> str:
    """Read the name of a release; it must be a name that Helm allows."""
    if "/" in name or name.endswith(VALUES_FILES):
        raise argparse.ArgumentTypeError(f'"{name}" is a file, not a release\'s name; name a values file with -f')
    if words := wrong_name(name):
        raise argparse.ArgumentTypeError(words)
    return name


def wrong_name(name: str) -> str:
    """Return why Helm does not allow a release of this name, or an empty string if Helm allows it."""
    is_allowed = len(name) <= LONGEST_NAME and re.fullmatch(RELEASE_NAME, name)
    words = f'"{name}" is not a valid release name: use a-z, 0-9 and -, {LONGEST_NAME} characters at most'
    return "" if is_allowed else words


def goal(text: str) -> str:
    """Parse the goal of `status --for`: Succeeded, Running or step=N."""
    name, has_number, number = text.partition("=")
    known = {"succeeded": "Succeeded", "running": "Running"}
    if not has_number and name.lower() in known:
        return known[name.lower()]
    if name.lower() == "step" and number.isdecimal():
        return f"step={int(number)}"
    raise argparse.ArgumentTypeError(f'there is no "{text}"; choose Succeeded, Running or step=N, as in step=100')


def dry_run(form: str) -> str:
    """Parse the value of --dry-run: `client`, `server`, or an empty string for a change that is carried out."""
    forms = {"client": "client", "server": "server", "none": ""}
    forms |= dict.fromkeys(TRUE, "client") | dict.fromkeys(FALSE, "")
    if form not in forms:
        raise argparse.ArgumentTypeError(f'there is no "{form}"; choose client, server, none')
    return forms[form]


def _is_true(flag: str, word: str) -> bool:
    word = helm_flags.WAITS.get(word, word) if flag == "--wait" else word
    if word not in TRUE + FALSE:
        raise ValuesError(f'{flag}: "{word}" is neither true nor false; write {flag} or leave it out')
    return word in TRUE


def _width() -> int:
    try:
        # If the terminal does not know its size, the number of columns is 0.
        return min(WIDTH, os.get_terminal_size().columns or WIDTH)
    except OSError:
        return WIDTH


def _what(action: argparse.Action) -> str:
    return str(action.help) if action.choices is None else f"one of {', '.join(action.choices)}"


def _usage(action: argparse.Action) -> str:
    forms = {"?": f"[{action.metavar}]", "*": f"[{action.metavar}...]", "+": f"{action.metavar}..."}
    return forms.get(str(action.nargs), str(action.metavar))


def _name(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or str(action.metavar)


def _unknown(word: str, parser: Parser) -> str:
    """Return the error message for a word that belongs to no argument of the command."""
    flags = parser.flags
    hint = f"; see `{parser.prog} --help`"
    if word.startswith("-"):
        return f"{word.partition('=')[0]}: there is no such flag" + (meant(word.partition("=")[0], flags) or hint)
    if "--values" in flags and "=" not in word:
        return f'"{word}": is an unexpected argument; name a values file with -f{_about_records(word, flags)}'
    return f'"{word}": is an unexpected argument{hint}'


def _about_records(word: str, flags: Iterable[str]) -> str:
    """Return a hint for a user who gives `predict` the name of a release."""
    if "--record" not in flags or word.endswith(VALUES_FILES):
        return ""
    return ", and the record of a run with --record; the command report takes the name of a run"


def meant(word: str, choices: Iterable[str]) -> str:
    """Return a hint that names the choice most similar to the word, or an empty string if none is similar."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(choices), n=1, cutoff=LEAST_SIMILARITY)
    return f"; did you mean {close[0]}?" if close else ""
