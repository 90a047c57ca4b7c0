"""Test the refusal of a source that is not a job: its message has file, place, finding and next step."""

from __future__ import annotations

import pytest

from distrain.errors import ValuesError
from distrain.imports.identify import find_job, text_of
from distrain.yaml import yaml_writer
from tests.plugin.imports.drafts import Job, drafted, mpi_job, pods, pytorch_job

TYPE = "apiVersion: kubeflow.org/v1\nkind: MPIJob\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "is empty; name the YAML file of a job", id="empty"),
        pytest.param(b" \n\n", "is empty", id="blank"),
        pytest.param(b"x" * 1572865, "has 1,572,865 bytes, above the limit of 1,572,864; keep only the job", id="long"),
        pytest.param(b"\x7fELF\0\0", "is no text (byte 4 is 0)", id="binary"),
        pytest.param(b"a: \xff", "byte 3 is no UTF-8", id="latin"),
        pytest.param(b"a:\n\tb: 1", "line 2 is indented with a tab; indent it with spaces", id="tab"),
        pytest.param(b"a: [1, 2", "not valid YAML; check indentation, brackets and quotes", id="cut"),
        pytest.param(b"{{- if .x }}\na: 1", "(it is a template; render it first, as with helm template", id="template"),
        pytest.param(b"- a", "contains no YAML mapping; give a job of the Kubeflow operators", id="list"),
        pytest.param(
            b"#SBATCH -N 2\nsrun a",
            "its #SBATCH lines are read if its first line names a shell",
            id="sbatch-without-shell",
        ),
        pytest.param(b"#!/bin/bash\n#PBS -l x\nmpirun a", "of scripts, only those with #!", id="pbs"),
        pytest.param(b"horovodrun -np 2 a", "of scripts, only those with #!", id="horovodrun"),
        pytest.param(b"kind: MPIJob", "apiVersion: is missing, and the import reads MPIJob", id="no-version"),
        pytest.param(b"---\n---\n", "contains no YAML mapping", id="no-document"),
        pytest.param(
            b"kind: Deployment",
            "kind: found Deployment; give a job of the Kubeflow operators",
            id="unknown-kind",
        ),
        pytest.param(b"a: 1", "kind: found no kind", id="no-kind"),
        pytest.param(
            b"kind: MPIJob\napiVersion: kubeflow.org/v2alpha1", "apiVersion: is kubeflow.org/v2alpha1", id="version"
        ),
        pytest.param(
            (TYPE + "metadata: {name: a}\n---\n" + TYPE + "metadata: {name: b}").encode(),
            "has 2 jobs, MPIJob a, MPIJob b; a run is one job",
            id="two-jobs",
        ),
        pytest.param(
            (
                "a: &a ["
                + "1, " * 99
                + "1]\n"
                + "\n".join(
                    f"{x}: &{x} [{', '.join([f'*{y}'] * 9)}]" for x, y in zip("bcdefgh", "abcdefg", strict=True)
                )
            ).encode(),
            "aliases that repeat too much",
            id="alias-bomb",
        ),
        pytest.param(b"[" * 200 + b"]" * 200, "nested more than 100 levels", id="deep"),
    ],
)
def test_file_without_a_job_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        find_job(text_of(content, "f.yaml"), "f.yaml")

    assert refusal.value.messages[0].startswith("f.yaml: ")
    assert words in refusal.value.messages[0]


TWICE = {
    "MPIJob": TYPE + "spec:\n  slotsPerWorker: 1\n  slotsPerWorker: 8\n",
    "second document": "kind: Secret\n---\n" + TYPE + "spec: {slotsPerWorker: 1,\n slotsPerWorker: 8}\n",
    "TrainJob": "apiVersion: a/v1\nkind: TrainJob\nspec:\n- a: {b: 1}\n- a:\n    b: 2\n    b: 3",
    "JSON": '{"kind": "JobSet",\n "spec": {"a": 1,\n "a": 2}}',
    "FfDL": "name: a\nframework:\n  name: pytorch\n  command: a\n  name: tensorflow",
    "horovod": "worker:\n  number: 1\n  number: 2\nmaster: {args: [a]}",
    "ksonnet": "{components: {a: {image: 'b', secret: |||\n  long\n  text\n|||,\n # More.\n image: 'c'}}}",
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MPIJob", "spec.slotsPerWorker appears twice, in lines 4 and 5; remove one of them"),
        ("second document", "spec.slotsPerWorker appears twice, in lines 5 and 6; remove one of them"),
        ("TrainJob", "spec[1].a.b appears twice, in lines 6 and 7; remove one of them"),
        ("JSON", "spec.a appears twice, in lines 2 and 3; remove one of them"),
        ("FfDL", "framework.name appears twice, in lines 3 and 5; remove one of them"),
        ("horovod", "worker.number appears twice, in lines 2 and 3; remove one of them"),
        ("ksonnet", "components.a.image appears twice, in lines 1 and 6; remove one of them"),
    ],
)
def test_key_that_is_there_twice_is_refused_with_both_lines(name: str, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        find_job(TWICE[name], "f.yaml")

    assert refusal.value.messages == (f"f.yaml: {words}",)


def _changed(job: Job, role: str, **fields: object) -> Job:
    pods(job, role).update(fields)
    return job


def _without(role: str) -> Job:
    job = mpi_job()
    del job["spec"]["mpiReplicaSpecs"][role]
    return job


def _replicas(job: Job, role: str, number: object) -> Job:
    [specs] = [value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")]
    specs[role]["replicas"] = number
    return job


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (
            _without("Launcher"),
            "spec.mpiReplicaSpecs.Launcher: found no launcher, but an MPIJob must have exactly one, which runs "
            "mpirun; add a Launcher with 1 replica",
        ),
        (_without("Worker"), "spec.mpiReplicaSpecs: has Launcher and no Worker, so nothing would train; add it there"),
        (
            _replicas(mpi_job(), "Launcher", 2),
            "found 2 launchers, but an MPIJob must have exactly one, which runs mpirun; set its replicas to 1",
        ),
        (_replicas(mpi_job(), "Worker", 0), "spec.mpiReplicaSpecs.Worker.replicas: is 0, so nothing would train"),
        (
            _replicas(pytorch_job(), "Worker", "two"),
            "spec.pytorchReplicaSpecs.Worker.replicas: is 'two', but the number of replicas must be whole",
        ),
        (
            _changed(mpi_job(), "Worker", containers=[]),
            "spec.mpiReplicaSpecs.Worker.template.spec.containers: has no container",
        ),
        (
            _changed(mpi_job(), "Worker", volumes={"a": 1}),
            "spec.volumes: is a mapping of keys; write a list of mappings there",
        ),
        (
            _changed(mpi_job(), "Worker", volumes=[{"name": "a"}, "b"]),
            "spec.volumes[1]: is text; write a mapping of keys there",
        ),
        (
            _changed(mpi_job(), "Worker", tolerations=[None]),
            "spec.tolerations[0]: is null; write a mapping of keys there",
        ),
        ({**mpi_job(), "spec": None}, "spec.mpiReplicaSpecs is missing, so the MPIJob has no pods; add it there"),
    ],
)
def test_job_that_cannot_run_is_refused(job: Job, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        drafted(job)

    assert refusal.value.messages[0].startswith("job.yaml: ")
    assert words in refusal.value.messages[0]


def test_objects_beside_the_job_are_listed() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}

    found = find_job(yaml_writer.dump(service, mpi_job(), {"kind": "Odd"}), "f.yaml")

    assert [name for name, _ in found.others] == ["Service s", "Odd without a name"]


SCRIPTS = {
    "Slurm": "#!/bin/bash\n#SBATCH -N 2\n{}\nsrun python a.py\n",
    "arena": "arena submit mpijob --name=a --image=a/b:1 'mpirun python a.py'\n{}\n",
    "ksonnet": "{}\nks generate openmpi a --image a/b:1 --workers 2 --exec 'mpiexec python a.py'\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("rest", ["true\n" * 2000, f"echo {'x' * 2**16}"], ids=["lines", "characters"])
def test_long_script_is_refused(name: str, rest: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        find_job(SCRIPTS[name].format(rest), "f.sh")

    [message] = refusal.value.messages
    assert message.startswith("f.sh: has ")
    assert message.endswith("but the limits are 65,536 and 2,000; keep only the lines that start the run")
