"""Test `make bench-mutants`: its files, the choice of tests for a mutant, and that survivors are counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.paths import REPOSITORY
from tests.mutants import bench, choice, keeper, templates, trial
from tests.mutants.mutants import Mutant, mutant_of
from tests.mutants.parts import PARTS, Part

SOURCE = """\
LIMIT = 1

def first(a):
    if (
        a
    ):
        return LIMIT
    return 2


class Second:
    SIZE = 3

    def third(self, b=4):
        for each in b:
            print(
                each
            )
"""


@pytest.mark.parametrize("pattern", [one for part in PARTS for one in (*part.sources, *part.tests)])
def test_part_names_files_that_exist(pattern: str) -> None:
    assert [*REPOSITORY.glob(pattern)]


def test_listed_mutants_are_of_lines_that_exist() -> None:
    listed = yaml.safe_load((REPOSITORY / "tests/mutants/equivalent.yaml").read_text("utf-8"))

    for one in listed:
        lines = [line.strip() for line in (REPOSITORY / one["file"]).read_text("utf-8").splitlines()]
        assert " ".join(lines).count(one["line"]), one
        assert one["reason"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(1, range(1, 19), id="module"),
        pytest.param(3, range(3, 9), id="signature"),
        pytest.param(5, range(4, 7), id="condition"),
        pytest.param(7, range(7, 8), id="branch"),
        pytest.param(12, range(1, 19), id="class"),
        pytest.param(14, range(14, 19), id="method"),
        pytest.param(15, range(15, 16), id="loop"),
        pytest.param(17, range(16, 19), id="call"),
    ],
)
def test_line_belongs_to_its_innermost_statement(line: int, lines: range) -> None:
    assert choice.statement_lines(SOURCE, line) == lines


def test_mutant_runs_the_quickest_tests_that_execute_its_statement() -> None:
    mutant = Mutant("a.py", 7, "first", "return LIMIT", "return None", "")
    recorded = {
        "slow": (30.0, ["a.py:7"]),
        "slower": (31.0, ["a.py:7"]),
        "quick": (0.1, ["a.py:4", "a.py:7"]),
        "other": (0.1, ["a.py:8", "b.py:7"]),
    }

    assert choice.tests_of(mutant, SOURCE, recorded, is_traced=True) == ["quick", "slow"]
    # Without a recorded trace, every test may execute the changed line. So other tests and slower tests are chosen for
    # the mutant, too.
    assert choice.tests_of(mutant, SOURCE, recorded, is_traced=False) == ["other", "quick", "slow", "slower"]


@pytest.mark.parametrize("line", [1, 12])
def test_mutant_outside_of_functions_runs_tests_of_other_modules_too(line: int) -> None:
    recorded = {"other": (0.1, ["b.py:7"]), "own": (0.2, ["a.py:8"])}

    assert choice.tests_of(Mutant("a.py", line, "", "", "", ""), SOURCE, recorded, is_traced=True) == ["own", "other"]


def test_test_that_hangs_ends_the_process(tmp_path: Path) -> None:
    module = tmp_path / "test_hanging.py"
    module.write_text("def test_quick(): pass\ndef test_hangs():\n    while True: pass\n")
    # Even a quick test may take long on a busy machine, so only test_hangs gets the short time.
    deadline = "Deadline({'test_hanging.py::test_quick': 60}, 2)"
    main = f"import pytest, sys; from tests.mutants.trial import Deadline; pytest.main(sys.argv[1:], [{deadline}])"
    options = ["-v", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]

    command = [sys.executable, "-c", main, *options, str(module)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 1
    assert done.stdout.endswith("::test_hangs ")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a process namespace")
# The programs below must end within LONGEST seconds. A process that they leave behind would end only after 300 s.
LONGEST = 150
# The program LEAVES starts a process and leaves it behind. This process has its own session and keeps stdout open.
LEAVES = """
import subprocess, sys, time
from tests.mutants import keeper

def leave():
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    print("left", flush=True)
    time.sleep(float(sys.argv[1]))
    return 3

print(keeper.run(leave, limit=10))
"""
# The program KILLS kills all processes that it can see, except itself.
KILLS = """
import os, signal, subprocess
from tests.mutants import keeper

def kill():
    other = subprocess.Popen(["sleep", "300"])
    os.kill(-1, signal.SIGKILL)
    return other.wait()

bystander = subprocess.Popen(["sleep", "300"])
print(keeper.run(kill, limit=60), bystander.poll())
"""


@needs_root
@pytest.mark.parametrize(("seconds", "code"), [(0, 3), (60, keeper.TIMED_OUT)])
def test_process_with_a_session_of_its_own_is_ended_with_the_tests(seconds: int, code: int) -> None:
    command = [sys.executable, "-c", LEAVES, str(seconds)]

    # subprocess.run reads stdout until no process has it open. So it returns only after the process that was left
    # behind has ended.
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LONGEST, check=True)

    assert done.stdout.split() == ["left", str(code)]


@needs_root
def test_interrupted_bench_ends_the_processes_of_its_tests() -> None:
    with subprocess.Popen([sys.executable, "-c", LEAVES, "60"], cwd=REPOSITORY, stdout=subprocess.PIPE) as bench:
        assert bench.stdout
        assert bench.stdout.readline() == b"left\n"
        bench.send_signal(signal.SIGINT)
        rest, _ = bench.communicate(timeout=LONGEST)

    assert rest == b""


@needs_root
def test_mutant_that_kills_every_process_ends_only_those_of_its_test() -> None:
    # If the code under test is wrong, the namespace protects the machine's other processes.
    around = ["unshare", "--pid", "--fork", "--kill-child"]

    command = [*around, sys.executable, "-c", KILLS]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LONGEST, check=True)

    assert done.stdout.split() == [str(-signal.SIGKILL % 256), "None"]


def test_template_has_a_mutant_for_each_decision() -> None:
    source = '{{- if and .a (eq .b "c") }}\nkey: {{ .d }}\n{{- end }}\n{{- /*\nkey: if and\n*/}}\n'

    assert templates.mutants(source) == sorted([
        source.replace("and .a", "or .a"),
        source.replace("eq .b", "ne .b"),
        source.replace('and .a (eq .b "c")', 'not (and .a (eq .b "c"))'),
        source.replace("key: {{ .d }}\n", ""),
    ])  # fmt: skip


def test_survivor_counts_as_one_until_changed_tests_kill_it(tmp_path: Path) -> None:
    results = bench.Results(tmp_path / "results.jsonl")
    first, second = (Mutant("a.py", line, "", "a = 1", f"a = {line}", f"a = {line}") for line in (1, 2))

    def counted() -> tuple[str, ...]:
        return bench.row("a", [bench.Tried(one, results.outcome(one, "changed")) for one in (first, second)])[2:]

    assert counted() == ("0", "0", "0", "0", "")
    results.add(first, "former", bench.KILLED)
    results.add(second, "former", bench.SURVIVED)
    assert counted() == ("2", "1", "0", "1", "50.0 %")
    results.add(second, "changed", bench.KILLED)
    assert counted() == ("2", "2", "0", "0", "100.0 %")


def test_survivors_of_changed_tests_are_tried_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(trial, "Place", lambda folder: type("Place", (), {"remove": lambda self: None})())

    def try_part(part: Part, before: str, *rest: object) -> bool:
        tried.append((before, part.name))
        return True

    monkeypatch.setattr(bench, "try_part", try_part)

    assert bench.try_all(PARTS[:2], bench.Results(tmp_path / "results.jsonl"), end=0)

    names = [part.name for part in PARTS[:2]]
    assert tried == [(outcome, name) for outcome in (bench.STALE, bench.NOT_TRIED) for name in names]


def test_result_counts_as_long_as_the_changed_function_stays_the_same(tmp_path: Path) -> None:
    results = bench.Results(tmp_path / "results.jsonl")
    results.add(mutant_of("a.py", SOURCE, SOURCE.replace("return 2", "return 3")), "", bench.KILLED)

    def outcome(source: str) -> str:
        found = mutant_of("a.py", source, source.replace("return 2", "return 3"))
        return bench.Results(tmp_path / "results.jsonl").outcome(found, "")

    assert outcome(SOURCE) == outcome(SOURCE.replace("LIMIT = 1", "LIMIT = 1\nMORE = 2")) == bench.KILLED
    assert outcome(SOURCE.replace("return LIMIT", "return 4")) == bench.NOT_TRIED


def test_result_counts_as_long_as_the_changed_template_stays_the_same() -> None:
    source = '{{- define "a" -}}\nx: 1\n{{- end }}\n{{- define "b" -}}\ny: 2\n{{- end }}\n'
    mutant = mutant_of("a.tpl", source, source.replace("y: 2\n", ""))

    assert mutant.changed == '{{- define "b" -}}\n{{- end }}\n'


def test_results_of_mutants_that_are_no_longer_drawn_are_forgotten(tmp_path: Path) -> None:
    results = bench.Results(tmp_path / "results.jsonl")
    first, second = (mutant_of("a.py", "a = 1\n", f"a = {number}\n") for number in (2, 3))
    for one in (first, second, second):
        results.add(one, "", bench.KILLED)

    results.forget_others([second])

    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1
    again = bench.Results(tmp_path / "results.jsonl")
    assert (again.outcome(first, ""), again.outcome(second, "")) == (bench.NOT_TRIED, bench.KILLED)
