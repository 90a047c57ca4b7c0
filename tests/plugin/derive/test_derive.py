"""Test which values `derive` keeps and adds in the printed file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lab.paths import CHART, REPOSITORY
from tests.plugin.derive.deriving import GOLDEN, Derive


def test_example_is_completed_as_the_golden_file_says(derive_with_each: Derive) -> None:
    outcome = derive_with_each(GOLDEN / "given.yaml", "--node-gpus", "8")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (GOLDEN / "derived.yaml").read_text()


def test_derived_file_derived_again_is_the_same(derive_with_each: Derive) -> None:
    again = derive_with_each(GOLDEN / "derived.yaml", "--node-gpus", "8")
    # derived.yaml already contains the number of GPUs per node, so the second `derive` does not need --node-gpus.
    without = derive_with_each(GOLDEN / "derived.yaml")

    assert again.out == without.out == (GOLDEN / "derived.yaml").read_text()


def test_derived_file_is_accepted_by_helm(helm: Path) -> None:
    command = [str(helm), "template", "run1", str(CHART), "-f", str(GOLDEN / "derived.yaml")]

    rendered = subprocess.run(command, capture_output=True, text=True, check=True)

    job = next(one for one in yaml.safe_load_all(rendered.stdout) if one and one["kind"] == "MPIJob")
    assert (job["spec"]["slotsPerWorker"], job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]) == (8, 4)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "values").glob("*.yaml")), ids=lambda path: path.name)
def test_values_to_start_from_keep_every_line_and_every_value(derive: Derive, path: Path) -> None:
    outcome = derive(path)

    assert (outcome.code, outcome.err) == (0, "")
    assert set(path.read_text().split("\n")) <= set(outcome.out.split("\n"))
    given_values = yaml.safe_load(path.read_text())
    shm = {"shm": outcome.workers["shm"]} if outcome.workers.get("shm") else {}
    assert outcome.values == {**given_values, "workers": {**given_values["workers"], **shm}}
    assert derive(outcome.out).out == outcome.out


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    total=st.sampled_from([1, 4, 6, 13, 30, 32, 96]),
    own=st.dictionaries(st.sampled_from(["cpu", "memory", "shm"]), st.sampled_from(["2", "4"]), max_size=2),
    is_flow=st.booleans(),
    framework=st.sampled_from(["tensorflow", "pytorch", "mxnet"]),
    node_gpus=st.sampled_from(["1", "4", "8"]),
)
def test_deriving_twice_changes_nothing(
    derive: Derive, total: int, own: dict[str, str], is_flow: bool, framework: str, node_gpus: str
) -> None:
    # The chart refuses a workers.shm above workers.memory.
    assume(own.get("shm", "") <= own.get("memory", "4"))
    workers = {key: int(value) if key == "cpu" else f"{value}Gi" for key, value in own.items()}
    values = {"workers": workers, "gpus": total, "framework": framework} if own else {"gpus": total}
    text = yaml.safe_dump(values, default_flow_style=is_flow, sort_keys=False)

    once = derive(text, "--node-gpus", node_gpus)

    assert once.code == 0
    assert once.workers["replicas"] * once.workers["gpus"] == total
    assert once.workers["gpus"] <= int(node_gpus)
    assert workers.items() <= once.workers.items()
    assert derive(once.out, "--node-gpus", node_gpus).out == once.out
    assert derive(once.out, "--check").code == 0


def test_another_total_moves_the_derived_lines_alone(derive: Derive) -> None:
    derived = (GOLDEN / "derived.yaml").read_text()

    larger = derive(derived.replace("gpus: 32", "gpus: 64"), "--node-gpus", "8")
    by_flag = derive(derived, "--set", "gpus=64", "--node-gpus", "8")
    taken_over = derive(derived.replace("# derived: gpus 32 on whole nodes of 8", "# mine"), "--node-gpus", "4")

    assert larger.out == by_flag.out
    assert (larger.workers["replicas"], larger.workers["gpus"]) == (8, 8)
    # The user has changed the comment behind this figure, so `derive` keeps the figure as the user's own.
    assert (taken_over.workers["replicas"], taken_over.workers["gpus"]) == (4, 8)
    assert "  gpus: 8  # mine\n" in taken_over.out


def test_figures_derived_from_a_total_that_is_gone_are_the_users(derive: Derive) -> None:
    text = "".join(line for line in (GOLDEN / "derived.yaml").open() if not line.startswith("gpus:"))

    outcome = derive(text)

    assert (outcome.workers["replicas"], outcome.workers["gpus"]) == (4, 8)
    assert outcome.err.startswith(
        "distrain: workers.replicas: 4 was derived from gpus, which is gone; it is yours now\n"
    )
    assert "replicas: 4\n" in outcome.out


def test_files_and_flags_merge_as_helm_merges_them(derive: Derive, tmp_path: Path) -> None:
    second = tmp_path / "b.yaml"
    second.write_text("# theirs, of the whole file\n\n# more\nworkers:\n  # theirs\n  shm: 3Gi\n")

    outcome = derive(
        "# first\ngpus: 16  # all\nworkers: {tolerations: [{operator: Exists}]}\n",
        *(
            "-f",
            str(second),
            "--node-gpus",
            "8",
            "--set",
            "gpus=8,trainer.model=vgg16",
            "--set-string",
            "nameOverride=a",
        ),
    )

    assert outcome.values == {
        "gpus": 8,
        "workers": {"replicas": 1, "gpus": 8, "shm": "3Gi", "tolerations": [{"operator": "Exists"}]},
        "trainer": {"model": "vgg16"},
        "nameOverride": "a",
    }
    for comment in ("# first\n", "# theirs, of the whole file\n", "# more\n", "  # theirs\n", "gpus: 8  # all\n"):
        assert comment in outcome.out


def test_flag_changes_one_line_of_a_section(derive: Derive) -> None:
    outcome = derive("gpus: 8\nworkers:\n  # mine\n  shm: 3Gi\n", "--node-gpus", "8", "--set", "workers.cpu=2")

    assert "  # mine\n  shm: 3Gi\n" in outcome.out
    assert outcome.workers["cpu"] == 2


def test_order_that_an_anchor_needs_is_kept(derive: Derive) -> None:
    text = "trainer: &t\n  batchSize: 8\nx-t: *t\ndata: {source: synthetic}\nlauncher: {nodeSelector: &n {a: b}}\n"

    outcome = derive(f"{text}workers: {{nodeSelector: *n}}\ngpus: 8\n", "--node-gpus", "8")

    assert outcome.code == 0
    assert outcome.values["x-t"] == {"batchSize": 8}
    assert outcome.workers["nodeSelector"] == {"a": "b"}
    assert outcome.workers["gpus"] == 8


@pytest.mark.parametrize(
    ("text", "later", "expected"),
    [
        pytest.param("gpus: &n 16\nx-n: *n\n", "gpus: 8\n", {"gpus": 8, "x-n": 16}, id="replaced"),
        pytest.param(
            "image: &i\n  tag: a\nx-i: *i\ngpus: 8\n",
            "image: {tag: b}\n",
            {"image": {"tag": "b"}, "x-i": {"tag": "a"}, "gpus": 8},
            id="merged",
        ),
        pytest.param(
            "x-w: &w {shm: 3Gi}\nworkers:\n  <<: *w\n  cpu: 2\ngpus: 8\n",
            "x-w: {shm: 4Gi}\n",
            {"x-w": {"shm": "4Gi"}, "workers": {"shm": "3Gi", "cpu": 2}, "gpus": 8},
            id="merge-key",
        ),
    ],
)
def test_alias_keeps_its_value_if_a_later_file_changes_its_anchor(
    derive: Derive, tmp_path: Path, text: str, later: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "later.yaml").write_text(later)

    outcome = derive(f"# mine\n\n{text}", "-f", str(tmp_path / "later.yaml"), "--node-gpus", "8")

    assert outcome.code == 0, outcome.err
    workers = {"replicas": 1, "gpus": 8, "shm": "8Gi", **expected.get("workers", {})}
    assert outcome.values == {**expected, "workers": workers}
    assert outcome.out.startswith("# mine\n")
    assert outcome.out.count("  # derived: ") == len(workers.keys() - expected.get("workers", {}).keys())
    again = derive(outcome.out, "--node-gpus", "8")
    assert again.out == outcome.out


@pytest.mark.parametrize(
    "text",
    [
        "# mine\nworkers:\n  gpus: 1  # each\n  replicas: 2\n\nimage:\n  repository: a/b\nframework: pytorch\n",
        "trainer: {steps: 9}\nframework: pytorch\n",
        "{trainer: {steps: 9}, framework: pytorch}\n",
    ],
    ids=["blocks", "flow", "all-flow"],
)
def test_file_to_which_nothing_is_added_keeps_its_order(derive: Derive, text: str) -> None:
    once = derive(text)

    body = once.out.partition("\n# Derived by")[0]
    assert list(yaml.safe_load(body)) == list(yaml.safe_load(text))
    if not text.startswith("{"):
        assert body == text
    assert derive(once.out).out == once.out


def test_number_is_what_helm_reads_as_a_number(derive: Derive) -> None:
    # PyYAML reads 1e-1 as a string, but Helm reads it as the number 0.1.
    outcome = derive("gpus: 8\ntrainer: {learningRate: 1e-1}\n", "--node-gpus", "8", "-o", "json")

    assert json.loads(outcome.out)["trainer"] == {"learningRate": 0.1}


def test_json_holds_the_same_values_in_the_schemas_order(derive: Derive) -> None:
    outcome = derive(GOLDEN / "given.yaml", "--node-gpus", "8", "-o", "json")

    values = json.loads(outcome.out)
    assert values == yaml.safe_load((GOLDEN / "derived.yaml").read_text())
    assert list(values) == ["framework", "gpus", "workers", "trainer"]


def test_section_whose_only_value_is_derived_no_more_goes(derive: Derive) -> None:
    outcome = derive("workers:\n  shm: 8Gi  # derived: 1Gi for each of 8 ranks\n")

    assert (outcome.code, outcome.err) == (0, "")
    assert "workers:" not in outcome.out
