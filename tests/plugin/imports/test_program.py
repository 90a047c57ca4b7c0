"""Test that the import finds the ranks' program in a command, in the forms in which people commonly write it."""

from __future__ import annotations

import pytest

from distrain.imports.launch.program import program_of
from distrain.imports.launch.starters import started
from distrain.values.placeholder import PROGRAM


@pytest.mark.parametrize(
    ("command", "program"),
    [
        pytest.param(
            "mpirun -np 2 --allow-run-as-root -x A=b -mca pml ob1 python /x.py --lr 1",
            "python /x.py --lr 1",
            id="mpirun",
        ),
        pytest.param(
            "/usr/local/bin/mpirun --mca=x y python a.py", "y python a.py", id="equals-sign-takes-no-more-words"
        ),
        pytest.param("mpiexec.hydra -n 4 -ppn 2 -genv A b ./a.out", "./a.out", id="hydra"),
        pytest.param("mpiexec -n 4 -genv A=b -bootstrap ssh ./a.out", "./a.out", id="hydra-with-equals-sign"),
        pytest.param("mpirun --unknown python a.py", "python a.py", id="unknown-option-before-a-program"),
        pytest.param("mpirun --unknown 3 python a.py", "python a.py", id="unknown-option-with-a-value"),
        pytest.param("mpirun -np 2 -- -odd", "-odd", id="end-of-options"),
        pytest.param("horovodrun -np 2 --min-np 1 --timeline-filename /t python a.py", "python a.py", id="horovodrun"),
        pytest.param("torchrun --nproc_per_node 8 --nnodes=2 a.py -x", "python3 a.py -x", id="torchrun"),
        pytest.param("torchrun -m pkg.mod --a", "python3 -m pkg.mod --a", id="torchrun-module"),
        pytest.param("torchrun --no-python ./run.sh a", "./run.sh a", id="torchrun-no-python"),
        pytest.param("python3.11 -u -m torch.distributed.run --standalone a.py", "python3.11 a.py", id="torch-module"),
        pytest.param("python -m torch.distributed.launch --use_env a.py", "python a.py", id="torch-launch"),
        pytest.param("accelerate launch --mixed_precision bf16 a.py --b", "python3 a.py --b", id="accelerate"),
        pytest.param(
            "deepspeed --num_gpus 4 --hostfile /h a.py --deepspeed c.json",
            "python3 a.py --deepspeed c.json",
            id="deepspeed",
        ),
        pytest.param("srun -N2 --ntasks-per-node=4 -c 8 python a.py", "python a.py", id="srun"),
        pytest.param("mpirun --timeout 9 --report-state-on-timeout app x", "app x", id="mpirun-flag"),
        pytest.param("mpirun --launch-agent /opt/orted app x", "app x", id="mpirun-path-as-value"),
        pytest.param("mpiexec.hydra -outfile-pattern /o/%r app x", "app x", id="hydra-path-as-value"),
        pytest.param("torchrun -m --nproc_per_node 2 pkg.mod", "python3 -m pkg.mod", id="torchrun-flag-first"),
        pytest.param("accelerate launch --fsdp_version 2 -t 3 a.py", "python3 a.py", id="accelerate-values"),
        pytest.param("accelerate launch --use_fsdp a.py", "python3 a.py", id="accelerate-flag"),
        pytest.param("deepspeed --elastic_training a.py", "python3 a.py", id="deepspeed-flag"),
        pytest.param("deepspeed --module --num_gpus 2 pkg.mod --x", "python3 -m pkg.mod --x", id="deepspeed-module"),
        pytest.param("srun -N2 -k app x", "app x", id="srun-optional-value"),
        pytest.param("srun --exclusive --kill-on-bad-exit app x", "app x", id="srun-long-optional-value"),
        pytest.param("srun -b now -M one --mem-per-gpu 8G app x", "app x", id="srun-values"),
        pytest.param("env A=1 mpirun -np 2 python a.py", "env A=1 python a.py", id="env-before"),
        pytest.param("python train.py --launcher mpirun", "python train.py --launcher mpirun", id="no-starter"),
    ],
)
def test_what_starts_the_ranks_is_taken_off(command: str, program: str) -> None:
    assert program_of(command.split()).words == tuple(program.split())


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["mpirun", "$(MPI_ARGS)", "python", "a.py"], ("python", "a.py")),
        (["bash", "-c", "mpirun $MPI_ARGS python a.py"], ("python", "a.py")),
        (["sh", "-c", "cd /w && mpirun ${MPI_ARGS} ./a $X"], ("sh", "-c", "cd /w && exec ./a $X")),
        (["sh", "-c", "A='--x' && torchrun $A a.py"], ("python3", "a.py")),
    ],
)
def test_variable_of_the_container_that_holds_options_is_read(command: list[str], program: tuple[str, ...]) -> None:
    found = program_of(command, {"MPI_ARGS": "-np 2 --tag-output"})

    assert (found.words, found.left) == (program, ())


@pytest.mark.parametrize("words", ["mpirun $(MPI_ARGS) python a.py", "mpirun ${X[@]} bash a", "torchrun $X a.py"])
def test_unknown_variable_of_options_is_an_option_of_the_starter(words: str) -> None:
    found = started(words.split())

    assert found
    assert (found.program, [option.shown for option in found.options]) == (2, [words.split()[1]])


@pytest.mark.parametrize(
    ("script", "program"),
    [
        pytest.param("mpirun -np 2 python 'a b.py'", ("python", "a b.py"), id="quotes"),
        pytest.param("mpirun \\\n  -np 2 \\\n  python a.py\n", ("python", "a.py"), id="lines"),
        pytest.param("exec mpirun python a.py", ("python", "a.py"), id="exec"),
        pytest.param("cd /w && time mpirun python a.py", ("bash", "-c", "cd /w && exec python a.py"), id="time"),
        pytest.param(
            "cd /w && export A=b; mpirun -np 2 python a.py --lr $LR",
            ("bash", "-c", "cd /w && export A=b && exec python a.py --lr $LR"),
            id="setup-and-variables",
        ),
        pytest.param(
            "echo start\nA=1 mpirun -np 2 python a.py", ("bash", "-c", "A=1 python a.py"), id="variable-of-the-program"
        ),
        pytest.param("torchrun a.py > /log 2>&1", ("bash", "-c", "python3 a.py > /log 2>&1"), id="redirection"),
        pytest.param("python a.py | tee log", ("bash", "-c", "python a.py | tee log"), id="no-starter-stays"),
    ],
)
def test_script_is_taken_apart(script: str, program: tuple[str, ...]) -> None:
    found = program_of(["bash", "-c", script])

    assert found.words == program
    assert found.left == ()


def test_commands_that_ran_once_are_left_out_and_named() -> None:
    found = program_of(["sh", "-c", "pip install x && mpirun -np 2 python a.py | tee log; aws s3 sync /out s3://b"])

    assert found.words == ("python", "a.py")
    assert [words for words, _ in found.left] == ["pip install …", "tee …", "aws s3 …"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("for i in 1 2; do mpirun -np 2 a; done", id="loop"),
        pytest.param("mpirun a || mpirun b", id="two"),
        pytest.param("mpirun -np 2 python a.py & wait", id="background"),
        pytest.param("mpirun 'python a.py", id="open-quote"),
        pytest.param("mpirun -np 2", id="no-program"),
        pytest.param("mpirun -np 2 python a.py : -np 2 python b.py", id="several-programs"),
        pytest.param("mpirun --hostfile <(head -1 /f) -np 2 python a.py", id="substituted-process"),
        pytest.param("ARGS=(--x 1)\nmpirun -np 2 python a.py ${ARGS[@]}", id="array"),
    ],
)
def test_script_that_cannot_be_taken_apart_leaves_a_placeholder(script: str) -> None:
    found = program_of(["bash", "-c", script])

    assert found.words == (PROGRAM,)
    assert len(found.left) == 1


def test_options_are_given_back_with_their_values() -> None:
    found = started(["mpirun", "-np", "2", "-mca", "btl", "^openib", "--bind-to=none", "--tag-output", "python"])

    assert found
    assert [(option.name, option.values) for option in found.options] == [
        ("np", ("2",)),
        ("mca", ("btl", "^openib")),
        ("bind-to", ("none",)),
        ("tag-output", ()),
    ]


@pytest.mark.parametrize("command", ["echo k > /root/.key", "env >>/etc/environment", "hostname 2>/dev/null >/etc/h"])
def test_command_that_writes_a_file_is_listed(command: str) -> None:
    before, behind = (program_of(["bash", "-c", line]) for line in (f"{command}; mpirun a", f"mpirun a; {command}"))

    name = command.split()[0]
    assert [left for left, _ in (*before.left, *behind.left)] == [f"{name} …"] * 2


@pytest.mark.parametrize("command", ["echo a", "echo a >&2", "which nvcc > /dev/null 2>&1"])
def test_command_that_only_prints_is_not_listed(command: str) -> None:
    assert program_of(["bash", "-c", f"{command}; mpirun a; {command}"]).left == ()
