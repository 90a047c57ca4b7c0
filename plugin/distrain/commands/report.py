"""Run the command `report`: draw a page and a picture about runs, from the runs' records."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from distrain import console
from distrain.answers.output_file import replacing
from distrain.command_line.arguments import wrong_name
from distrain.errors import DistrainError, ValuesError, reason
from distrain.request.request import Request, import_msgspec

if TYPE_CHECKING:
    from distrain.record.read import Record
    from distrain.report.figures import Run

PAGE, PICTURE = "report.html", "report.png"
# Each run in a plot has its own colour. With more than MOST_RUNS colours, a reader could not tell the runs apart.
MOST_RUNS = 8


def run(options: argparse.Namespace) -> int:
    import_msgspec()
    from distrain.record import libraries

    if len(options.runs) > MOST_RUNS:
        raise ValuesError(f"RUN: {len(options.runs)} runs are too many for one plot; name at most {MOST_RUNS}")
    libraries.require(libraries.PLOTS, "report")
    folder = Path(options.output)
    targets = [folder / PAGE, folder / PICTURE]
    _refuse_existing(folder, targets, is_forced=options.force)
    _write(_drawn(_runs(Request(options), options)), targets)
    return 0


def _refuse_existing(folder: Path, targets: Sequence[Path], *, is_forced: bool) -> None:
    """Raise ValuesError if the folder is a file, or if it contains an earlier report and --force is not given."""
    try:
        is_file = folder.exists() and not folder.is_dir()
        has_report = any(target.exists() for target in targets)
    except (OSError, ValueError) as error:
        raise ValuesError(f"--output: {folder} cannot be read: {reason(error)}; name another folder") from error
    if is_file:
        raise ValuesError(f"--output: {folder} is a file; name a folder")
    if has_report and not is_forced:
        raise ValuesError(
            f"--output: {folder} already contains a report; name another folder, or add --force to replace the report"
        )


def _runs(request: Request, options: argparse.Namespace) -> list[Run]:
    """Read all records. If some records cannot be read, raise one error with a message for each of them."""
    from distrain.report.figures import run_of

    found: list[Run] = []
    errors: list[DistrainError] = []
    for word, label in zip(options.runs, _labels(options.runs), strict=True):
        try:
            record, place = _record(request, word, options.endpoint or "")
            if not record.lines:
                raise ValuesError(f"RUN: {place} is empty: the run has not written its first line yet; try again later")
            found.append(run_of(record, label, place))
        except DistrainError as error:
            errors.append(error)
    if errors:
        raise _together(errors)
    return found


def _together(errors: Sequence[DistrainError]) -> DistrainError:
    first = errors[0]
    first.messages = tuple(message for error in errors for message in error.messages)
    return first


def _record(request: Request, word: str, endpoint: str) -> tuple[Record, str]:
    from distrain.record import source

    if source.is_place(word):
        return source.from_place(word, endpoint)
    if mistake := wrong_name(word):
        raise ValuesError(f"RUN: {mistake}; write the name of a folder with a slash, as in ./{word}")
    found = request.record(word, endpoint, f"helm distrain report ./{word}")
    if found is None:
        known = f"; if you mean the local folder, write ./{word}" if os.path.isdir(word) else ""
        namespace = request.cluster.target.namespace
        words = f"there is no release of this name in namespace {namespace}; if it was uninstalled, give the location"
        raise ValuesError(f"{word}: {words} of its record, as in s3://bucket/{namespace}/{word}{known}")
    return found


def _labels(words: Sequence[str]) -> list[str]:
    """Return a short name for each run, which is the name of its release or of its folder.

    If several runs have the same name, a number is added to each of these names: NAME (1), NAME (2).
    """
    names = [_label(word) for word in words]
    counts, seen = Counter(names), Counter[str]()
    for index, name in enumerate(names):
        if counts[name] > 1:
            seen[name] += 1
            names[index] = f"{name} ({seen[name]})"
    return names


def _label(word: str) -> str:
    path = word.rstrip("/")
    folder = os.path.dirname(path) if path.endswith(".jsonl") else path
    name = os.path.basename(folder if "://" in folder else os.path.abspath(folder))
    return console.printable(name.encode(errors="replace").decode()) or word


def _drawn(runs: Sequence[Run]) -> list[bytes]:
    from distrain.report import page
    from distrain.report.panels import panels

    plots = panels(runs)
    return [page.html(runs, plots).encode(errors="replace"), page.png(runs, plots)]


def _write(contents: Sequence[bytes], targets: Sequence[Path]) -> None:
    folder = targets[0].parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ValuesError(f"--output: {folder} cannot be created: {reason(error)}; name another folder") from error
    with ExitStack() as stack:
        # Both files are written first, and only then do they replace the old files.
        files = [stack.enter_context(replacing(target)) for target in targets]
        for file, content in zip(files, contents, strict=True):
            file.write(content)
            file.flush()
    console.say(f"wrote {' and '.join(map(str, targets))}")
