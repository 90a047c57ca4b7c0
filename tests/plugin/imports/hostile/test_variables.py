"""Test that each variable in an imported command is set in `env` or by the ranks' starter, or is noted for the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.launch.variables import unset_in
from distrain.imports.read import finished, read
from distrain.yaml import yaml_writer
from tests.plugin.imports.drafts import FILE, accepting, drafted, mpi_job, pytorch_job
from tests.plugin.imports.jobset_drafts import jobset, replicated

NAME = "DATA_OF_THE_TEAM"
TAIL = f"--data ${{{NAME}}}/x"
ENV = {"env": [{"name": NAME, "value": "/d"}]}


def _of_text(text: str) -> Draft:
    draft = read(find_job(text, FILE), FILE)
    finished(draft, accepting, FILE)
    return draft


def _script(start: str) -> list[str]:
    return ["bash", "-c", f"cd /w && {start} a.py {TAIL}"]


def _is_set_or_noted(draft: Draft) -> bool:
    top = [*draft.value(("env",), []), *draft.value(("workers", "env"), [])]
    is_used = any(NAME in word for word in draft.value(("command",)))
    is_noted = any(note.startswith(f"{NAME}: nothing sets it here") for note in draft.notes)
    return is_used and (NAME in [entry["name"] for entry in top]) is not is_noted


@pytest.mark.parametrize("env", [ENV, {}], ids=["set", "unset"])
@pytest.mark.parametrize("start", ["mpirun -np 2 python", "horovodrun -np 2 python", "python"])
def test_variable_of_a_launcher_is_set_in_the_ranks_or_noted(start: str, env: dict[str, object]) -> None:
    draft = drafted(mpi_job(launcher={"command": _script(start), **env}))

    assert _is_set_or_noted(draft)
    assert bool(draft.notes[-1].startswith(NAME)) is not bool(env)
    assert draft.value(("launcher", "env")) is None


@pytest.mark.parametrize("env", [ENV, {}], ids=["set", "unset"])
@pytest.mark.parametrize(
    "job",
    [
        lambda env: pytorch_job({"command": _script("torchrun"), **env}),
        lambda env: pytorch_job({"command": ["torchrun", "a.py", f"--data=$({NAME})"], **env}),
        lambda env: mpi_job({"command": _script("mpirun python")}, env),
        lambda env: jobset(replicated("w", {"command": _script("torchrun"), **env})),
    ],
)
def test_variable_of_a_job_is_set_or_noted(
    job: Callable[[dict[str, object]], dict[str, Any]], env: dict[str, object]
) -> None:
    assert _is_set_or_noted(_of_text(yaml_writer.dump(job(env))))


@pytest.mark.parametrize("before", [f"export {NAME}=/d\n", ""], ids=["set", "unset"])
@pytest.mark.parametrize("start", ["srun python", "mpirun python", "torchrun", "python"])
def test_variable_of_a_batch_script_is_set_or_noted(start: str, before: str) -> None:
    assert _is_set_or_noted(_of_text(f"#!/bin/bash\n#SBATCH -N 2\n{before}{start} a.py {TAIL}\n"))


@pytest.mark.parametrize("flag", [f"--env={NAME}=/d", ""], ids=["set", "unset"])
def test_variable_of_another_format_is_set_or_noted(flag: str) -> None:
    assert _is_set_or_noted(_of_text(f"arena submit mpi --image=a/b:1 {flag} 'mpirun -np 2 python a.py {TAIL}'"))


@pytest.mark.parametrize(
    "text",
    [
        yaml_writer.dump({"framework": {"name": "pytorch", "version": "1", "command": f"python a.py {TAIL}"}}),
        f"ks generate openmpi a --image a/b:1 --secret s --exec 'mpirun python a.py {TAIL}'",
        yaml_writer.dump({"worker": {"number": 2}, "master": {"args": [f"mpirun -np 2 python a.py {TAIL}"]}}),
    ],
)
def test_variable_that_a_format_cannot_set_is_noted(text: str) -> None:
    assert _is_set_or_noted(_of_text(text))


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("A=1; b $A ${A} $B", ["B"]),
        ("X=$X:/y; a $X", ["X"]),
        ("for f in 1 2; do a $f; done; read -r l; a $l", []),
        ("a ${B:-c} ${B-c} ${B:+c} \\$C $1 $? $$ $(date)", []),
        ("a ${#B} ${B%.py} ${B[0]}", ["B", "B", "B"]),
        ('A="x y" && b "$A" c=$D', ["D"]),
        ("a $A; A=1", ["A"]),
    ],
)
def test_variable_is_unset_where_the_script_reads_it_first(script: str, names: list[str]) -> None:
    assert [*unset_in(script)] == names


@pytest.mark.parametrize(
    ("line", "noted"),
    [
        (
            "srun torchrun a.py $SLURM_PROCID",
            "SLURM_PROCID: write $RANK in its place",
        ),
        (
            "mpirun python a.py ${SLURM_PROCID}",
            "SLURM_PROCID: write $OMPI_COMM_WORLD_RANK",
        ),
        ("torchrun a.py -n $SLURM_NNODES", "SLURM_NNODES: write 2 into command"),
        ("srun python a.py $SLURM_JOB_ID", "SLURM_JOB_ID: write $DISTRAIN_JOB in"),
        (
            "A=$SLURM_NODEID\nmpirun python a.py $A",
            "SLURM_NODEID: write its value",
        ),
        (
            "srun python a.py $SLURM_ARRAY_TASK_ID",
            "SLURM_ARRAY_TASK_ID: a run is one",
        ),
        (
            "srun python a.py $SLURM_GPUS_ON_NODE",
            "SLURM_GPUS_ON_NODE: write its value",
        ),
        ("srun python a.py $SLURM_NODELIST", "SLURM_NODELIST: distrain says how"),
        ('srun python a.py $1 "$@" ${2}', "$1, $@, ${2}: no arguments follow the script here; write their values"),
        ("srun python a.py \\\\$1 $?", ""),
        ("srun python a.py $(awk '{print $1}' f)", ""),
        ("srun bash -c 'python a.py $1' a b", ""),
        ("srun bash -c 'f() { python a.py $1; }; f 1'", ""),
        ("srun python a.py ${SLURM_PROCID:-0}", ""),
    ],
)
def test_variable_of_slurm_and_argument_of_the_script_is_noted_with_its_replacement(line: str, noted: str) -> None:
    draft = _of_text(f"#!/bin/bash\n#SBATCH -N 2\n{line}\n")

    notes = [note.replace("Slurm set it, and nothing does here; ", "") for note in draft.notes if "image" not in note]
    assert [note[: len(noted)] for note in notes] == ([noted] if noted else [])


@pytest.mark.parametrize(
    ("job", "noted"),
    [
        (pytorch_job({"command": ["sh", "-c", "torchrun a.py $RANK $MASTER_ADDR"]}), ""),
        (mpi_job({"command": ["sh", "-c", "mpirun a.py $RANK $OMPI_COMM_WORLD_RANK"]}), "RANK: nothing sets it"),
        (mpi_job({"command": ["sh", "-c", "mpirun -x K=1 a.py $K"]}), ""),
    ],
)
def test_what_starts_the_ranks_sets_its_variables(job: dict[str, object], noted: str) -> None:
    found = [note for note in drafted(job).notes if "nothing sets it" in note]

    assert [note[: len(noted)] for note in found] == ([noted] if noted else [])


def test_variable_that_launcher_and_workers_have_with_two_values_is_noted() -> None:
    other = {"env": [{"name": NAME, "value": "/other"}]}

    draft = drafted(mpi_job({"command": _script("mpirun python"), **ENV}, other))

    words = f"command: {NAME}: the command read the launcher's value; here it reads the workers', which is another one"
    assert words in draft.notes


def test_variable_that_holds_what_starts_the_ranks_is_noted() -> None:
    env = [{"name": "START", "value": "torchrun --nproc_per_node 8"}, {"name": "OTHER", "value": "torchrun"}]

    draft = drafted(pytorch_job({"command": ["bash", "-c", 'eval "$START a.py"'], "env": env}))

    words = "START: it holds torchrun, and distrain starts the ranks itself; write the program as command"
    assert [note for note in draft.notes if "torchrun" in note] == [words]


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\n#SBATCH -N 2\nexport PASSWORD=t0psecret99\nmpirun -x MORE=$PASSWORD python a.py",
        "#!/bin/bash\n#SBATCH -N 2\nPASSWORD=t0psecret99\nA='-x MORE='$PASSWORD\nmpirun $A python a.py",
        "arena submit mpi --image=a/b:1 --env=PASSWORD=t0psecret99 'mpirun -x MORE=$PASSWORD python a.py'",
        yaml_writer.dump(
            mpi_job(
                {
                    "command": ["sh", "-c", "mpirun -x MORE=$PASSWORD python a.py"],
                    "env": [{"name": "PASSWORD", "value": "t0psecret99"}],
                }
            )
        ),
    ],
)
def test_credential_in_an_option_is_not_written_out(text: str) -> None:
    draft = _of_text(text)

    assert "t0psecret99" not in str((draft.values(), draft.lost, draft.notes))


def test_value_that_follows_from_another_is_listed_and_no_literal() -> None:
    path = "LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH"

    draft = drafted(mpi_job({"command": ["sh", "-c", f"mpirun -x {path} -np 2 python a.py"]}))

    assert draft.value(("mpi", "env", "LD_LIBRARY_PATH")) is None
    assert [place for place, _ in draft.lost if place.endswith("-x LD_LIBRARY_PATH=…")]


def test_value_of_arena_that_a_shell_made_is_listed() -> None:
    draft = _of_text("arena submit mpi --image=a/b:1 --env A=1 --env B=$(cat /x) 'mpirun -np 2 python a.py'")

    assert draft.value(("env",)) == [{"name": "A", "value": "1"}]
    assert ("env[1]", "a shell made its value; set it in env") in draft.lost


def test_option_of_another_mpi_is_listed_with_what_to_do() -> None:
    job = mpi_job({"command": ["mpirun", "-np", "2", "--display-map", "a.out"]}, spec={"mpiImplementation": "Intel"})

    words = "the source's mpirun is another MPI's; if Open MPI has this option, put it into mpi.flags"
    assert [why for place, why in drafted(job).lost if place.endswith("--display-map")] == [words]


def test_what_the_launchers_shell_did_once_is_noted() -> None:
    draft = drafted(
        mpi_job({"command": ["sh", "-c", "mpirun -np 2 a.py $(date +%s) --host $HOSTNAME > /out/log 2>&1"]})
    )

    words = "$(date …), $HOSTNAME, > /out/log: the launcher's shell did it once; here each rank does"
    assert [note for note in draft.notes if note.endswith(words)]
