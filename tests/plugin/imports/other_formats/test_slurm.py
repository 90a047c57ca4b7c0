"""Test how a Slurm batch script is imported: its values, the list of left-out parts, and how the program is found."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.launch.replaced_options import UNKNOWN_WHY
from distrain.imports.secrets import quoting
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
    assert any(
        note.startswith("SLURM_JOB_ID: Slurm set it, and nothing does here; write $DISTRAIN_JOB in its place")
        for note in draft.notes
    )


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
    ("lines", "replicas"),
    [
        ("-N 1k", 1024),
        ("--ntasks=16 --tasks-per-node=8 --gpus-per-node=8", 2),
        ("-n 9 --ntasks-per-node=8", 2),
        ("--gpus=16 --gpus-per-node=8", 2),
        ("-k -N 2", 2),
        ("--nodes=1,5,9", 1),
    ],
)
def test_number_of_nodes_follows_from_the_ranks_or_the_gpus_of_a_node(lines: str, replicas: int) -> None:
    draft = draft_of(f"#!/bin/bash\n#SBATCH {lines}\nsrun python a.py", is_judged=False)

    assert draft.value(("workers", "replicas")) == replicas


def test_ranks_without_a_number_of_nodes_are_noted() -> None:
    draft = draft_of("#!/bin/bash\n#SBATCH -n 16\nsrun python a.py", is_judged=False)

    assert (
        "workers.replicas: the script names no number of nodes, and Slurm chose it; 1 is taken: set it" in draft.notes
    )


@pytest.mark.parametrize("name", ["nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "tasks-per-node"])
@pytest.mark.parametrize("number", ["0", "-2", "two", "1.5", "8x", "-", "99999999999999999999"])
def test_amount_that_is_no_whole_number_is_refused_with_its_line(name: str, number: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        draft_of(f"#!/bin/bash\n#SBATCH -p gpu\n#SBATCH --{name}={number}\nsrun python a.py", is_judged=False)

    known = name.replace("tasks-per", "ntasks-per") if name == "tasks-per-node" else name
    words = f"is {number}, but must be a whole number above 0; correct it"
    assert refusal.value.messages == (f"{FILE}: line 3: #SBATCH --{known}: {words}",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--nodes=4-2", "line 2: #SBATCH --nodes: is 4-2, a range whose end is below its beginning; correct it there"),
        ("--ntasks=2-4", "line 2: #SBATCH --ntasks: is 2-4, but must be a whole number above 0"),
        ("--nodes", "line 2: #SBATCH --nodes: has no value, but must be a whole number above 0; correct it"),
        ("--gpus=-1", "line 2: #SBATCH --gpus: is -1; write a whole number of GPUs there"),
        ("--gres=gpu:a100:-1", "line 2: #SBATCH --gres: is gpu:a100:-1; write a whole number of GPUs there"),
        ("--comment='of my", "line 2: #SBATCH --comment: has a quote that is not closed; close it"),
    ],
)
def test_amount_of_another_form_is_refused(options: str, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        draft_of(f"#!/bin/bash\n#SBATCH {options}\nsrun python a.py", is_judged=False)

    assert refusal.value.messages[0].startswith(f"{FILE}: {words}")


def test_range_of_nodes_is_carried_as_its_least_with_a_note() -> None:
    draft = draft_of("#!/bin/bash\n#SBATCH --nodes=2-4\nsrun python a.py", is_judged=False)

    assert draft.value(("workers", "replicas")) == 2
    assert "nodes: 2-4 is a range; workers.replicas is its least, 2" in draft.notes


def test_option_that_is_left_out_is_listed_with_its_value_unless_that_is_free_text() -> None:
    draft = _of_slurm(
        "#SBATCH -t abc -p long -C a100 --mem=0 -q high --exclusive --comment='t0p secret' --wrap=secret\n"
        "#SBATCH -o secret --mail-user=secret\nsrun python a.py\n#SBATCH --comment=secret -t 4 --odd='secret"
        "\n#SBATCH --comment=secret -t 4"
    )

    listed = {place for place, _ in draft.lost}
    assert listed == {
        *("--time=abc", "--partition=long", "--constraint=a100", "--mem=0", "--qos=high", "--exclusive", "--comment"),
        *("--wrap", "--output", "--mail-user", "line 6: #SBATCH --comment", "line 7: #SBATCH --comment --time=4"),
    }


@pytest.mark.parametrize("limit", ["UNLIMITED", "infinite", "0", "0:00"])
def test_run_without_a_time_limit_needs_no_value(limit: str) -> None:
    draft = _of_slurm(f"#SBATCH --time={limit}\nsrun python a.py")

    words = "a run has no time limit unless job.activeDeadlineSeconds sets one"
    assert draft.lost == [(f"--time={limit}", words)]
    assert draft.value(("job", "activeDeadlineSeconds")) is None


def test_word_that_is_no_option_is_listed_without_it() -> None:
    assert [place for place, _ in _of_slurm("#SBATCH --qos=a high\nsrun python a.py").lost] == [
        "--qos=a",
        "other-words",
    ]


def test_option_that_a_later_line_sets_again_is_listed() -> None:
    draft = _of_slurm("#SBATCH --nodes=4\nsrun python a.py")

    assert draft.value(("workers", "replicas")) == 4
    assert draft.lost == [("line 2: --nodes=2", "line 3 sets it again, and the last counts")]


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
    assert ("line 6: #SBATCH --nodes=16", "sbatch reads no options after the first command") in draft.lost


def test_variable_that_is_made_of_others_stays_in_the_command() -> None:
    draft = _of_slurm('ROOT=/d\nUNUSED=$ROOT\nARGS="--data $ROOT/x"\nsrun python a.py $ARGS')

    assert draft.value(("command",)) == ["bash", "-c", 'ARGS="--data $ROOT/x" && exec python a.py $ARGS']
    assert draft.value(("env",)) == [{"name": "ROOT", "value": "/d"}]
    assert [place for place, _ in draft.lost] == ["line 4: UNUSED=…"]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param('L="torchrun --nnodes $SLURM_NNODES"\nexport CMD="$L train.py"\nsrun bash -c "$CMD"', id="made"),
        pytest.param("L=$(cat launcher)\nsrun $L app", id="options-or-program"),
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


ARGUMENTS = """DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \\
    --nnodes $NUMBER \\
    --master_addr $MASTER_ADDR
"
"""


@pytest.mark.parametrize(
    ("lines", "command", "listed"),
    [
        pytest.param('A="--nnodes 2"\nsrun torchrun $A a.py', ["python3", "a.py"], [], id="literal"),
        pytest.param("A='-np 16'\nmpirun ${A} python a.py", ["python", "a.py"], [], id="mpirun"),
        pytest.param('L="accelerate launch"\nsrun $L a.py', ["python3", "a.py"], [], id="starter"),
        pytest.param("L=torchrun\n$L --nnodes=2 a.py", ["python3", "a.py"], [], id="starter-first"),
        pytest.param("G=8\nsrun torchrun --nproc_per_node=$G a.py", ["python3", "a.py"], [], id="value-of-an-option"),
        pytest.param('A="--standalone"\nA+=" --nnodes 2"\ntorchrun $A a.py', ["python3", "a.py"],
                     ["line 5: --standalone"], id="longer"),
        pytest.param("GPUS_PER_NODE=8\nNUMBER=2\n" + ARGUMENTS + "torchrun $DISTRIBUTED_ARGS a.py --x",
                     ["python3", "a.py", "--x"], ["line 10: --master_addr $MASTER_ADDR"], id="as-in-megatron"),
        pytest.param('N=$SLURM_NNODES\nB="--nnodes $N"\nA="$B"\ntorchrun $A a.py', ["python3", "a.py"],
                     ["line 6: --nnodes $SLURM_NNODES"], id="values-of-values"),
        pytest.param("torchrun $DIST_ARGS a.py", ["python3", "a.py"], ["line 3: $DIST_ARGS"], id="unset"),
        pytest.param('srun torchrun "${D[@]}" a.py', ["python3", "a.py"], ["line 3: ${D[@]}"], id="array"),
        pytest.param("mpirun $(MPI_ARGS) python a.py", ["python", "a.py"], ["line 3: $(MPI_ARGS)"], id="kubernetes"),
        pytest.param("mpirun ${OPTS:---bind-to ${B:-none}} python a.py", ["python", "a.py"],
                     ["line 3: ${OPTS:---bind-to ${B:-none}}"], id="default"),
        pytest.param("python -m deepspeed.launcher.runner $D_ARGS a.py", ["python", "a.py"], ["line 3: $D_ARGS"],
                     id="module"),
        pytest.param("srun $MORE torchrun a.py", ["python3", "a.py"], ["line 3: $MORE"], id="before-another-starter"),
        pytest.param("source args.sh\nsrun torchrun $D --nnodes 2 a.py", ["python3", "a.py"],
                     ["line 3: source …", "line 4: $D"], id="before-an-option"),
        pytest.param('A="$(cat f)"\ntorchrun $A a.py', ["python3", "a.py"], ["line 3: A=…", "line 4: $A"],
                     id="substitution"),
        pytest.param("srun $PYTHON a.py", ["bash", "-c", "$PYTHON a.py"], [], id="program"),
        pytest.param("torchrun $FILE --lr 1", ["bash", "-c", "python3 $FILE --lr 1"], [], id="file"),
        pytest.param("E=/x/app\nsrun $E in", ["/x/app", "in"], [], id="known-program"),
    ],
)  # fmt: skip
def test_variable_with_options_of_the_starter_is_no_program(lines: str, command: list[str], listed: list[str]) -> None:
    draft = _of_slurm(lines)

    assert draft.value(("command",)) == command
    assert [place for place, _ in draft.lost] == listed


def test_variable_that_another_command_reads_or_the_script_exports_stays_in_env() -> None:
    draft = _of_slurm("export A='--nnodes 2'\nB=8\ntorchrun --nproc_per_node $B $A a.py --batch $B")

    assert draft.value(("command",)) == ["bash", "-c", "python3 a.py --batch $B"]
    assert draft.value(("env",)) == [{"name": "A", "value": "--nnodes 2"}, {"name": "B", "value": "8"}]


@pytest.mark.parametrize("lines", ["[ -n $A ] && A=--x\ntorchrun $A a.py", "A='$A --x'\ntorchrun $A a.py"])
def test_value_that_is_not_certain_is_not_used(lines: str) -> None:
    assert ("line 4: $A", UNKNOWN_WHY) in _of_slurm(lines).lost


def test_values_that_double_each_other_end() -> None:
    lines = "\n".join(f'A{number}="$A{number - 1} $A{number - 1}"' for number in range(1, 60))

    assert _of_slurm(f"A0=--x\n{lines}\ntorchrun $A59 a.py").value(("command",)) == [PROGRAM]


@pytest.mark.parametrize(
    ("lines", "number", "name"),
    [
        ("for i in 1 2; do srun python a.py; done", 3, "a loop"),
        ("echo 1\nif [ -f a ]; then\n srun python a.py\nfi", 4, "a condition"),
        ("A=(1 2)\nsrun python a.py", 3, "an array"),
        ("cat > f <<EOF\na\nEOF\nsrun python a.py", 3, "a here-document"),
        ("\nrun() { srun a; }\nrun", 4, "a function"),
        ("# It's for you.\nsrun python 'a.py", 4, "a quote that is not closed"),
        ("(cd /a; srun a)", 3, "a group of commands"),
        ("A=1; while true; do srun a; done", 3, "a loop"),
    ],
)
def test_script_that_is_more_than_commands_is_listed_with_its_line(lines: str, number: int, name: str) -> None:
    draft = _of_slurm(lines)

    setting, line = draft.settings["command",], quoting.line(f"#\n#\n{lines}".split("\n")[number - 1])
    assert (setting.value, setting.origins) == ([PROGRAM], (f"line {number} has {name}",))
    [(place, why)] = draft.lost
    assert place == f"script, line {number}: {line}"
    assert why.startswith(
        f"{name} is more than a simple command, so the import carries no line of the script over; write"
    )
    assert [note for note in draft.notes if PROGRAM in note]


@pytest.mark.parametrize(
    "line",
    [
        "# Ask for 2 nodes, and wait for them if needed.",
        "echo 'waiting for nodes' \"if (any)\" a\\<<b",
        "echo \\\n  for all",
        "#SBATCH --comment=()",
    ],
)
def test_words_of_comments_and_quotes_are_no_syntax(line: str) -> None:
    assert _of_slurm(f"{line}\nsrun python a.py").value(("command",)) == ["python", "a.py"]


def test_script_without_a_program_is_listed() -> None:
    draft = _of_slurm("module load a\nexport A=1")

    assert draft.value(("command",)) == [PROGRAM]
    assert draft.lost[0][0] == "script"


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


@pytest.mark.parametrize("start", ["export", "readonly", "declare -x", "declare -rx", "typeset -x", "readonly --"])
def test_variable_is_set_however_the_shell_declares_it(start: str) -> None:
    draft = _of_slurm(f"{start} SEED=7\n{start} ARGS=--standalone\nsrun torchrun $ARGS a.py")

    assert {"name": "SEED", "value": "7"} in draft.value(("env",))
    assert draft.value(("command",)) == ["python3", "a.py"]


@pytest.mark.parametrize(
    "lines", ["srun --container-image=nvcr.io/nvidia/nemo:24.01 python a.py", "cd Megatron-LM\nsrun python a.py"]
)
def test_script_of_megatron_or_nemo_is_one_of_pytorch(lines: str) -> None:
    assert _of_slurm(lines).value(("framework",)) == "pytorch"


def test_command_that_writes_a_file_is_not_listed_as_one_that_only_prints() -> None:
    draft = _of_slurm("echo $KEY > ~/.key\necho a\nsrun python a.py")

    assert [place for place, _ in draft.lost] == ["line 3: echo …", "line 4: echo"]
