"""Test that the commands accept Helm's flags and arguments in Helm's notations, and refuse all others and name them."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from distrain import cli
from distrain.command_line import helm_flags
from distrain.command_line.flags import CHART
from distrain.command_line.parser import parser
from lab.builds import golang

# Matches a line of Helm's help: the flag's short form, its long name, and the type of its value. A flag that takes no
# value has no type in this line.
FLAG = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)(?: (\w+)\S*)?(?:  +.*)?$", re.MULTILINE)
# Helm 4 also accepts a value for --wait, but users still write this flag without one.
SWITCHES = {"--wait"}
GENERATED = ("--generate-name", "")
NO_NAME = "is not a valid release name: use a-z, 0-9 and -, 53 characters at most"
NO_TEMPLATE = "is not a template that Helm can render; correct its braces and functions"


@functools.cache
def _flags_of_helm(helm: str, command: str) -> dict[str, bool]:
    """Return Helm's flags for a command.

    The result maps the name of a flag to True if the flag takes a value, otherwise to False.
    """
    program = [str(golang.binary(helm)), command, "--help"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    found = FLAG.findall(printed.partition("\nFlags:\n")[2])
    return {flag: bool(kind) for short, long, kind in found for flag in (short, long) if flag}


@pytest.mark.parametrize("command", helm_flags.COMMANDS)
def test_each_flag_of_helm_is_either_taken_or_refused(command: str) -> None:
    flags = parser().commands[command].flags
    helms = {**_flags_of_helm("helm3", command), **_flags_of_helm("helm4", command)}

    refused = {flag for flag in helms if helm_flags.refusal(command, flag)}

    assert len(helms) > 40
    assert set(helms) - set(flags) - refused == set(), "neither taken nor refused"
    taken = {flag: has_value for flag, has_value in helms.items() if flag in flags}
    assert {flag for flag, has_value in taken.items() if has_value != (flags[flag].nargs != 0)} <= SWITCHES


def test_refused_flags_are_flags_of_helm() -> None:
    pairs = [(helm, command) for helm in ("helm3", "helm4") for command in helm_flags.COMMANDS]
    helms = {flag for helm, command in pairs for flag in _flags_of_helm(helm, command)}

    assert {flag for flags in helm_flags.REFUSED for flag in flags} - helms == set()


@pytest.mark.parametrize("words", [["--force", "run1"], ["run1", "--force=true"]])
def test_refused_flag_of_helm_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["install", *words]) == 2

    told = capsys.readouterr().err
    assert told.startswith("distrain: --force: install does not accept this flag of Helm: ")
    assert told.endswith("give Helm itself the values that `helm distrain derive` prints: `helm ... -f -`\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param(["run1", "-f", "a.yaml", "./chart"], ("run1", "./chart", None), id="apart"),
        pytest.param(["run1", "distrain-1.tgz"], ("run1", "distrain-1.tgz", None), id="archive"),
        pytest.param(["run1"], ("run1", CHART, None), id="name-alone"),
        pytest.param(["./chart", "-g"], (None, "./chart", GENERATED), id="generated"),
        pytest.param(["chart", "--generate-name"], (None, "chart", GENERATED), id="folder-without-slash"),
        pytest.param(["-g"], (None, CHART, GENERATED), id="generated-for-our-chart"),
        pytest.param(
            [".", "--name-template", "a{{ 1 }}"], (None, ".", ("--name-template", "a{{ 1 }}")), id="name-template"
        ),
        pytest.param([".", "--name-template", "a", "-g"], (None, ".", ("--name-template", "a")), id="template-counts"),
    ],
)
def test_name_and_chart_stand_as_for_helm(words: list[str], named: tuple[object, ...]) -> None:
    options = parser().parse(["install", *words])

    assert (options.name, options.chart, options.naming) == named


def test_chart_alone_renders_without_a_name() -> None:
    options = parser().parse(["template", "./chart"])

    assert (options.name, options.chart) == ("release-name", "./chart")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["install", "./chart"],
            "NAME: is missing: name of the new release; write it, or add --generate-name",
            id="no-name",
        ),
        pytest.param(["upgrade", "./chart"], "NAME: is missing: the release's name", id="no-name-of-an-old-release"),
        pytest.param(
            ["install", "run1", "./chart", "-g"],
            '--generate-name: the argument "run1" already names the release; leave out one of the two',
            id="two-names",
        ),
        pytest.param(
            ["install", "./chart", "run1"],
            'NAME: "./chart" is a chart, not a release name; give the release name first, then the chart',
            id="order",
        ),
        pytest.param(
            ["install", "run1", "./chart", "--chart", "other"],
            'CHART: the argument "./chart" and --chart other both name a chart; leave out one',
            id="two-charts",
        ),
        pytest.param(
            ["install", "run1", "mine.yaml"],
            'CHART: "mine.yaml" is a file, not a chart; name a values file with -f',
            id="values-without-flag",
        ),
        pytest.param(
            ["install", "run1", "--wait=soon"],
            '--wait: "soon" is neither true nor false; write --wait or leave it out',
            id="switch",
        ),
        *(
            pytest.param([command, "run1", "--labels", labels], f"-l/--labels: {words}", id=f"{command}-{labels}")
            for command in ("install", "upgrade", "rescale")
            for labels, words in {
                "a=b c": '"b c" is no value of a label: use letters, digits, -, _ and ., 63 characters at most',
                f"a={64 * 'b'}": f'"{64 * "b"}" is no value of a label',
                "a=b,c": '"c" is no label: write KEY=VALUE, as in team=a,cost=b',
                "": '"" is no label: write KEY=VALUE',
                "a=b,-c=d": '"-c" is no key of a label: write one such as team or example.com/team',
                "A.b/c/d=e": '"A.b/c/d" is no key of a label',
                "status=mine": '"status" is a label of Helm\'s own: choose another key',
            }.items()
        ),
        *(
            pytest.param(
                ["upgrade", "run1", f"--history-max={number}"],
                f'--history-max: "{number}" is no number of revisions (0 keeps all); give 0 or more, such as 10',
                id=f"history-{number}",
            )
            for number in ("x", "-1", "1.5")
        ),
        pytest.param(
            ["install", "run1", "--dry-run=sever"],
            '--dry-run: there is no "sever"; choose client, server, none',
            id="dry-run",
        ),
    ],
)
def test_wrong_form_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 2

    assert capsys.readouterr().err.startswith(f"distrain: {words}")


@pytest.mark.parametrize("labels", ["a=", "a=b,example.com/c_D.e=0-F", "a=null", f"{63 * 'a'}={63 * 'b'}"])
def test_labels_that_kubernetes_allows_are_passed_on(labels: str) -> None:
    options = parser().parse(["upgrade", "run1", "-l", labels])

    assert options.helm_flags == ["--labels", labels]


@pytest.mark.parametrize(
    ("words", "form"),
    [
        pytest.param([], "", id="unset"),
        pytest.param(["--dry-run"], "client", id="alone"),
        pytest.param(["--dry-run=client"], "client", id="client"),
        pytest.param(["--dry-run=true"], "client", id="true"),
        pytest.param(["--dry-run=server"], "server", id="server"),
        pytest.param(["--dry-run=none"], "", id="none"),
        pytest.param(["--dry-run=false"], "", id="false"),
    ],
)
def test_dry_run_takes_helms_values(words: list[str], form: str) -> None:
    for command in ("install", "upgrade"):
        assert parser().parse([command, *words, "run1"]).dry_run == form


@pytest.mark.parametrize(("word", "waits"), [("watcher", True), ("legacy", True), ("hookOnly", False)])
def test_wait_takes_the_values_of_helm_4(word: str, waits: bool) -> None:
    assert parser().parse(["install", "run1", f"--wait={word}"]).wait == waits


def test_switches_take_a_value_as_for_helm() -> None:
    options = parser().parse(["install", "run1", "--create-namespace=true", "--wait=false", "--allow-busy"])

    assert (options.create_namespace, options.wait, options.allow_busy) == (True, False, True)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("1h0.5m", 3630),
        ("+1h", 3600),
        ("45", 45),
    ],
)
def test_durations_are_read_as_go_writes_them(written: str, seconds: float) -> None:
    assert parser().parse(["install", "run1", "--timeout", written]).timeout == seconds


@pytest.mark.parametrize("written", ["", "s", "-5s", "1m30", "1 h", "9" * 30 + "h", "5x", "\u0661s", "\u0661"])
def test_other_durations_are_refused(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["install", "run1", f"--timeout={written}"]) == 2


def test_table_of_the_page_names_each_refused_flag() -> None:
    assert all(f"`{flag}`" in helm_flags.table() for flags in helm_flags.REFUSED for flag in flags)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        pytest.param(["-g"], r"distrain-\d{10}", id="chart-and-time"),
        pytest.param(["--name-template", 'run-{{ upper "a" | lower }}'], "run-a", id="template"),
    ],
)
@pytest.mark.either_helm
def test_names_are_generated_as_by_helm(
    helm: Path, words: list[str], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm))
    only = ["--offline", "--set", "workers.gpus=0", "--show-only", "templates/mpijob.yaml"]

    assert cli.run(["template", *words, *only]) == 0

    printed = capsys.readouterr()
    assert re.search(rf'^  name: "{name}"$', printed.out, re.MULTILINE)
    assert re.fullmatch(rf"distrain: --[a-z-]+: the release is named {name}\n", printed.err)
    assert printed.out.count("kind: MPIJob\n") == printed.out.count("# Source: ") == 1


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("", "the template is empty; write it as in run-{{ randAlpha 4 | lower }}", id="empty"),
        pytest.param("A_B", f'"A_B" {NO_NAME}', id="bad-name"),
        pytest.param("a/b.yaml", f'"a/b.yaml" {NO_NAME}', id="file"),
        pytest.param('{{ "" }}', f'"" {NO_NAME}', id="empty-name"),
        pytest.param("x" * 54, f'"{"x" * 54}" {NO_NAME}', id="long-name"),
        pytest.param("run-{{", f'"run-{{{{" {NO_TEMPLATE}', id="braces"),
        pytest.param("{{ nope }}", f'"{{{{ nope }}}}" {NO_TEMPLATE}', id="function"),
        pytest.param("{{ fail .Name }}", f'"{{{{ fail .Name }}}}" {NO_TEMPLATE}', id="fails"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--generate-name"]], ids=["alone", "with-generate-name"])
@pytest.mark.either_helm
def test_template_that_gives_no_name_is_one_line(
    helm: Path,
    template: str,
    words: str,
    more: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm))

    assert cli.run(["template", *more, "--name-template", template, "--offline", "--set", "workers.gpus=0"]) == 2

    assert capsys.readouterr().err.partition("; see")[0].rstrip() == f"distrain: --name-template: {words}"


def test_generated_name_begins_with_the_name_of_the_own_chart_and_not_of_its_folder(
    helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm))
    own = shutil.copytree(CHART, tmp_path / "chart")
    monkeypatch.setattr("distrain.helm.chart.OWN", own)

    assert cli.run(["template", "-g", f"{own}/", "--offline", "--set", "workers.gpus=0"]) == 0

    said = "distrain: --generate-name: the release is named"
    assert re.match(rf"{said} distrain-\d+\n", capsys.readouterr().err)


@pytest.mark.either_helm
def test_chart_whose_folder_is_no_release_name_is_one_line(
    helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm))
    shutil.copytree(CHART, tmp_path / "My_Chart")

    assert cli.run(["template", "-g", f"{tmp_path}/My_Chart/", "--offline", "--set", "workers.gpus=0"]) == 2

    assert re.fullmatch(rf'distrain: --generate-name: "My_Chart-\d+" {NO_NAME}\n', capsys.readouterr().err)
