"""Test what `helm distrain init` refuses, and its help."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain import cli
from schemas import build
from tests.plugin.program import Run


@pytest.fixture
def helm(helm4: Path) -> Path:
    """Run these tests with only one version of Helm, because `init` calls few commands of Helm."""
    return helm4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--framework", "torch"],
            '--framework: there is no "torch"; choose tensorflow, pytorch, mxnet; did you mean pytorch?',
            id="framework",
        ),
        pytest.param(
            ["--model", "resnet"],
            '--model: there is no "resnet"; choose mnist, resnet50, vgg16, or module:function, which makes one of '
            "your own; did you mean resnet50?",
            id="model",
        ),
        pytest.param(
            ["--framework", "pytorch", "--strategy", "parameter-server"],
            "strategy: parameter-server is for tensorflow and mxnet, not for pytorch; --strategy allreduce",
            id="strategy",
        ),
        pytest.param(
            ["--framework", "mxnet", "--kind", "PyTorchJob"],
            "job.kind: PyTorchJob does not run mxnet with strategy allreduce; --kind auto or --kind MPIJob or "
            "--kind Plain",
            id="kind",
        ),
        pytest.param(
            ["--framework", "tensorflow", "--kind", "TFJob"],
            "job.kind: TFJob does not run tensorflow with strategy allreduce; --kind auto or --kind MPIJob or "
            "--kind Plain, or --strategy parameter-server",
            id="kind-of-another-strategy",
        ),
        pytest.param(
            ["--data", "images"],
            "--data: images is not a source of data; write s3://bucket/path, /path/of/a/folder, or synthetic for",
            id="data",
        ),
        pytest.param(
            ["--data", "s3://"],
            "--data: s3:// is not a source of data; write s3://bucket/path, /path/of/a/folder, or synthetic for",
            id="no-bucket",
        ),
        pytest.param(
            ["--data", "/da\udce9"],
            "--data: contains a control character, or is not UTF-8; write",
            id="data-in-latin-1",
        ),
        pytest.param(["--data", "/a\nb: c"], "--data: contains a control character, or is", id="data-of-two-lines"),
        pytest.param(["--model", "a:b\x85"], "--model: contains a control character, or is", id="model-of-two-lines"),
        pytest.param(["--image", "a/\udce9"], "--image: contains a control character, or is", id="image-in-latin-1"),
        pytest.param(["--image", "a b"], 'image.repository: "a b" does not have the right form. ', id="image"),
        pytest.param(["--model", "mine:"], 'trainer.model: "mine:" does not have the right form. ', id="own-model"),
        pytest.param(
            ["--gpus", "some"],
            '--gpus: "some" is no number of GPUs; give 0 or more, such as 8; see `distrain init --help`',
            id="gpus",
        ),
        pytest.param(
            ["--chart", "/nowhere"],
            "--chart: /nowhere is neither a chart's folder nor a .tgz file; name the folder",
            id="chart",
        ),
        pytest.param(
            ["-o", "/nowhere/x"], "--output: /nowhere/x cannot be written: No such file or directory", id="out"
        ),
    ],
)
def test_mistakes_are_one_line_with_the_next_step(run: Run, arguments: list[str], words: str) -> None:
    nodes = [] if "--node-gpus" in arguments else ["--node-gpus", "8"]

    outcome = run("init", *arguments, *nodes)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.split("\n")[-2].startswith(f"distrain: {words}")


@pytest.mark.parametrize("schema", ["{", "{}", "[]"])
def test_folder_with_another_schema_is_no_chart(run: Run, tmp_path: Path, schema: str) -> None:
    (tmp_path / "Chart.yaml").write_text("name: other\n")
    (tmp_path / "values.schema.json").write_text(schema)

    outcome = run("init", "--node-gpus", "8", "--chart", str(tmp_path))

    words = f"--chart: {tmp_path} is not distrain's chart; name the folder of distrain's chart"
    assert (outcome.code, outcome.err) == (2, f"distrain: {words}\n")


@pytest.mark.parametrize("flag", ["framework", "strategy", "kind"])
def test_help_names_what_the_schema_allows(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    properties = build.read()["properties"]
    allowed = (properties["job"]["properties"]["kind"] if flag == "kind" else properties[flag])["enum"]
    with pytest.raises(SystemExit):
        cli.run(["init", "--help"])

    shown = " ".join(capsys.readouterr().out.split())

    assert all(value in shown.partition(f"--{flag} ")[2].partition(" --")[0] for value in allowed)
