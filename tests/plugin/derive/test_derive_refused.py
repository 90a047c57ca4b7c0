"""Test the values and flags that `derive` refuses, each in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.derive.deriving import GOLDEN, Derive
from tests.plugin.program import Outcome, Run


def test_number_of_workers_alone_leaves_their_size_to_the_nodes(derive: Derive) -> None:
    asked = derive("gpus: 4\nworkers: {replicas: 4}\n")

    assert asked.code == 3
    assert "or add --node-gpus N, the GPUs of a node" in asked.err


@pytest.mark.parametrize(
    ("values", "arguments", "words"),
    [
        pytest.param(
            "gpus: 12\nworkers: {gpus: 8}\n",
            ["--node-gpus", "8"],
            "gpus: 12 cannot be divided evenly into workers of 8 GPUs (workers.gpus); set gpus to 8 (1 "
            "worker of 8) or 16 "
            "(2 workers of 8), or leave workers.gpus out",
            id="own-gpus",
        ),
        pytest.param(
            "gpus: 32\nworkers: {replicas: 3}\n",
            ["--node-gpus", "8"],
            "gpus: 32 cannot be divided evenly among 3 workers (workers.replicas); set gpus to 24 (3 workers of 8), "
            "or leave workers.replicas out",
            id="own-replicas",
        ),
        pytest.param(
            "gpus: 16\nworkers: {gpus: 8}\n",
            ["--node-gpus", "8", "--set", "gpus=9"],
            "gpus: 9 cannot be divided evenly into workers of 8 GPUs (workers.gpus); set gpus to 8 (1 "
            "worker of 8) or 16 "
            "(2 workers of 8), or leave workers.gpus out",
            id="flag-against-own-gpus",
        ),
        pytest.param(
            "gpus: 8\nworkers: {gpus: 8, maxReplicas: 2}\nframework: pytorch\n",
            ["--node-gpus", "8", "--set", "gpus=11"],
            "gpus: 11 cannot be divided evenly into workers of 8 GPUs (workers.gpus); set gpus to 8 (1 "
            "worker of 8) or 16 "
            "(2 workers of 8)",
            id="own-gpus-and-no-other-way",
        ),
        pytest.param(
            "gpus: 24\nframework: pytorch\nworkers: {maxReplicas: 2}\n",
            ["--node-gpus", "8"],
            "gpus: 24 cannot be divided evenly among at most 2 workers with at most 8 GPUs each; set gpus to 16 "
            "(2 workers of 8)",
            id="too-few-workers-allowed",
        ),
        pytest.param(
            "gpus: 1009\n",
            ["--node-gpus", "8"],
            "gpus: 1009 cannot be divided evenly among workers with at most 8 GPUs each; set gpus to 1008 (126 "
            "workers of 8) or 1010 "
            "(202 workers of 5)",
            id="prime-beyond-the-most-workers",
        ),
        pytest.param(
            "gpus: 9\nworkers: {replicas: 4, gpus: 2}\n",
            [],
            "gpus: 9 differs from workers.replicas * workers.gpus = 4 * 2 = 8; --set gpus=8; "
            "or leave out workers.replicas and workers.gpus, which `helm distrain derive` then sets",
            id="refused-by-the-chart",
        ),
        pytest.param(
            "worker: {gpus: 2}\n", [], "worker: there is no such value; did you mean workers?", id="misspelt-key"
        ),
        pytest.param(
            "job: {enabled: false}\n",
            [],
            "job.enabled: is false, so there is nothing to derive; set it to true",
            id="no-job",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--node-gpus", "0"],
            '--node-gpus: "0" is no number of GPUs; give 1 or more, such as 8; see `distrain derive --help`',
            id="no-gpus-per-node",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--node-gpus", "8", "--snapshot", "x"],
            "--snapshot: cannot be combined with --node-gpus; leave out one of the two; see `distrain derive --help`",
            id="two-sources",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--snapshot", "/no/such"],
            "--snapshot: /no/such cannot be read: No such file or directory; give the output of `helm "
            "distrain snapshot`, or of `kubectl get nodes,pods -A -o json`",
            id="no-snapshot",
        ),
        pytest.param(
            "trainer: {extraArgs: [--batch-size=many]}\n",
            [],
            "trainer.extraArgs: invalid literal for int() with base 10: 'many'; give this argument a number",
            id="no-number",
        ),
        pytest.param(
            "trainer: {extraArgs: [--batch-size=0]}\n",
            [],
            "trainer.extraArgs: --batch-size=0 is not a number from 1 to 2147483647; correct it",
            id="number-below-the-least",
        ),
        pytest.param(
            "? workers\n: cpu: 2\ngpus: 8\n",
            ["--node-gpus", "8"],
            "values: distrain cannot add lines to this YAML; write its sections as blocks of KEY: VALUE lines",
            id="section-with-an-explicit-key",
        ),
        pytest.param(
            "gpus: 8\n",
            ["-f", "no-such.yaml"],
            "--values: no-such.yaml cannot be read: No such file or directory; name another file",
            id="no-file",
        ),
    ],
)
def test_mistake_is_one_line(
    derive: Derive, values: str, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert derive(values, *arguments) == Outcome(2, "", f"distrain: {words}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("no json", ": it is not valid JSON at line 1, column 1; it may be cut off; ", id="no-json"),
        pytest.param("[]", ": it has no list of items; ", id="no-list"),
        pytest.param('{"items": []}', " contains no node; give the output of", id="no-node"),
        pytest.param(
            '{"items": [{"kind": "Node", "spec": 3}]}',
            ": Node items[0]: spec: found a whole number; it needs a mapping of keys; ",
            id="no-node-form",
        ),
    ],
)
def test_snapshot_that_is_something_else_is_refused(derive: Derive, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(content)

    outcome = derive("gpus: 8\n", "--snapshot", str(path))

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: --snapshot: {path}{words}")
    assert len(outcome.err.splitlines()) == 1


def test_several_documents_in_a_file_are_refused_by_name(derive: Derive, run: Run, tmp_path: Path) -> None:
    several = "workers: {cpu: 2}\n---\nworkers: {cpu: 3}\n"
    (tmp_path / "run.yaml").write_text(several)

    from_stdin = derive(several, "--node-gpus", "8")
    from_file = run("derive", "-f", str(tmp_path / "run.yaml"), "--node-gpus", "8")

    words = "contains several YAML documents; join them into one, without the line `---`"
    assert from_stdin == Outcome(2, "", f"distrain: --values: -: {words}\n")
    assert from_file == Outcome(2, "", f"distrain: --values: {tmp_path}/run.yaml: {words}\n")


@pytest.mark.parametrize("files", [["-"], ["-", "-"], ["a.yaml", "-"]])
def test_stdin_that_would_be_read_twice_is_refused(derive: Derive, files: list[str]) -> None:
    outcome = derive(GOLDEN / "derived.yaml", "--check", *files)

    assert (outcome.code, outcome.err) == (2, "distrain: FILE: - is stdin, which can be read only once; name a file\n")


def test_files_without_check_are_refused(derive: Derive) -> None:
    outcome = derive("gpus: 32\n", "a.yaml")

    assert (
        outcome.code,
        outcome.err.startswith("distrain: FILE: a.yaml can be given only with --check; add --check, or name"),
    ) == (2, True)
