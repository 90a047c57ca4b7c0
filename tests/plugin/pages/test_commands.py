"""Test that each command in README.md and docs/ is covered: a test runs it, or parses it as its program does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from distrain.command_line.parser import parser
from distrain_trainer.config import parse
from lab.paths import REPOSITORY
from tests.plugin.pages.commands import PAGES, Block, Line, blocks, lines, of_block, program_of

NOT_RUN = "docs/not-tested.md"
# PROGRAMS maps a program to the file that runs its commands or parses their arguments. No test can run the programs
# that are mapped to NOT_RUN. docs/not-tested.md lists these programs. In addition, the shell parses every command
# without running it.
PROGRAMS = {
    "make": "tests/plugin/pages/test_commands.py",
    "helm": "tests/plugin/pages/test_commands.py",
    "kubectl": "tests/plugin/pages/test_commands.py",
    "python": "tests/plugin/pages/test_commands.py",
    "python3": "tests/plugin/pages/test_commands.py",
    "mpirun": "tests/plugin/pages/test_commands.py",
    "git": "tests/cluster/gitops/commits.py",
    "s3-proxy": "lab/s3/proxy.py",
    "curl": "lab/s3/proxy.py",
    "nsenter": "lab/cluster/namespaces.py",
    "echo": "tests/plugin/pages/test_commands.py",
    "export": "tests/plugin/pages/test_commands.py",
    "until": "tests/chart/templates/test_notes.py",
    "plugin/bin/setup": "tests/plugin/package/test_plugin.py",
    "docker": NOT_RUN,
    "skopeo": NOT_RUN,
    "aws": NOT_RUN,
    "tensorboard": NOT_RUN,
}
ALL = lines(set(PROGRAMS))
# Matches the beginning of a code block without commands: values, code, JSON, a file tree, or a program's output.
NO_COMMAND = re.compile(
    r"""[\w.-]+:(\ |$)|-\ |\{|from\ |import\ |def\ |images/|distrain(-[a-z]+)?:\ |Step\t|\#""", re.VERBOSE
)
# The subcommands of Helm and kubectl that the pages use.
HELM = "dependency install plugin template test uninstall upgrade"
KUBECTL = "annotate apply create get label logs patch port-forward"
FLAGS_OF_KUBECTL = {
    "-n", "--namespace", "-k", "-l", "-o", "--selector", "--type", "--patch", "--patch-file", "--dry-run",
    "--from-file", "--from-literal", "--server-side", "--docker-server", "--docker-username", "--docker-password",
    "--overwrite", "--follow",
}  # fmt: skip


def of(*programs: str) -> list[Line]:
    return [line for line in ALL if line.program in programs]


def shown(line: Line) -> str:
    return f"{line.page}: {line.text[:60]}"


def test_every_block_holds_known_commands_or_none() -> None:
    unknown = [
        f"{block.page}: {block.lines[0]}"
        for page in PAGES
        for block in blocks(page)
        if block.language in ("", "bash")
        and not [*of_block(block, set(PROGRAMS))]
        and not NO_COMMAND.match(block.lines[0])
    ]

    assert unknown == [], "add the program to PROGRAMS, with the test that runs it"


def test_every_program_behind_a_prompt_is_known() -> None:
    assert {line.program for line in ALL} - PROGRAMS.keys() == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_used_and_its_test_exists(program: str) -> None:
    where = PROGRAMS[program]

    assert (REPOSITORY / where).exists()
    assert of(program) or any(f"| {program} " in line.text for line in ALL)
    if where == NOT_RUN:
        assert f"`{program}`" in (REPOSITORY / NOT_RUN).read_text(encoding="utf-8")


def test_shell_takes_every_command() -> None:
    # Before the shell parses a command, replace each name in angle brackets, as a reader would.
    script = "\n".join(re.sub(r"<(\w+)>", r"\1", line.text) for line in ALL)

    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", of("make"), ids=shown)
def test_make_has_the_target(line: Line) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    _, target, *variables = line.words
    of_target = re.search(
        rf"^{re.sub(r'^test-.*', 'test-%', target)}:(?!=).*?(?=\n\n)", makefile, re.MULTILINE | re.DOTALL
    )

    assert of_target
    assert all(re.match(r"[A-Z_]+=", each) for each in variables)


@pytest.mark.parametrize("line", of("helm"), ids=shown)
def test_helm_has_the_command_and_its_files_exist(line: Line) -> None:
    _, command, *arguments = line.words
    if command == "distrain":
        parser().parse(arguments)
        return

    assert command in HELM.split()
    files = [word for word in arguments if word.startswith(("charts/", "values/", "./"))]
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


@pytest.mark.parametrize("line", of("kubectl"), ids=shown)
def test_kubectl_has_the_command_and_its_flags(line: Line) -> None:
    words = line.words[1:]
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    verbs = [word for word in words if word in KUBECTL.split()]

    assert verbs
    assert set(flags) <= FLAGS_OF_KUBECTL


@pytest.mark.parametrize("line", of("python3", "mpirun"), ids=shown)
def test_trainer_takes_the_arguments(line: Line) -> None:
    assert "-m distrain_trainer" in line.text

    parse(line.words[line.words.index("distrain_trainer") + 1 :])


@pytest.mark.parametrize("line", of("python"), ids=shown)
def test_file_that_pytest_runs_exists(line: Line) -> None:
    assert Path(REPOSITORY / line.words[-1]).exists()


def test_command_that_nobody_knows_is_found() -> None:
    block = Block("page.md", "", ("kubctl get pods", "more"))

    assert [*of_block(block, set(PROGRAMS))] == []
    assert not NO_COMMAND.match(block.lines[0])


@pytest.mark.parametrize(
    ("text", "program"),
    [("FULL=1 make test", "make"), ('"$(helm env X)"/bin/setup', "$(helm"), ("kubectl get pods", "kubectl"), ("", "")],
)
def test_program_stands_behind_variables(text: str, program: str) -> None:
    assert program_of(text) == program
