#!/usr/bin/env python3
"""Write a comment for a pull request that says what its commits change in the training runs.

Each run has a values file, and the file's name without .yaml is the name of the run. For each file that differs between
two commits, `helm distrain upgrade --dry-run --from` plans the change. The plan needs no cluster. With --snapshot FILE,
each run is also checked against a file from `helm distrain snapshot`.

The comment goes to stdout. The exit code is 1 if the plugin refuses a run or if a run can never fit, 2 for wrong
arguments, and otherwise 0. The script needs only Python 3.10, git and the plugin.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import posixpath
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# comment.py recognizes the comment of an earlier commit by this first line.
MARKER = "<!-- distrain-plan -->"
TITLE = "## What this change does to the training runs"
# In bytes. GitHub rejects comments over 65,536 characters. Linux rejects an environment variable over 131,072 bytes.
LONGEST = 60_000
LONGEST_MESSAGE = 4_000
IMPOSSIBLE = 11
# `helm distrain check` exits with these codes for its verdicts `fits`, `busy`, `impossible` and `depends`.
VERDICTS = (0, 10, IMPOSSIBLE, 12)


@dataclass(frozen=True)
class Change:
    """The paths of a run's values file before and after a change.

    `before` is None if the change adds the run, and `after` is None if the change removes the run.
    """

    before: str | None
    after: str | None

    @property
    def is_one_run(self) -> bool:
        return bool(self.before and self.after and _name(self.before) == _name(self.after))


@dataclass(frozen=True)
class Section:
    """The section of the comment that describes one run."""

    text: str
    is_bad: bool = False


class Tree:
    """The files of a commit, read with git."""

    # git prints these modes for a file and for a symbolic link. The script ignores submodules, which have another mode.
    FILES, LINK = ("100644", "100755"), "120000"
    # Like Linux, follow at most this many symbolic links.
    MOST_LINKS = 40

    def __init__(self, commit: str) -> None:
        listed = _git("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
        entries = (entry.partition("\t") for entry in listed if entry)
        self._commit, self._modes = commit, {path: facts.split()[0] for facts, _, path in entries}

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    def __contains__(self, path: str) -> bool:
        return path in self._modes

    def target(self, path: str) -> str:
        """Follow symbolic links, as Argo CD does.

        Return "" if the links do not lead to a file of this commit.
        """
        for _ in range(self.MOST_LINKS):
            if self._modes.get(path) != self.LINK:
                return path if self._modes.get(path) in self.FILES else ""
            link = os.fsdecode(self._blob(path))
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        return ""

    def read(self, path: str) -> bytes:
        return self._blob(self.target(path))

    def _blob(self, path: str) -> bytes:
        return _run("cat-file", "blob", f"{self._commit}:{path}")


class UsageError(Exception):
    """The arguments are wrong, or git cannot read the commits."""


def main() -> int:
    options = _options()
    # git allows file names that are not valid UTF-8.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        base = _git("merge-base", options.base, options.head).strip()
        old, new = Tree(base), Tree(options.head)
        planner = Planner(options, old, new)
        sections = [section for change in _changes(options, base, old, new) for section in planner.plan(change)]
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
    # git prints paths without a leading `./`.
    options.runs = [str(PurePosixPath(pattern)) for pattern in options.runs or ["runs/*.yaml"]]
    options.common = [str(PurePosixPath(file)) for file in options.common]
    return options


def _changes(options: argparse.Namespace, base: str, before_tree: Tree, after_tree: Tree) -> list[Change]:
    """Return the changes of all runs between the two commits. If a common values file changes, all runs change."""
    words = iter(_git("diff", "--name-status", "-z", "--find-renames", base, options.head).split("\0"))
    changed, touched = [], set()
    for status in words:
        if not status:
            continue
        old = next(words)
        new = next(words) if status[0] in "RC" else old
        touched |= {old, new}
        before = None if status[0] in "AC" or not _is_run(old, options) else old
        after = None if status[0] == "D" or not _is_run(new, options) else new
        changed += [Change(before, after)] if before or after else []
    named = {change.after for change in changed}

    def is_touched(path: str) -> bool:
        """Tell whether a file differs between the two commits.

        A symbolic link counts as changed if the file to which it points has changed.
        """
        return not touched.isdisjoint({path, before_tree.target(path), after_tree.target(path)} - {""})

    has_common = any(map(is_touched, options.common))
    others = (path for path in after_tree if path not in named and _is_run(path, options))
    changed += [Change(path, path) for path in others if has_common or is_touched(path)]
    return sorted(_by_name(changed), key=lambda change: change.after or change.before or "")


def _by_name(changed: Sequence[Change]) -> Iterator[Change]:
    """Find runs whose file was moved to another folder under the same name, and pair the old path with the new one.

    git may show a moved file as one removed and one added file, or mix up the moves of two files.
    """
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
    """Plans each change with the plugin."""

    def __init__(self, options: argparse.Namespace, before: Tree, after: Tree) -> None:
        self._options, self._before, self._after = options, before, after
        # Maps the path that the plugin reads to the file's path in git.
        self._shown: dict[str, str] = {}
        self._names = Counter(_name(path) for path in after if _is_run(path, options))

    def plan(self, change: Change) -> Iterator[Section]:
        """Yield the sections that describe a change.

        A renamed run gets two sections, because Helm sees one release removed and another one installed.
        """
        before, after = change.before, change.after
        if before and not change.is_one_run:
            yield Section(_removed(before, after))
        if after and (mistake := self._mistake(after)):
            yield _refused(after, mistake)
        elif before and after and change.is_one_run:
            yield self._changed(before, after)
        elif after:
            lost = " It does not find the checkpoints of its old name." if before else ""
            yield self._new(after, f"the run starts once this is merged.{lost}")

    def _mistake(self, path: str) -> str:
        """Return the reason why the file's name is not a valid name for a run, or "" if it is valid.

        The plugin would read a name that starts with a dash as a flag.
        """
        if _name(path).startswith("-"):
            return "a run's name cannot begin with a dash; rename the file"
        if not self._after.target(path):
            return "is no file: it is a submodule, or a link that leads to no file in git"
        if self._names[_name(path)] > 1:
            others = (other for other in self._after if _name(other) == _name(path) and other != path)
            other = next(each for each in others if _is_run(each, self._options))
            return f"{_one_line(other)} has the same name, and a run is known by its name; rename one of the two"
        return ""

    def _changed(self, before: str, after: str) -> Section:
        name = _name(after)
        taken_as_new = "the file before is refused, so the run is taken as a new one."
        if not self._before.target(before):
            return self._new(after, taken_as_new)
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            old = self._files(folder, "before", self._before, before)
            new = self._files(folder, "after", self._after, after)
            words = [word for path in old for word in ("--from", path)]
            words += [word for path in new for word in ("-f", path)]
            done = self._distrain("upgrade", name, "--dry-run", "-o", "markdown", *words)
            if not done.stdout and done.stderr.startswith("distrain: --from: "):
                return self._new(after, taken_as_new)
            if not done.stdout:
                return self._failed(after, done)
            return self._checked(after, done.stdout, new, is_bad=done.returncode != 0)

    def _new(self, after: str, effect: str) -> Section:
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            new = self._files(folder, "after", self._after, after)
            words = [word for path in new for word in ("-f", path)]
            done = self._distrain("template", _name(after), "--offline", *words)
            if done.returncode:
                return self._failed(after, done)
            text = f"### {code(_name(after))}: a new run\n\n- **Effect:** {effect}"
            return self._checked(after, text, new)

    def _checked(self, path: str, text: str, files: Sequence[str], *, is_bad: bool = False) -> Section:
        """Add the verdict of a check against the snapshot, if --snapshot is given."""
        head, _, rest = text.rstrip("\n").partition("\n\n")
        parts = [head, "", f"- **File:** {code(path)}", rest]
        if self._options.snapshot and not is_bad:
            words = [word for file in files for word in ("-f", file)]
            snapshot = ("--snapshot", self._options.snapshot)
            done = self._distrain("check", _name(path), *snapshot, "-o", "markdown", *words)
            if done.returncode not in VERDICTS or not done.stdout:
                return self._failed(path, done)
            parts.append(done.stdout.rstrip("\n").partition("\n\n")[2])
            is_bad = done.returncode == IMPOSSIBLE
        return Section("\n".join(parts), is_bad)

    def _files(self, folder: str, when: str, tree: Tree, path: str) -> list[str]:
        """Write the common values files and the run's values file of a commit to a folder. Return their paths."""
        there = [each for each in self._options.common if tree.target(each)]
        found = []
        for number, each in enumerate([*there, path]):
            # Use a generated file name, because the path in git may begin with a dash or contain a comma.
            target = Path(folder, f"{when}-{number}.yaml")
            target.write_bytes(tree.read(each))
            found.append(str(target))
            self._shown[str(target)] = _one_line(each)
        return found

    def _distrain(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["--namespace", self._options.namespace] if self._options.namespace else []
        command = [*shlex.split(self._options.distrain), *words, *where]
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL
        )

    def _failed(self, path: str, done: subprocess.CompletedProcess[str]) -> Section:
        """Return the comment's section for a run whose plugin command failed.

        The section quotes the plugin's error messages.
        """
        words = done.stderr.strip() or f"the plugin ended with {done.returncode} and no message"
        for file, name in self._shown.items():
            words = words.replace(file, name)
        return _refused(path, words)


def _removed(path: str, new_path: str | None) -> str:
    effect = "- **Effect:** the run ends, and its GPUs are free, once its owner deletes what is not in git any more"
    lines = [f"### {code(_name(path))}: removed", "", f"- **File:** {code(path)}", effect]
    if new_path:
        lines.append(f"- **Renamed:** {code(_name(new_path))} starts as a new run: a run is known by its name")
    return "\n".join(lines)


def _refused(path: str, words: str) -> Section:
    words = words[:LONGEST_MESSAGE]
    fence = "`" * max(3, _longest_ticks(words) + 1)
    head = f"### {code(_name(path))}: refused\n\n- **File:** {code(path)}"
    return Section(f"{head}\n\n{fence}text\n{words}\n{fence}", is_bad=True)


def _comment(sections: Sequence[Section]) -> str:
    """Join the sections. Leave out sections that no longer fit into the comment."""
    found = f"{MARKER}\n{TITLE}"
    if not sections:
        return f"{found}\n\nIt changes no run."
    left = 0
    # Runs that the plugin refuses come first in the comment, because a reviewer must see them.
    for section in sorted(sections, key=lambda section: not section.is_bad):
        longer = f"{found}\n\n{section.text}"
        if len(longer.encode(errors="replace")) > LONGEST:
            left += 1
        else:
            found = longer
    return f"{found}\n\n{left} more that do not fit into this comment" if left else found


def code(words: str) -> str:
    """Return the words as a Markdown code span, so that Markdown does not interpret any of their characters."""
    words = _one_line(words)
    fence = "`" * (_longest_ticks(words) + 1)
    padding = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{padding}{words}{padding}{fence}"


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _longest_ticks(words: str) -> int:
    """Return the length of the longest sequence of backticks in a text. The fence around the text must be longer."""
    return max((len(run) for run in re.findall("`+", words)), default=0)


def _name(path: str) -> str:
    return PurePosixPath(path).stem


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
