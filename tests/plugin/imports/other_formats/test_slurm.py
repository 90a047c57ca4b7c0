"""Test importing Slurm batch scripts: values, listed omissions, and how the program is found."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from distrain.imports.draft import Draft
from distrain.imports.values_file import written
from distrain.values.placeholder import PROGRAM
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA
from tests.plugin.imports.drafts import FILE
from tests.plugin.imports.other_formats.other_sources import FOLDER, draft_of


def test_variables_of_slurms_export_are_carried_over() -> None:
    draft = draft_of("#!/bin/bash\n#SBATCH --nodes=1 --export=ALL,SEED=7,HOME\nsrun python -m torch.a")

    assert draft.values()["env"] == [{"name": "SEED", "value": "7"}]
    assert [place for place, _ in draft.lost] == ["export: ALL", "export: HOME"]


@pytest.mark.parametrize("line", ["srun python a.py --dist-url env://", "export MASTER_ADDR=a\nsrun python a.py"])
def test_script_of_slurm_with_pytorchs_variables_is_a_pytorch_job(line: str) -> None:
    values = draft_of(f"#!/bin/bash\n#SBATCH --nodes=2\n{line}\n").values()

    assert (values["framework"], values["job"]) == ("pytorch", {"elastic": False})


def test_batch_script_of_slurm_becomes_a_pytorch_job() -> None:
    draft = draft_of((FOLDER / "slurm-torchrun.sbatch").read_text())

    values = draft.values()

    assert values["job"] == {"elastic": False}
    assert values["workers"] == {"replicas": 4, "gpus": 8, "cpu": 64, "memory": "480Gi"}
    assert values["command"][-1] == (
        'cd /work/llama && exec python3 train.py --config configs/7b.yaml --run "$SLURM_JOB_ID"'
    )
    listed = " ".join(place for place, _ in draft.lost)
    for part in ("a100", "module load", "source …", "MASTER_ADDR", "partition", "exclusive", "output", "time"):
        assert part in listed
    assert any(note.startswith("SLURM_JOB_ID: nothing sets it here") for note in draft.notes)


@pytest.mark.parametrize(
    ("lines", "workers"),
    [
        ("-N2 -c 4 --ntasks-per-node=8 --gpus=16 --mem-per-cpu=2G", {"gpus": 8, "cpu": 32, "memory": "64Gi"}),
        ("--nodes=2 --gpus-per-task=1 --ntasks=8 --mem=1000", {"gpus": 4, "memory": "1000Mi"}),
        ("--nodes=2-4 --gres=gpu:2", {"gpus": 2}),
        ("--nodes=2 --gres=gpu", {"gpus": 1}),
        ("--nodes=2 --gres=gpu:a100:8,nvme:1", {"gpus": 8}),
        ("--nodes=2 --gres=nvme:1,gpu:v100:2(S:0-1),gpu:a100:2", {"gpus": 4}),
        ("--nodes=2 --gpus-per-node=a100:4", {"gpus": 4}),
        ("--nodes 2", {"gpus": 0}),
    ],
)
def test_amounts_of_slurm_are_those_of_a_node(lines: str, workers: dict[str, Any]) -> None:
    script = f"#!/bin/bash\n#SBATCH {lines}\nsrun python train.py"

    found = draft_of(script, is_judged=False).values()["workers"]

    assert found == {"replicas": 2, **workers}


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-0", 86400), ("1-2:30", 95400), ("1-00:00:10", 86410)],
)
def test_time_limit_of_slurm_is_in_seconds(limit: str, seconds: int) -> None:
    script = f"#!/bin/bash\n#SBATCH -N 1 -t {limit}\nmpirun python a.py"

    assert draft_of(script, is_judged=False).values()["job"]["activeDeadlineSeconds"] == seconds


def _of_slurm(lines: str) -> Draft:
    return draft_of(f"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=8\n{lines}\n", is_judged=False)


def test_options_behind_the_first_command_of_a_batch_script_are_listed_as_sbatch_ignores_them() -> None:
    draft = _of_slurm("# A comment.\n#SBATCH -t 10\nmodule load x\n#SBATCH --nodes=16\nsrun python a.py")

    assert draft.value(("workers", "replicas")) == 2
    assert draft.value(("job", "activeDeadlineSeconds")) == 600
    assert ("#SBATCH --nodes …", "sbatch reads no options after the first command") in draft.lost


def test_variable_that_is_made_of_others_stays_in_the_command() -> None:
    draft = _of_slurm('ROOT=/d\nUNUSED=$ROOT\nARGS="--data $ROOT/x"\nsrun python a.py $ARGS')

    assert draft.value(("command",)) == ["bash", "-c", 'ARGS="--data $ROOT/x" && exec python a.py $ARGS']
    assert draft.value(("env",)) == [{"name": "ROOT", "value": "/d"}]
    assert [place for place, _ in draft.lost] == ["line 4: UNUSED=…"]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param('L="torchrun --nnodes $SLURM_NNODES"\nexport CMD="$L train.py"\nsrun bash -c "$CMD"', id="made"),
        pytest.param('L="accelerate launch --num_processes 16"\nsrun $L train.py', id="literal"),
        pytest.param("srun python prepare.py\nsrun python train.py", id="one-after-the-other"),
        pytest.param("srun python server.py &\nsrun python train.py &\nwait", id="at-once"),
    ],
)
def test_batch_script_whose_program_cannot_be_told_gets_the_placeholder(lines: str) -> None:
    draft = _of_slurm(lines)

    assert draft.value(("command",)) == [PROGRAM]
    assert [note for note in draft.notes if PROGRAM in note]
    listed = [place for place, _ in draft.lost]
    for number, line in enumerate(lines.split("\n"), 3):
        assert not line.startswith("srun") or f"line {number}: srun …" in listed


def test_srun_that_only_prints_is_no_program() -> None:
    assert _of_slurm("srun hostname\nsrun python a.py").value(("command",)) == ["python", "a.py"]


def test_last_value_of_a_variable_counts_in_a_batch_script() -> None:
    assert _of_slurm("export A=1\nexport A=2\nsrun a").value(("env",)) == [{"name": "A", "value": "2"}]


@pytest.mark.parametrize(
    ("lines", "framework", "why"),
    [
        ('export MASTER_ADDR=x\nsrun bash -c "python a.py"', "pytorch", '"MASTER_ADDR" in the script'),
        ("srun python a.py --dist-url env://", "pytorch", '"dist-url" in the script'),
        ("srun python a.py", "tensorflow", "nothing names the framework"),
    ],
)
def test_framework_of_a_batch_script_is_told_from_its_rendezvous(lines: str, framework: str, why: str) -> None:
    setting = _of_slurm(lines).settings[("framework",)]

    assert (setting.value, setting.origins) == (framework, (why,))


def test_long_line_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"w{number}" for number in range(500)]
    dump = Mock(wraps=yaml_writer.dump)
    draft = _of_slurm(f"srun python a.py {' '.join(words)}")
    monkeypatch.setattr(yaml_writer, "dump", dump)

    text = written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA)

    assert dump.call_count < 50
    assert yaml.safe_load(text)["command"] == ["python", "a.py", *words]
