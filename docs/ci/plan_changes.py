#!/usr/bin/env python3
"""Write a comment for a pull request: what its commits do to the training runs.

A run is a values file, and the file's name without .yaml is the run's name. For each file that differs between two
commits, `helm distrain upgrade --dry-run --from` plans the change. No cluster is asked. With --snapshot, a file of
`helm distrain snapshot`, each run is also checked against that cluster.

The comment goes to stdout. The exit code is 0, or 1 if a run would be refused or can never fit, or 2 for wrong
arguments. Needs only Python 3.10 and git, beside the plugin.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# comment.py finds the comment of an earlier commit by its first line.
MARKER = "<!-- distrain-plan -->"
TITLE = "## What this change does to the training runs"
# In bytes. GitHub refuses a comment of more than 65,536 characters, and Linux a variable of more than 131,072 bytes.
LONGEST = 60_000
LONGEST_MESSAGE = 4_000
REFUSED, IMPOSSIBLE = 2, 11
# The exit codes of a verdict: fits, busy, impossible, depends.
VERDICTS = (0, 10, IMPOSSIBLE, 12)


@dataclass(frozen=True)
class Change:
    """A run's values file before and after; None where the run does not exist."""

    before: str | None
    after: str | None

    @property
    def is_one_run(self) -> bool:
        return bool(self.before and self.after and _name(self.before) == _name(self.after))


@dataclass(frozen=True)
class Section:
    """A part of the comment."""

    text: str
    is_bad: bool = False


class UsageError(Exception):
    """The arguments are wrong, or git cannot read the commits."""


def main() -> int:
    options = _options()
    # git allows file names that are no UTF-8.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        base = _git("merge-base", options.base, options.head).strip()
        sections = [section for change in _changes(options, base) for section in Planner(options, base).plan(change)]
    except UsageError as error:
        print(f"plan_changes.py: {error}", file=sys.stderr)
        return 2
    print(_comment(sections))
    return 1 if any(section.is_bad for section in sections) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="the branch that the change goes to")
    parser.add_argument("--head", default="HEAD", metavar="COMMIT", help="the last commit of the change")
    parser.add_argument("--runs", action="append", metavar="PATTERN", help="the values files of runs: runs/*.yaml")
    words = "a values file that all runs have below their own, repeatable"
    parser.add_argument("--common", action="append", default=[], metavar="FILE", help=words)
    parser.add_argument("--namespace", default="", metavar="NAME", help="namespace of the runs")
    parser.add_argument("--snapshot", default="", metavar="FILE", help="check each run against this cluster, too")
    parser.add_argument("--distrain", default="helm distrain", metavar="COMMAND", help="the plugin's command")
    options = parser.parse_args()
    # git names files without ./
    options.runs = [str(PurePosixPath(pattern)) for pattern in options.runs or ["runs/*.yaml"]]
    options.common = [str(PurePosixPath(file)) for file in options.common]
    return options


def _changes(options: argparse.Namespace, base: str) -> list[Change]:
    """Return the runs that change. If a common file changes, all runs do."""
    words = iter(_git("diff", "--name-status", "-z", "--find-renames", base, options.head).split("\0"))
    changed, has_common = [], False
    for status in words:
        if not status:
            continue
        old = next(words)
        new = next(words) if status[0] in "RC" else old
        has_common = has_common or old in options.common or new in options.common
        before = None if status[0] in "AC" or not _is_run(old, options) else old
        after = None if status[0] == "D" or not _is_run(new, options) else new
        changed += [Change(before, after)] if before or after else []
    if has_common:
        named = {change.after for change in changed}
        every = _git("ls-tree", "-r", "-z", "--full-tree", "--name-only", options.head).split("\0")
        changed += [Change(path, path) for path in every if path not in named and _is_run(path, options)]
    return sorted(_by_name(changed), key=lambda change: change.after or change.before or "")


def _by_name(changed: Sequence[Change]) -> Iterator[Change]:
    """Join the old and the new file of a run that git takes for a removed and an added file, or for renamed ones."""
    old = {_name(change.before): change.before for change in changed if change.before and not change.is_one_run}
    new = {_name(change.after): change.after for change in changed if change.after and not change.is_one_run}
    both = old.keys() & new.keys()
    yield from (Change(old[name], new[name]) for name in both)
    for change in changed:
        before = None if change.before and _name(change.before) in both else change.before
        after = None if change.after and _name(change.after) in both else change.after
        if change.is_one_run:
            yield change
        elif before or after:
            yield Change(before, after)


def _is_run(path: str, options: argparse.Namespace) -> bool:
    return path not in options.common and any(fnmatch.fnmatchcase(path, pattern) for pattern in options.runs)


class Planner:
    """Plan changes with the plugin."""

    def __init__(self, options: argparse.Namespace, base: str) -> None:
        self._options, self._base = options, base

    def plan(self, change: Change) -> Iterator[Section]:
        """Yield the sections of a change: two for a run whose name changes, as Helm knows a run by its name."""
        before, after = change.before, change.after
        if before and after and change.is_one_run:
            yield self._changed(before, after)
            return
        if before:
            yield Section(_removed(before, after))
        if after:
            lost = " It does not find the checkpoints of its old name." if before else ""
            yield self._new(after, f"the run starts once this is merged.{lost}")

    def _changed(self, before: str, after: str) -> Section:
        name = _name(after)
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            old = self._files(folder, "before", self._base, before)
            new = self._files(folder, "after", self._options.head, after)
            words = [word for path in old for word in ("--from", path)]
            words += [word for path in new for word in ("-f", path)]
            done = self._distrain("upgrade", name, "--dry-run", "-o", "markdown", *words)
            if not done.stdout and done.stderr.startswith("distrain: --from: "):
                return self._new(after, "the file before is refused, so the run is taken as a new one.")
            if not done.stdout:
                return _failed(after, done)
            return self._checked(after, done.stdout, new, is_bad=done.returncode != 0)

    def _new(self, after: str, effect: str) -> Section:
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            new = self._files(folder, "after", self._options.head, after)
            words = [word for path in new for word in ("-f", path)]
            done = self._distrain("template", _name(after), "--offline", *words)
            if done.returncode:
                return _failed(after, done)
            text = f"### {code(_name(after))}: a new run\n\n- **Effect:** {effect}"
            return self._checked(after, text, new)

    def _checked(self, path: str, text: str, files: Sequence[str], *, is_bad: bool = False) -> Section:
        """Add the verdict of a check against the snapshot, if there is one."""
        head, _, rest = text.rstrip("\n").partition("\n\n")
        parts = [head, "", f"- **File:** {code(path)}", rest]
        if self._options.snapshot and not is_bad:
            words = [word for file in files for word in ("-f", file)]
            snapshot = ("--snapshot", self._options.snapshot)
            done = self._distrain("check", _name(path), *snapshot, "-o", "markdown", *words)
            if done.returncode not in VERDICTS or not done.stdout:
                return _failed(path, done)
            parts.append(done.stdout.rstrip("\n").partition("\n\n")[2])
            is_bad = done.returncode == IMPOSSIBLE
        return Section("\n".join(parts), is_bad)

    def _files(self, folder: str, when: str, commit: str, path: str) -> list[str]:
        """Write the common files and the run's own file, as they are in the commit; return their paths."""
        there = [each for each in self._options.common if _exists(commit, each)]
        found = []
        for number, each in enumerate([*there, path]):
            # The name does not depend on the path, which may begin with a dash or have a comma.
            target = Path(folder, f"{when}-{number}.yaml")
            target.write_bytes(_read(commit, each))
            found.append(str(target))
        return found

    def _distrain(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["--namespace", self._options.namespace] if self._options.namespace else []
        command = [*shlex.split(self._options.distrain), *words, *where]
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _removed(path: str, new_path: str | None) -> str:
    effect = "- **Effect:** the run ends, and its GPUs are free, once its owner deletes what is not in git any more"
    lines = [f"### {code(_name(path))}: removed", "", f"- **File:** {code(path)}", effect]
    if new_path:
        lines.append(f"- **Renamed:** {code(_name(new_path))} starts as a new run: a run is known by its name")
    return "\n".join(lines)


def _failed(path: str, done: subprocess.CompletedProcess[str]) -> Section:
    """Return the section of a run that the plugin refuses, with the plugin's messages."""
    words = done.stderr.strip()[:LONGEST_MESSAGE] or f"the plugin ended with {done.returncode} and no message"
    fence = "`" * max(3, _longest_ticks(words) + 1)
    head = f"### {code(_name(path))}: refused\n\n- **File:** {code(path)}"
    return Section(f"{head}\n\n{fence}text\n{words}\n{fence}", is_bad=True)


def _comment(sections: Sequence[Section]) -> str:
    """Join the sections; leave out those that do not fit into a comment any more."""
    found = f"{MARKER}\n{TITLE}"
    if not sections:
        return f"{found}\n\nIt changes no run."
    left = 0
    # A refused run is the reason to read the comment.
    for section in sorted(sections, key=lambda section: not section.is_bad):
        longer = f"{found}\n\n{section.text}"
        if len(longer.encode(errors="replace")) > LONGEST:
            left += 1
        else:
            found = longer
    return f"{found}\n\n{left} more that do not fit into this comment" if left else found


def code(words: str) -> str:
    """Return a code span, in which no character of a user's word has a meaning."""
    words = " ".join(words.split())
    fence = "`" * (_longest_ticks(words) + 1)
    padding = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{padding}{words}{padding}{fence}"


def _longest_ticks(words: str) -> int:
    """Return the length of the longest run of backticks: a fence must be longer than any inside it."""
    return max((len(run) for run in re.findall("`+", words)), default=0)


def _name(path: str) -> str:
    return PurePosixPath(path).stem


def _exists(commit: str, path: str) -> bool:
    done = subprocess.run(["git", "cat-file", "-e", f"{commit}:{path}"], capture_output=True, check=False)
    return done.returncode == 0


def _read(commit: str, path: str) -> bytes:
    return _run("cat-file", "blob", f"{commit}:{path}")


def _git(*words: str) -> str:
    return _run(*words).decode(errors="surrogateescape")


def _run(*words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except OSError as error:
        raise UsageError(f"git: cannot be run: {error.strerror}; install git") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        words_of_git = said[0] if said else f"ended with {error.returncode}"
        step = "name commits of this repository, and fetch its whole history"
        raise UsageError(f"git {words[0]}: {words_of_git}; {step}") from error


if __name__ == "__main__":
    sys.exit(main())
