"""Test the notes that a user reads after `helm install`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.chart.documents import RUN1
from tests.chart.kinds import KINDS, every_kind
from tests.chart.notes import notes
from tests.chart.rendering import REPOSITORY, render, set_arguments

LOGS = {
    "mpijob-v2beta1": "job/JOB-launcher",
    "mpijob-v1": "pod/JOB-launcher",
    "mpijob-v1alpha2": "job/JOB-launcher",
    "pytorchjob-elastic": "pod/JOB-worker-0",
    "pytorchjob-master": "pod/JOB-master-0",
    "mxjob-v1": "pod/JOB-worker-0",
    "mxjob-v1beta1": "pod/JOB-worker-0",
    "tfjob": "pod/JOB-chief-0",
    "plain": "job/JOB-launcher",
}
# MANY_NOTES are values that cause more notes than fit into the output of an install. OF_MANY_NOTES are the beginnings
# of the notes that must be printed.
MANY_NOTES = (
    "job.suspend=true", "replace.enabled=false", "data.uri=s3://digits", "s3.insecureTLS=true",
    "gang.scheduler=volcano", "podSecurity=privileged", "network.rdma.resource=rdma/hca", "runAsUser=1000",
)  # fmt: skip
OF_MANY_NOTES = (
    "SUSPENDED: job.suspend", "Before an upgrade", "WARNING: output.uri and checkpoint.uri", "WARNING: s3.secretName",
    "WARNING: network.rdma.resource", "WARNING: s3.insecureTLS", "gang.scheduler volcano works",
)  # fmt: skip
# The pods of these kinds have the label training.kubeflow.org/job-name. Only training-operator and newer mpi-operators
# set this label.
LABELLED = ("mpijob-v2beta1", "mpijob-v1", "pytorchjob-elastic", "pytorchjob-master", "mxjob-v1", "tfjob")


@every_kind
def test_notes_begin_with_the_next_three_commands(helm: Path, chart_with_visible_notes: Path, kind: str) -> None:
    rendered = render(helm, *set_arguments(*KINDS[kind]), "--namespace", "team")
    resource = "job" if rendered.is_plain else rendered.job["kind"].lower()

    text = notes(helm, chart_with_visible_notes, *KINDS[kind])

    release = "app.kubernetes.io/instance=run1"
    job = f"training.kubeflow.org/job-name={rendered.name}" if kind in LABELLED else release
    commands = [line.strip() for line in text.splitlines()[:5] if "kubectl " in line]
    assert commands == [
        f"until kubectl --namespace team logs --follow {LOGS[kind].replace('JOB', rendered.name)}; do sleep 2; done",
        f"kubectl --namespace team get pods --selector {job} --watch",
        f"kubectl --namespace team describe {resource},pods --selector {release}",
    ]


@every_kind
def test_notes_have_12_lines_at_an_install_and_4_at_an_upgrade(
    helm3: Path, chart_with_visible_notes: Path, kind: str
) -> None:
    values = KINDS[kind]

    installed = notes(helm3, chart_with_visible_notes, *values).splitlines()
    upgraded = notes(helm3, chart_with_visible_notes, *values, is_upgrade=True).splitlines()

    assert 6 <= len(installed) <= 12
    assert len(upgraded) <= 4
    # The notes of an install and of an upgrade begin with the same lines, which say what to do next.
    assert installed[:2] == upgraded[:2]
    assert "logs --follow" in installed[1]


def test_notes_keep_all_warnings_where_there_are_more_notes_than_lines(
    helm3: Path, chart_with_visible_notes: Path
) -> None:
    text = notes(helm3, chart_with_visible_notes, *MANY_NOTES)

    assert len(text.splitlines()) == 12
    assert [words for words in OF_MANY_NOTES if f"\n{words}" not in text] == []
    assert "helm --namespace team test" not in text


def test_notes_do_not_name_a_test_that_is_disabled(helm: Path, chart_with_visible_notes: Path) -> None:
    assert "test run1" in notes(helm, chart_with_visible_notes)
    assert "test run1" not in notes(helm, chart_with_visible_notes, "test.enabled=false")


@every_kind
def test_notes_name_the_test_where_there_is_one(helm3: Path, chart_with_visible_notes: Path, kind: str) -> None:
    text = notes(helm3, chart_with_visible_notes, *KINDS[kind])

    has_test = kind not in ("mxjob-v1", "mxjob-v1beta1", "tfjob")
    assert ("helm --namespace team test run1 --timeout 10m" in text) == has_test
    assert (f"kubectl --namespace team logs pod/run1-test-{RUN1}\n" in f"{text}\n") == has_test


@every_kind
def test_notes_of_an_upgrade_are_among_those_of_an_install(
    helm3: Path, chart_with_visible_notes: Path, kind: str
) -> None:
    installed = notes(helm3, chart_with_visible_notes, *KINDS[kind]).splitlines()
    upgraded = notes(helm3, chart_with_visible_notes, *KINDS[kind], is_upgrade=True).splitlines()

    assert [line for line in upgraded if line not in installed] == []


def test_notes_of_a_usual_run_say_nothing_of_failures(helm3: Path, chart_with_visible_notes: Path) -> None:
    values = ("checkpoint.uri=s3://c", "output.uri=s3://o", "s3.secretName=keys")

    for is_upgrade in (False, True):
        text = notes(helm3, chart_with_visible_notes, *values, is_upgrade=is_upgrade)
        assert re.findall("WARNING|Failed|lost|from the beginning", text) == []


def test_notes_name_the_command_that_shows_a_refusal(helm3: Path, chart_with_visible_notes: Path) -> None:
    text = notes(helm3, chart_with_visible_notes, "preflight.enabled=true")

    assert f"kubectl --namespace team logs pod/run1-preflight-{RUN1}\n" in text


def test_notes_name_no_log_that_helm_prints_itself(helm3: Path, chart_with_visible_notes: Path) -> None:
    assert "logs pod/run1-test" not in notes(helm3, chart_with_visible_notes, "hooks.printLog=true")


@pytest.mark.parametrize(
    ("values", "objects"),
    [
        pytest.param(("replace.enabled=false",), "mpijob run1", id="left-out"),
        pytest.param(("rbac.create=false",), "mpijob run1", id="no-account"),
        pytest.param(
            ("rbac.create=false", "job.kind=Plain", "ssh.secretName=key"),
            "jobs run1-plain-launcher run1-plain-worker",
            id="plain",
        ),
    ],
)
def test_notes_say_what_to_end_where_no_hook_does(
    helm3: Path, chart_with_visible_notes: Path, values: tuple[str, ...], objects: str
) -> None:
    text, usual = (notes(helm3, chart_with_visible_notes, *given) for given in (values, ()))

    assert f"kubectl --namespace team delete --cascade=foreground {objects}\n" in f"{text}\n"
    assert "kubectl --namespace team delete" not in usual
    assert "ends this job first" in usual


def test_notes_say_that_there_is_no_job(helm: Path, chart_with_visible_notes: Path) -> None:
    values = ("job.enabled=false", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}")

    assert notes(helm, chart_with_visible_notes, *values).strip() == "No job: job.enabled is false."


@pytest.mark.parametrize(
    ("replicas", "gpus", "size"),
    [(3, 4, "12 ranks on 3 workers"), (1, 4, "4 ranks on 1 worker"), (1, 1, "1 rank on 1 worker")],
)
def test_notes_say_the_size(helm: Path, chart_with_visible_notes: Path, replicas: int, gpus: int, size: str) -> None:
    text = notes(helm, chart_with_visible_notes, f"workers.replicas={replicas}", f"workers.gpus={gpus}")

    assert f": {size}. Follow its log" in text.splitlines()[0]


S3 = ["data.uri=s3://digits"]


@pytest.mark.parametrize(
    ("assignments", "words", "without"),
    [
        pytest.param([], "It trains on random numbers, to measure speed, as data.uri", S3, id="random-numbers"),
        pytest.param(
            [], "WARNING: output.uri and checkpoint.uri are empty", ["checkpoint.uri=s3://c"], id="nothing-is-kept"
        ),
        pytest.param(
            ["checkpoint.uri=s3://c"],
            "WARNING: output.uri is empty",
            ["checkpoint.uri=s3://c", "output.uri=s3://r"],
            id="model-is-not-kept",
        ),
        pytest.param(S3, "WARNING: s3.secretName is empty", [*S3, "s3.secretName=keys"], id="no-s3-keys"),
        pytest.param(["s3.insecureTLS=true"], "WARNING: s3.insecureTLS is true", [], id="any-certificate"),
        pytest.param(
            ["output.uri=s3://r/"], "log and results go to s3://r/team/run1\n", [], id="where-the-output-goes"
        ),
        pytest.param(
            ["output.uri=s3://r/", "trainer.tensorboard=true"],
            "Event files for TensorBoard go to s3://r/team/run1/tensorboard\n",
            ["output.uri=s3://r/"],
            id="where-the-event-files-go",
        ),
        pytest.param(
            ["command={train}"],
            "trainer.*, data.*, output.* and checkpoint.* are not",
            [],
            id="own-command",
        ),
        pytest.param(["workers.gpus=0"], "2 ranks on 2 workers, on the CPU.", [], id="no-gpus"),
        pytest.param(
            ["framework=pytorch", "job.elastic=false", "checkpoint.uri=s3://c"],
            "A change of workers.replicas replaces this job by another, which goes on from the last checkpoint.",
            ["framework=pytorch"],
            id="replaced",
        ),
        pytest.param(
            ["command={train}"],
            "replaces this job by another, which goes on from what your command has saved.",
            ["command={train}", "rescale.mode=live"],
            id="own-command-replaced",
        ),
        pytest.param(
            [],
            "A change of workers.replicas stops the ranks at a step boundary, and starts them at the new size",
            ["rescale.mode=replace"],
            id="live",
        ),
        pytest.param(
            ["gang.scheduler=kueue", "gang.queue=team"],
            "A change of workers.replicas ends this job: Kueue queues the job of the new size anew. Once it is",
            [],
            id="queued-anew",
        ),
        pytest.param(
            ["output.uri=s3://r"],
            "WARNING: checkpoint.uri is empty",
            ["output.uri=s3://r", "checkpoint.uri=s3://c"],
            id="checkpoints-in-pods",
        ),
        pytest.param(
            ["workers.podSpec.terminationGracePeriodSeconds=226"],
            "Its pods have 241 s to end, and Helm waits 5 minutes in all: add --timeout 361s to such an upgrade",
            ["workers.podSpec.terminationGracePeriodSeconds=225"],
            id="grace-beyond-helms-patience",
        ),
        pytest.param(["checkpoint.uri=s3://c"], "WARNING: s3.secretName is empty", [], id="no-s3-keys-for-checkpoints"),
        pytest.param(
            ["job.apiVersion=v1"], "fails an MPIJob v1 whose launcher's pod was deleted", [], id="launcher-of-v1"
        ),
        pytest.param(
            ["framework=pytorch", "workers.maxReplicas=4"],
            "A change of workers.replicas (1 to 4) stops the ranks at a step boundary, and starts them at the new size",
            ["framework=pytorch"],
            id="elastic",
        ),
        pytest.param(
            ["job.apiVersion=v1"], "`restricted` refuses it", ["job.apiVersion=v2beta1"], id="init-container-of-v1"
        ),
        pytest.param(
            ["framework=pytorch", "job.elastic=false"],
            "`restricted` refuses it",
            ["framework=pytorch", "job.elastic=false", "workers.replicas=1"],
            id="init-container-of-workers",
        ),
        pytest.param(
            ["gang.scheduler=volcano"],
            "works when the operator runs with its flag --gang-scheduling=volcano",
            ["gang.scheduler=volcano", "job.kind=Plain"],
            id="gang-of-mpi-operator",
        ),
        pytest.param(
            ["gang.scheduler=scheduler-plugins", "framework=pytorch"],
            "flag --gang-scheduler-name=scheduler-plugins-scheduler; without it",
            ["gang.scheduler=kueue", "gang.queue=team", "framework=pytorch"],
            id="gang-of-the-training-operator",
        ),
    ],
)
def test_notes_warn_of_surprises(
    helm: Path, chart_with_visible_notes: Path, assignments: list[str], words: str, without: list[str]
) -> None:
    told = notes(helm, chart_with_visible_notes, *assignments) + "\n"
    not_told = notes(helm, chart_with_visible_notes, *without)

    assert words in told
    assert words not in not_told


AGAIN = "starts from the beginning."


@pytest.mark.parametrize(
    ("values", "resumes"),
    [
        pytest.param((), AGAIN, id="checkpoints-in-the-pods"),
        pytest.param(("checkpoint.uri=s3://c", "checkpoint.resume=never"), AGAIN, id="never"),
        pytest.param(("checkpoint.uri=s3://c",), "goes on from the last checkpoint.", id="auto"),
        pytest.param(("command={train}",), "goes on from what your command has saved.", id="command"),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        (),
        ("replace.enabled=false",),
        ("rescale.mode=replace",),
        ("job.apiVersion=v1",),
        ("gang.scheduler=kueue", "gang.queue=team"),
    ],
)
def test_notes_say_what_a_job_that_replaces_this_one_goes_on_from(
    helm3: Path, chart_with_visible_notes: Path, form: tuple[str, ...], values: tuple[str, ...], resumes: str
) -> None:
    said = " ".join(notes(helm3, chart_with_visible_notes, *form, *values).split())

    ends = (AGAIN, "goes on from the last checkpoint.", "goes on from what your command has saved.")
    assert [end for end in ends if end[:-1] in said] == [resumes]
    assert "its last checkpoint" not in said


@every_kind
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_command_that_follows_the_log_waits_for_it_and_ends_with_it(
    helm3: Path, chart_with_visible_notes: Path, tmp_path: Path, kind: str, shell: str
) -> None:
    text = notes(helm3, chart_with_visible_notes, *KINDS[kind])
    command = next(line for line in text.splitlines() if "logs --follow" in line)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho x >>tries; test $(wc -l <tries) = 2 && echo training\n")
    kubectl.chmod(0o755)
    (tmp_path / "sleep").symlink_to("/bin/true")

    done = subprocess.run(
        [shell, "-c", command], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "training\n", "")


def test_no_kubectl_command_lists_kinds_that_a_cluster_may_lack() -> None:
    # `kubectl delete` with a list of kinds deletes nothing if the cluster does not serve one of the kinds.
    texts = [path for path in REPOSITORY.glob("[cdp]*/**/*") if path.suffix in (".md", ".txt", ".yaml")]

    lists = [
        path.name
        for path in texts
        if re.search("kubectl[^`]*(mpi|pytorch|mx|tf)jobs?,", path.read_text(encoding="utf-8"))
    ]

    assert texts
    assert lists == []


@pytest.mark.parametrize(
    ("values", "resumed"),
    [
        pytest.param((), "starts from the beginning", id="checkpoints-in-the-pods"),
        pytest.param(("checkpoint.uri=s3://runs",), "goes on from the last checkpoint", id="checkpoints-kept"),
        pytest.param(("command={train}",), "goes on from what your command has saved", id="command"),
    ],
)
def test_notes_say_how_a_suspended_job_goes_on(
    helm3: Path, chart_with_visible_notes: Path, values: tuple[str, ...], resumed: str
) -> None:
    text = notes(helm3, chart_with_visible_notes, "job.suspend=true", "preflight.enabled=true", *values)

    (line,) = [each for each in text.splitlines() if each.startswith("SUSPENDED: job.suspend is true")]
    assert line.endswith(f"a job that has trained before {resumed}.")
    # While the job is suspended, the preflight check is not run.
    assert "preflight" not in text


def test_notes_of_a_job_that_runs_say_nothing_about_suspension(helm3: Path, chart_with_visible_notes: Path) -> None:
    assert "suspend" not in notes(helm3, chart_with_visible_notes).lower()


@pytest.mark.parametrize(
    ("values", "user"),
    [
        pytest.param(("runAsUser=1000",), "1000", id="user"),
        pytest.param(("runAsUser=cluster",), "cluster", id="user-of-the-cluster"),
        pytest.param((), "", id="root"),
    ],
)
def test_notes_say_for_whom_locked_memory_has_no_effect(
    helm3: Path, chart_with_visible_notes: Path, values: tuple[str, ...], user: str
) -> None:
    rdma = ("podSecurity=privileged", "network.rdma.resource=rdma/hca", "framework=pytorch", *values)

    text = notes(helm3, chart_with_visible_notes, *rdma)

    assert (f"IPC_LOCK works for root alone, and the pods run as user {user}. RDMA" in text) is bool(user)
    assert ("IPC_LOCK" in text) is bool(user)
