"""Test that help texts are complete, show only valid command lines, and are printed without markup."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from distrain import cli
from distrain.command_line import helptext
from distrain.command_line.parser import parser
from docs import plugin as page
from lab.paths import REPOSITORY

COMMANDS = sorted(parser().commands)
TOPICS = [helptext.PROGRAM, *COMMANDS]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
# Matches command lines of distrain in a help text or page. Such a command line is indented as an example, or follows a
# prompt or a pipe.
SHOWN = re.compile(r"^ {4,}(?:.*\| |\$ )?((?:helm )?distrain(?=\s).*)", re.MULTILINE)


def _command_lines(text: str) -> list[list[str]]:
    """Return the arguments of each command line, without the parts that the shell interprets."""
    shown = SHOWN.findall(text.replace("\\\n", " "))
    lines = [shlex.split(re.split(r" [|>&]|;", line)[0], comments=True) for line in shown]
    return [line[line.index("distrain") + 1 :] for line in lines]


@pytest.mark.parametrize("topic", TOPICS)
def test_command_has_a_text_with_examples_of_itself(topic: str) -> None:
    text = helptext.read(topic)

    assert text.name == topic
    assert re.fullmatch(r"[A-Z].*\.", text.summary), "one line, a sentence"
    lines = _command_lines(text.sections[helptext.EXAMPLES])
    assert any(line[:1] == [topic] or topic == helptext.PROGRAM for line in lines)


@pytest.mark.parametrize("topic", TOPICS)
def test_command_lines_of_the_texts_are_taken_by_the_parser(topic: str) -> None:
    lines = _command_lines(Path(helptext.FOLDER, f"{topic}.md").read_text())

    assert lines
    for line in lines:
        parser().parse(line)


def test_every_text_belongs_to_a_command() -> None:
    assert sorted(path.stem for path in Path(helptext.FOLDER).iterdir()) == sorted(TOPICS)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.name))
def test_command_lines_of_the_pages_are_taken_by_the_parser(file: Path) -> None:
    for line in _command_lines(file.read_text()):
        parser().parse(line)


def test_page_of_the_commands_is_the_one_that_make_docs_writes() -> None:
    assert page.TARGET.read_text() == page.document(), "run `make docs`"


@pytest.mark.parametrize("topic", TOPICS)
def test_help_is_plain_text_of_100_columns(
    topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with pytest.raises(SystemExit) as end:
        cli.run([*([topic] if topic in COMMANDS else []), "--help"])

    shown = capsys.readouterr().out
    assert end.value.code == 0
    assert helptext.plain(helptext.read(topic).summary, 100).split("\n")[0] in shown
    prose = [line for line in shown.split("\n") if not line.startswith("  ")]
    # Code blocks are printed unchanged, and a comment in a code block may contain backticks.
    assert not [line for line in prose if re.search(r"[`|\x1b]|\*\*|^#|\]\(", line)]
    assert max(map(len, prose)) <= 100
    assert "examples:\n" in shown


def test_word_help_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["help", "check"], ["check", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.run(arguments)
        assert end.value.code == 0

    shown = capsys.readouterr().out
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]


def test_reader_that_has_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)  # The reader, such as head, has ended.
    command = [sys.executable, str(REPOSITORY / "plugin"), "__complete", "check", "--set", ""]

    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (141, "")


def test_no_arguments_show_the_commands_and_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.run([])

    shown = capsys.readouterr().out
    assert end.value.code == 0
    for command in COMMANDS:
        summary = helptext.plain(helptext.read(command).summary, 100)
        assert re.search(rf"^  {command} +{re.escape(summary[:40])}", shown, re.MULTILINE)
    assert "  helm distrain doctor\n" in shown


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        pytest.param("Say `a: 3` **now**, as [b](values.md).", "Say a: 3 now, as b.", id="signs"),
        pytest.param("one two three four five", "one two three four\nfive", id="paragraph"),
        pytest.param("- one two three four five\n- six", "- one two three four\n  five\n- six", id="list"),
        pytest.param("    $ typed `as is`\n    printed\n\nwords", "  $ typed `as is`\n  printed\n\nwords", id="code"),
        pytest.param(
            "| code | means |\n|---|---|\n| `0` | all is well and fine |",
            "  code  means\n  0     all is well\n        and fine",
            id="table",
        ),
    ],
)
def test_markdown_becomes_plain_text(markdown: str, shown: str) -> None:
    assert helptext.plain(markdown, 20) == shown


@pytest.mark.parametrize("word", ["bogus", "ls", "top", "delete"])
def test_command_that_resembles_no_other_gets_no_suggestion(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run([word])

    error = capsys.readouterr().err
    assert (code, "did you mean" in error) == (2, False), error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["chek"], "did you mean check?", id="command"),
        pytest.param(["reprot"], "did you mean report?", id="exchanged-letters"),
        pytest.param(["stat"], "did you mean status?", id="beginning"),
        pytest.param(["check", "--valeus", "a"], "--valeus: there is no such flag; did you mean --values?", id="flag"),
        pytest.param(["check", "--nope"], "--nope: there is no such flag; see `distrain check --help`", id="far"),
        pytest.param(
            ["check", "--manifest", "a.yaml", "--manifest", "b.yaml"],
            "--manifest: is given twice, but accepts only one file; join the files, with a line `---` between them",
            id="two-manifests",
        ),
        pytest.param(
            ["check", "-o", "jsn"],
            '-o/--output: there is no "jsn"; choose text, json, yaml, markdown; did you mean json?',
            id="choice",
        ),
        pytest.param(
            ["uninstall", "run1"],
            'COMMAND: distrain has no command "uninstall", but Helm has it: helm uninstall',
            id="helms-own",
        ),
        pytest.param(
            ["version"],
            'COMMAND: there is no "version"; choose COMMANDS; did you mean --version?'.replace(
                "COMMANDS", ", ".join(parser().commands)
            ),
            id="flag-as-command",
        ),
        pytest.param(
            ["--namespace", "team", "check"],
            "--namespace: flags come after the command, as in `distrain check --namespace ...`",
            id="flag-before-command",
        ),
        pytest.param(
            ["check", "-f"],
            "-f/--values: a value is missing: FILE, values file; - reads stdin; see `distrain check --help`",
            id="no-value",
        ),
        *(
            pytest.param(
                [command, flag, ""],
                f"{flag}: it is empty; name one, or leave the flag out; see `distrain {command} --help`",
                id=f"empty-{command}{flag}",
            )
            for command, flags in {
                "check": ("--manifest", "--snapshot", "--why", "--chart"),
                "derive": ("--snapshot",),
            }.items()
            for flag in flags
        ),
        *(
            pytest.param(
                [command, "--output="],
                f"-o/--output: it is empty; name one, or leave the flag out; see `distrain {command} --help`",
                id=f"empty-{command}--output",
            )
            for command in ("init", "snapshot")
        ),
        pytest.param(
            ["install"],
            "NAME: is missing: name of the new release; write it, or add --generate-name; "
            "see `distrain install --help`",
            id="no-name",
        ),
        pytest.param(
            ["install", "run1", "./chart", "more"],
            '"more": is an unexpected argument; name a values file with -f',
            id="word-behind-the-chart",
        ),
        pytest.param(
            ["check", "values/vgg16.yaml"],
            'NAME: "values/vgg16.yaml" is a file, not a release\'s name; name a values file with -f; '
            "see `distrain check --help`",
            id="file-without-flag",
        ),
        pytest.param(
            ["predict", "run1"],
            '"run1": is an unexpected argument; name a values file with -f, and the record of a run with --record; '
            "the command report takes the name of a run",
            id="release-to-predict",
        ),
        pytest.param(
            ["predict", "run1.yaml"],
            '"run1.yaml": is an unexpected argument; name a values file with -f',
            id="file-to-predict",
        ),
        pytest.param(
            ["snapshot", "team"],
            '"team": is an unexpected argument; see `distrain snapshot --help`',
            id="word-too-many",
        ),
    ],
)
def test_typical_mistake_is_answered_with_the_next_step(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith(f"{words}\n")


def test_help_imports_only_the_standard_library() -> None:
    code = (
        "import sys; from distrain import cli\n"
        "try: cli.run(['check', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names), file=sys.stderr)"
    )

    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY / 'plugin')!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(shown.stderr.split()) <= {"distrain", "__main__"}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "completion"])
def test_readme_names_each_command(command: str) -> None:
    shown = (REPOSITORY / "README.md").read_text()

    assert re.search(rf"helm distrain {command}\b", shown)
