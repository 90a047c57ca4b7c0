"""Run the command `derive`: print the completed values, or tell whether a file's derived lines are stale."""

from __future__ import annotations

import argparse

from distrain import console
from distrain.errors import ValuesError
from distrain.request.request import NO_NODES, Request, import_msgspec

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from distrain.derive.complete import Derived

UP_TO_DATE = "derived values are up to date"


def run(options: argparse.Namespace) -> int:
    if not options.files:
        return _run(options)
    if not options.check:
        raise ValuesError(
            f"FILE: {options.files[0]} can be given only with --check; add --check, or name the file with -f"
        )
    common = _common(options)
    mistakes = [mistake for file in options.files for mistake in _mistakes(common, file)]
    if mistakes:
        raise ValuesError(*mistakes)
    console.answer(UP_TO_DATE)
    return 0


def _common(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options with a copy of each -f file that can be read only once.

    The command reads the -f files again for every FILE, so it needs such a copy.
    """
    # Imported here, because other runs do not need it.
    from distrain.helm import inputs

    source = Request(options).source
    if [*options.files, *source.files].count("-") > 1:
        raise ValuesError("FILE: - is stdin, which can be read only once; name a file")
    return argparse.Namespace(**{**vars(options), "value_flags": inputs.repeatable(source)})


def _mistakes(options: argparse.Namespace, file: str) -> list[str]:
    """Return what is wrong with `file`, one of the FILE arguments.

    The values of the file override the values of -f.
    """
    try:
        _derived(
            Request(argparse.Namespace(**{**vars(options), "value_flags": [*options.value_flags, ("--values", file)]}))
        )
    except ValuesError as error:
        return [f"{file}: {message}" for message in error.messages]
    return []


def _run(options: argparse.Namespace) -> int:
    derived = _derived(Request(options))
    for note in derived.notes:
        console.say(note)
    if options.check:
        console.answer(UP_TO_DATE)
    else:
        # Imported only here, because --check does not print the values.
        from distrain.answers.formats import dumped

        console.answer(dumped(derived.values, "json") if options.output == "json" else derived.text.rstrip("\n"))
    return 0


def _derived(request: Request) -> Derived:
    """Derive the values; with --check, raise ValuesError if a derived line is stale."""
    source = request.source
    request.helm.begin_values(source)
    from distrain.derive.rendering import UNINSTALLED

    request.helm.expect_text(source.chart, UNINSTALLED)
    # Helm is computing the values in another process meanwhile. This import takes about as long as Helm, so it costs no
    # extra time.
    import_msgspec()
    from distrain.derive.complete import derive

    ask = None if request.options.check else request.cluster_nodes(hint=NO_NODES)
    found = derive(request.given(source), ask=ask)
    if request.options.check and found.stale:
        raise ValuesError(found.stale[0])
    return found
