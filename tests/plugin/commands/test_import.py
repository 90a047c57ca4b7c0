"""Test that `import` writes values for a job from a file, stdin or the cluster, and changes nothing else."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.yaml import yaml_writer
from tests.plugin.fake_api import FakeApi
from tests.plugin.imports.drafts import Job, mpi_job, pytorch_job
from tests.plugin.imports.jobset_drafts import jobset, replicated, runtime, trainjob
from tests.plugin.program import Run, wrote_nothing

JOBS = "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs"
SECRET = {"name": "HF_TOKEN", "value": "hf_0123456789abcdef"}


@pytest.fixture
def helm(helm4: Path) -> Path:
    """Run these tests with only one version of Helm, because `import` needs Helm only for rendering."""
    return helm4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "job.yaml"
    found.write_text(yaml_writer.dump(mpi_job(worker={"env": [SECRET]}, spec={"unknown": 1})))
    return found


def test_values_go_to_stdout_and_everything_else_to_stderr(run: Run, file: Path) -> None:
    outcome = run("import", str(file))

    assert outcome.code == 0
    assert outcome.values["command"] == ["python", "train.py"]
    assert "left out: spec.unknown: the chart has no value for it\n" in outcome.err
    assert "kubectl create secret generic job-credentials \\\n  --from-literal=HF_TOKEN=...\n" in outcome.err
    assert SECRET["value"] not in outcome.out + outcome.err


def test_file_that_is_written_passes_template(run: Run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.yaml"

    outcome = run("import", str(file), "-o", str(target))

    assert (outcome.code, outcome.out) == (0, "")
    assert f"wrote {target}" in outcome.err
    assert run("template", "run1", "-f", str(target), "--offline").code == 0


def test_name_of_the_file_is_quoted_in_the_commands(run: Run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "my run;x.yaml"

    outcome = run("import", str(file), "-o", str(target))

    assert f"`helm distrain check -f '{target}'` says whether it fits" in outcome.err
    assert f"#   helm distrain check -f '{target}'\n" in target.read_text()
    assert f"#   helm distrain install job -f '{target}' --wait\n" in target.read_text()


def test_file_that_exists_is_kept_unless_forced(run: Run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.yaml"
    target.write_text("mine: 1\n")

    refused = run("import", str(file), "-o", str(target))

    assert refused.code == 2
    assert "already exists; name another file, or add --force to replace it" in refused.err
    assert target.read_text() == "mine: 1\n"
    assert run("import", str(file), "-o", str(target), "--force").code == 0
    assert yaml.safe_load(target.read_text())["command"] == ["python", "train.py"]


def test_refused_source_leaves_no_file(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "job.yaml", tmp_path / "run.yaml"
    source.write_text("kind: MPIJob\n")

    outcome = run("import", str(source), "-o", str(target))

    assert outcome.code == 2
    assert outcome.err.startswith(f"distrain: {source}: apiVersion: is missing, and the import reads MPIJob kubeflow")
    assert [*tmp_path.iterdir()] == [source]


def test_stdin_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml_writer.dump(pytorch_job()).encode())))

    outcome = run("import", "-")

    assert outcome.values["workers"]["replicas"] == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "absent.yaml",
            "absent.yaml: cannot be read: No such file or directory; name a file, - for stdin, or KIND/NAME",
        ),
        ("/", "cannot be read: Is a directory"),
    ],
)
def test_file_that_cannot_be_read_is_named(run: Run, name: str, words: str) -> None:
    outcome = run("import", name)

    assert outcome.code == 2
    assert words in outcome.err


def test_large_file_is_refused_before_it_is_read(run: Run, tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(50 * 2**20)

    outcome = run("import", str(large))

    assert outcome.code == 2
    assert "large.yaml: cannot be read: it is larger than 16 MiB" in outcome.err


def _in_cluster(labels: dict[str, str] | None = None) -> Job:
    job: dict[str, Any] = pytorch_job({"env": [SECRET]})
    job["metadata"] |= {"namespace": "team", "uid": "1", "resourceVersion": "2", "labels": labels or {}}
    return {**job, "status": {"conditions": [{"type": "Running", "status": "True"}]}}


@pytest.fixture
def with_job(cluster: FakeApi) -> FakeApi:
    cluster.serve_group("kubeflow.org", {"v1": ("PyTorchJob",)})
    cluster.answers[f"{JOBS}/mnist"] = _in_cluster()
    return cluster


@pytest.mark.parametrize(
    "name", ["PyTorchJob/mnist", "pytorchjob/mnist", "pytorchjobs/mnist", "pytorchjobs.kubeflow.org/mnist"]
)
def test_job_in_the_cluster_is_read_and_left_as_it_is(run: Run, with_job: FakeApi, name: str) -> None:
    outcome = run("import", name)

    assert outcome.code == 0, outcome.err
    assert outcome.values["workers"]["replicas"] == 3
    assert "from PyTorchJob/mnist in namespace team (kubeflow.org/v1)" in outcome.out
    assert "left out" not in outcome.err.replace("the values contain no credentials", "")
    assert wrote_nothing(with_job)


def test_job_that_is_not_there_is_answered_with_how_to_list_jobs(run: Run, with_job: FakeApi) -> None:
    outcome = run("import", "pytorchjob/absent")

    assert outcome.code == 2
    assert (
        "PyTorchJob/absent: there is no such PyTorchJob in namespace team; `kubectl --namespace team get pytorchjobs`"
        in (outcome.err)
    )


TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"


@pytest.fixture
def with_trainjob(cluster: FakeApi) -> FakeApi:
    cluster.answers[f"{TRAINER}/namespaces/team/trainjobs/mnist"] = trainjob({"numNodes": 3})
    cluster.answers[f"{TRAINER}/clustertrainingruntimes/torch"] = runtime()
    return cluster


@pytest.mark.parametrize("name", ["TrainJob/mnist", "trainjobs.trainer.kubeflow.org/mnist"])
def test_trainjob_in_the_cluster_is_read_with_its_runtime(run: Run, with_trainjob: FakeApi, name: str) -> None:
    outcome = run("import", name)

    assert outcome.code == 0, outcome.err
    assert outcome.values["workers"]["replicas"] == 3
    assert outcome.values["image"] == {"repository": "a/b", "tag": "1"}
    assert "from TrainJob/mnist in namespace team (trainer.kubeflow.org/v1alpha1)" in outcome.out
    assert wrote_nothing(with_trainjob)


def test_runtime_of_the_namespace_is_read_there(run: Run, with_trainjob: FakeApi) -> None:
    job = trainjob(runtimeRef={"kind": "TrainingRuntime", "name": "torch"})
    with_trainjob.answers[f"{TRAINER}/namespaces/team/trainjobs/mnist"] = job
    with_trainjob.answers[f"{TRAINER}/namespaces/team/trainingruntimes/torch"] = runtime()

    assert run("import", "trainjob/mnist").values["image"] == {"repository": "a/b", "tag": "1"}


@pytest.mark.parametrize("status", [404, 403], ids=["absent", "forbidden"])
def test_runtime_that_cannot_be_read_is_named(run: Run, with_trainjob: FakeApi, status: int) -> None:
    with_trainjob.answers[f"{TRAINER}/clustertrainingruntimes/torch"] = status

    outcome = run("import", "trainjob/mnist")

    assert outcome.code == 0, outcome.err
    assert "spec.runtimeRef: the ClusterTrainingRuntime torch is not in the source" in outcome.err


def test_jobset_in_the_cluster_is_read(run: Run, cluster: FakeApi) -> None:
    job = jobset(replicated("a", {"command": ["torchrun", "a.py"]}))
    cluster.answers["/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/set"] = job

    assert run("import", "jobset/set").values["command"] == ["python3", "a.py"]


def test_mpijob_of_the_oldest_version_in_the_cluster_is_read(run: Run, cluster: FakeApi) -> None:
    container = {"name": "mpi", "image": "a/b:1", "command": ["mpirun", "python", "a.py"]}
    job = {"metadata": {"name": "old"}, "spec": {"gpus": 2, "template": {"spec": {"containers": [container]}}}}
    cluster.serve_group("kubeflow.org", {"v1alpha1": ("MPIJob",)})
    cluster.answers["/apis/kubeflow.org/v1alpha1/namespaces/team/mpijobs/old"] = job

    outcome = run("import", "mpijob/old")

    assert outcome.code == 0, outcome.err
    assert outcome.values["command"] == ["python", "a.py"]


def test_trainjob_that_is_not_there_is_answered_with_how_to_list_them(run: Run, cluster: FakeApi) -> None:
    outcome = run("import", "trainjob/absent")

    assert outcome.code == 2
    words = "there is no such TrainJob in namespace team; `kubectl --namespace team get trainjobs.trainer.kubeflow.org`"
    assert words in outcome.err


def test_job_of_a_release_is_answered_with_how_to_get_its_values(run: Run, with_job: FakeApi) -> None:
    # Argo CD may have changed the label app.kubernetes.io/instance.
    names = {"app.kubernetes.io/instance": "application", "distrain/instance": "run1"}
    with_job.answers[f"{JOBS}/mnist"] = _in_cluster({"app.kubernetes.io/name": "distrain", **names})

    outcome = run("import", "pytorchjob/mnist")

    assert outcome.code == 2
    assert "is the job of the release run1; `helm --namespace team get values run1` prints its values" in outcome.err


def test_placeholder_for_the_program_is_refused_by_check(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "job.yaml", tmp_path / "run.yaml"
    source.write_text(yaml_writer.dump(pytorch_job({"command": None, "args": ["--lr", "1"]})))
    assert run("import", str(source), "-o", str(target)).code == 0

    outcome = run("check", "-f", str(target), "--offline", "--assume-nodes", "4x8")

    assert outcome.code == 2
    assert "command[0]: PROGRAM-TO-FILL-IN is a placeholder written by `helm distrain import`" in outcome.err
