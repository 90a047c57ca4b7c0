"""Test that the import finds a Slurm script's program in a container, or under numactl or a similar tool."""

from __future__ import annotations

import pytest

from distrain.imports.draft import Draft
from distrain.imports.secrets import quoting
from distrain.values.placeholder import IMAGE, PROGRAM
from tests.plugin.imports.other_formats.other_sources import draft_of


def _of(lines: str) -> Draft:
    return draft_of(f"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=8\n{lines}\n", is_judged=False)


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        pytest.param("time python a.py", [], id="time"),
        pytest.param("nohup python a.py", [], id="nohup"),
        pytest.param("exec python a.py", [], id="exec"),
        pytest.param("/usr/bin/time -o log -v srun python a.py", [], id="time-with-options"),
        pytest.param("srun numactl --physcpubind=0 -m 0 python a.py", ["line 3: numactl --physcpubind=0 -m 0"],
                     id="numactl"),
        pytest.param("numactl -N0 srun -n 2 python a.py", ["line 3: numactl -N0"], id="numactl-first"),
        pytest.param("srun stdbuf -oL -e L python a.py", ["line 3: stdbuf -oL -e L"], id="stdbuf"),
        pytest.param("timeout -k 9 10h srun python a.py", ["line 3: timeout -k 9 10h"], id="timeout"),
        pytest.param("srun taskset -c 0-7 nice -n 5 python a.py", ["line 3: taskset -c 0-7", "line 3: nice -n 5"],
                     id="two"),
        pytest.param("srun \\\n numactl \\\n  -l \\\n  python a.py", ["line 3: numactl -l"], id="lines"),
        pytest.param("nvidia-smi\ndate; echo $TOKEN\npython a.py", ["lines 3, 4, 4: nvidia-smi, date, echo"],
                     id="printed"),
        pytest.param("srun nvidia-smi\nsrun python a.py\nwait", ["line 3: srun …"], id="srun-that-prints"),
    ],
)  # fmt: skip
def test_program_is_found_behind_what_wraps_it(line: str, listed: list[str]) -> None:
    draft = _of(line)

    assert draft.value(("command",)) == ["python", "a.py"]
    assert [place for place, _ in draft.lost] == listed


@pytest.mark.parametrize(
    ("line", "command", "env"),
    [
        ("env X=1 Y=b python a.py", ["python", "a.py"], {"X": "1", "Y": "b"}),
        ("srun env X=1 numactl -l python a.py", ["python", "a.py"], {"X": "1"}),
        ("env -u A python a.py", ["env", "-u", "A", "python", "a.py"], {}),
        ("srun env X=$Y python a.py", ["bash", "-c", "env X=$Y python a.py"], {}),
        ("export X=0\nX=1 srun python a.py", ["bash", "-c", "X=1 python a.py"], {"X": "0"}),
        ("export X=0\nenv X=1 srun python a.py", ["python", "a.py"], {"X": "1"}),
    ],
)
def test_variables_of_env_are_those_of_the_pods(line: str, command: list[str], env: dict[str, str]) -> None:
    draft = _of(line)

    assert draft.value(("command",)) == command
    assert {each["name"]: each["value"] for each in draft.value(("env",), [])} == env


def test_credential_of_a_container_becomes_a_key_of_the_secret() -> None:
    draft = _of("docker run -e HF_TOKEN=hf_0123456789abcdef -e LR=1 team/a:1 python a.py")

    [token, rate] = draft.value(("env",))
    assert (draft.credentials.keys, rate) == (["HF_TOKEN"], {"name": "LR", "value": "1"})
    assert "value" not in token


@pytest.mark.parametrize(
    ("line", "image", "listed"),
    [
        pytest.param("srun singularity exec --nv a.sif python a.py", IMAGE, ["line 3: singularity: a.sif"], id="sif"),
        pytest.param("apptainer -q exec --bind /d:/d --nv docker://team/a:1 python a.py", "team/a",
                     ["line 3: apptainer --bind /d:/d"], id="docker"),
        pytest.param("srun apptainer exec --cwd /w oras://r/a python a.py", IMAGE,
                     ["line 3: apptainer: oras://r/a", "line 3: apptainer --cwd /w"], id="another-registry"),
        pytest.param("I=docker://team/a:1\nsrun singularity exec $I python a.py", "team/a", [], id="variable"),
        pytest.param("srun singularity exec $I python a.py", IMAGE, ["line 3: singularity: $I"], id="unknown-variable"),
        pytest.param('C="singularity exec docker://team/a:1"\nsrun $C python a.py', "team/a", [], id="whole-variable"),
        pytest.param("enroot start -m /d:/d -- nccl python a.py", IMAGE,
                     ["line 3: enroot: nccl", "line 3: enroot -m /d:/d"], id="enroot"),
        pytest.param("srun shifter --image=docker:team/a:1 python a.py", "team/a", [], id="shifter"),
        pytest.param("srun docker run --rm -v /d:/d --gpus all team/a:1 python a.py", "team/a",
                     ["line 3: docker --rm", "line 3: docker -v /d:/d"], id="docker-run"),
        pytest.param("ch-run -b /d:/d ./img -- python a.py", IMAGE,
                     ["line 3: ch-run: ./img", "line 3: ch-run -b /d:/d"], id="charliecloud"),
        pytest.param("srun --container-image=team#a:1 python a.py", "team/a", [], id="pyxis"),
        pytest.param("I=team/a:1\nsrun --container-image $I python a.py", "team/a", [], id="pyxis-variable"),
        pytest.param("srun --container-image=/x/a.sqsh python a.py", IMAGE, ["container-image: /x/a.sqsh"], id="file"),
        pytest.param("#SBATCH --container-image=$IMG\nsrun python a.py", IMAGE, ["container-image: $IMG"], id="header"),
    ],
)  # fmt: skip
def test_program_is_found_in_its_container(line: str, image: str, listed: list[str]) -> None:
    draft = _of(line)

    assert draft.value(("command",)) == ["python", "a.py"]
    assert draft.value(("image", "repository")) == image
    assert [place for place, _ in draft.lost] == listed
    assert any(note.startswith("image.repository: a Slurm job has no image") for note in draft.notes) == (
        image == IMAGE
    )


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("srun bash -c 'torchrun --nnodes=2 a.py'", ["python3", "a.py"]),
        ("srun bash -c 'torchrun --nnodes=2 a.py $X'", ["bash", "-c", "python3 a.py $X"]),
        ('srun bash -c "cd /w && torchrun a.py --out $OUT"', ["bash", "-c", "cd /w && exec python3 a.py --out $OUT"]),
        ("cd /w\nsrun bash -c 'torchrun a.py $X'", ["bash", "-c", "cd /w && exec python3 a.py $X"]),
        ("srun bash -c 'python a.py $X'", ["bash", "-c", "python a.py $X"]),
        ("srun bash -c 'python a.py $X' > log", ["bash", "-c", "bash -c 'python a.py $X' > log"]),
        ("sudo -u me docker run team/a:1 python a.py", ["python", "a.py"]),
        ("app --launcher mpirun", ["app", "--launcher", "mpirun"]),
        ("python run.py srun a", ["python", "run.py", "srun", "a"]),
        ("conda run --no-capture-output -n env python a.py", ["python", "a.py"]),
        ("srun conda run -p /env torchrun a.py", ["python3", "a.py"]),
    ],
)
def test_program_is_found_in_the_shell_that_srun_starts(line: str, command: list[str]) -> None:
    assert _of(line).value(("command",)) == command


@pytest.mark.parametrize("line", ["srun --multi-prog ranks.conf", "srun -n 4 --multi-prog ranks.conf"])
def test_file_of_several_programs_is_no_program(line: str) -> None:
    draft = _of(line)

    assert draft.value(("command",)) == [PROGRAM]
    assert (
        "line 3: srun …",
        "srun starts the programs that this file lists; distrain runs one: write it as command",
    ) in (draft.lost)


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/bin/csh", "#!/usr/bin/env -S tcsh", "#!/usr/bin/perl"])
def test_batch_script_of_another_language_is_the_placeholder(first: str) -> None:
    draft = draft_of(f"{first}\n#SBATCH -N 2\nprint('a')\n", is_judged=False)

    assert draft.value(("command",)) == [PROGRAM]
    name = first.removeprefix("#!")
    assert dict(draft.lost)["script"].startswith(f"it is one of {name}, and the import reads sh and bash; put it into")


@pytest.mark.parametrize(
    "first", ["#!/bin/sh", "#! /usr/bin/bash -l", "#!/usr/bin/env bash", "#!/usr/bin/env -S bash -e"]
)
def test_batch_script_of_a_shell_is_read(first: str) -> None:
    draft = draft_of(f"{first}\n#SBATCH -N 2\nsrun python a.py\n", is_judged=False)

    assert draft.value(("command",)) == ["python", "a.py"]


def test_options_of_srun_that_may_hold_free_text_are_listed_without_it() -> None:
    draft = _of("srun --comment='t0p secret' -q high --prolog=/secret --export=ALL,A=1,B=$SECRET,C python a.py")

    assert draft.value(("env",)) == [{"name": "A", "value": "1"}]
    assert [place for place, _ in draft.lost] == [
        *("line 3: --export: ALL", "line 3: --export: B", "line 3: --export: C"),
        *("line 3: --comment", "line 3: -q high", "line 3: --prolog"),
    ]


def test_image_has_the_line_as_its_origin() -> None:
    assert _of("docker run team/a:1 python a.py").settings["image", "tag"].origins == ("line 3: docker",)


def test_starter_inside_a_container_is_taken_off_too() -> None:
    draft = _of("srun singularity exec a.sif torchrun --nnodes=2 a.py")

    assert draft.value(("command",)) == ["python3", "a.py"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("srun singularity run img.sif --lr 1", "it runs the program of a container's image; name that image"),
        ("docker run team/a:1", "it runs the program of a container's image; name that image"),
        ("podman exec a python a.py", "it runs the program of a container's image; name that image"),
        ("srun numactl -l", "no program follows; write the program as command"),
        (
            "nsys profile -o a srun python a.py",
            "nsys starts srun, and distrain starts the ranks itself; write the program",
        ),
    ],
)
def test_program_of_an_image_is_the_placeholder(line: str, why: str) -> None:
    draft = _of(line)

    assert draft.value(("command",)) == [PROGRAM]
    [(place, reason)] = draft.lost
    assert (place, reason[: len(why)]) == (f"line 3: {quoting.line(line)}", why)
