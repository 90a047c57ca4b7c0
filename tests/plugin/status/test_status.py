"""Test the command `status` as a user runs it, against a fake API."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from distrain import cli
from distrain.status.read import EXPLAINED_RUNS
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, kubeflow, pytorch_job, template
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    BORN,
    FIXED,
    LABELS,
    MPI,
    MX,
    NAMESPACE,
    PLAIN,
    PYTORCH,
    TF,
    UP,
    WAITING,
    changed,
    live,
    pod,
    rows_of,
    serve,
    step,
    stuck,
    unplaced,
)


@pytest.mark.parametrize(
    ("job", "pods", "words"),
    [
        pytest.param([MPI], UP, "the run is being suspended, and 3 of its pods still run", id="mpi"),
        pytest.param(
            [PYTORCH], [pod("worker", 0)], "the run is being suspended, and 1 of its pods still runs", id="one"
        ),
        pytest.param(PLAIN, UP, "the run is being suspended, and 3 of its pods still run", id="plain"),
        pytest.param(
            [PYTORCH],
            [{**each, "metadata": {**each["metadata"], "deletionTimestamp": BORN}} for each in UP[1:]],
            "the run is being suspended, and 2 of its pods still run",
            id="leaving",
        ),
        pytest.param([MPI], [pod("launcher", phase="Succeeded")], "the run has no pods", id="ended"),
    ],
)
def test_suspended_run_whose_pods_still_run_is_being_suspended(
    api: FakeApi, status: Run, job: list[Object], pods: list[Object], words: str
) -> None:
    serve(api, *(changed(each, suspend=True) for each in job), pods=pods)

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows["why"]) == ("Suspended", f"job.suspend is true: {words}")


AMOUNTS = (("requested", 1), ("used", 8), ("limited", 8))


def test_running_run_shows_its_figures(api: FakeApi, status: Run) -> None:
    figures = {"images_per_second": 813.24, "images_per_second_mean": 790.11, "loss": 0.4321, "eta_seconds": 4000}
    saved = {"checkpoint": "s3://b/c/team/run1/1", "samples": 100, "checkpoint_samples": 50}
    serve(api, MPI, pods=UP, run1_launcher=step(100, at=time.time(), **figures, **saved))

    shown = status("run1")

    assert (shown.code, shown.err) == (0, "")
    rows = rows_of(shown)
    assert rows["run1"] == "Running"
    assert rows["workers"] == "2 of 2 workers ready; launcher runs"
    assert rows["step"] == "100 of 1000 10 %"
    assert rows["speed"] == "813.2 images/sec now, 790.1 images/sec on the whole"
    assert rows["loss"] == "0.4321"
    assert rows["eta"] in ("66 min", "67 min")
    assert rows["checkpoint"] == "step 50 (s3://b/c/team/run1/1)"
    assert rows["next"] == "`kubectl --namespace team logs -f run1-launcher` follows its log"


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
@pytest.mark.parametrize(
    ("job", "roles"),
    [
        pytest.param([MPI], ["launcher", "worker", "worker"], id="mpi"),
        pytest.param(PLAIN, ["launcher", "worker", "worker"], id="plain"),
        pytest.param([PYTORCH], ["worker", "worker"], id="pytorch"),
        pytest.param([FIXED], ["master", "worker"], id="pytorch-fixed"),
        pytest.param([TF], ["chief", "server", "worker", "worker"], id="tensorflow"),
        pytest.param([MX], ["worker", "worker", "scheduler", "server"], id="mxnet"),
    ],
)
def test_run_whose_program_has_ended_well_waits_for_the_job_to_say_so(
    api: FakeApi, status: Run, phase: str, job: list[Object], roles: list[str]
) -> None:
    """Between its program's end and the job's condition, a run must not seem to train again."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": BORN, "finishedAt": BORN}
    first, *others = [pod(role, number) for number, role in enumerate(roles)]
    statuses = [{"name": roles[0], "state": {"terminated": ended}}]
    speaker = pod(roles[0], phase=phase, containerStatuses=statuses)
    assert speaker["metadata"]["name"] == first["metadata"]["name"]
    serve(api, *job, pods=[speaker, *others], **{speaker["metadata"]["name"].replace("-", "_"): step(1000)})

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows["why"]) == ("Running", "its program has ended well, and the job does not say so yet")
    assert rows["next"] == "wait some seconds"
    assert not rows["workers"].endswith(f"{roles[0]} runs")
    assert rows["step"].startswith("1000 of 1000")


def test_run_that_had_finished_before_says_that_nothing_was_trained(api: FakeApi, status: Run) -> None:
    finished = f"{BORN} finished: s3://c/team/run1 shows that this run has finished; nothing is left to do\n"
    serve(
        api, live({**MPI, "status": {}}, "Succeeded"), pods=[pod("launcher", phase="Succeeded")], run1_launcher=finished
    )

    rows = rows_of(status("run1"))

    assert rows["run1"] == "Succeeded"
    assert rows["why"] == "its checkpoints show that the run had finished before, so this start trained nothing"
    assert rows["next"] == (
        "to train further, raise trainer.epochs or trainer.steps, or to train from the start, set checkpoint.resume to "
        "never: `helm distrain upgrade run1 --reuse-values --set trainer.epochs=N --namespace team`"
    )


def test_run_trains_on_beside_the_pod_of_a_refused_upgrade(api: FakeApi, status: Run) -> None:
    preflight = pod("preflight", phase="Failed")
    preflight["metadata"]["annotations"] = {"helm.sh/hook": "pre-install,pre-upgrade"}
    serve(api, MPI, pods=[*UP, preflight], run1_launcher=step(100, at=time.time()))

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows.get("why")) == ("Running", None)
    assert rows["next"] == "`kubectl --namespace team logs -f run1-launcher` follows its log"


def test_answer_for_programs_has_the_documented_names(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=step(100, at=time.time()))

    answer = json.loads(status("run1", "-o", "json").out)

    documented = (Path(cli.__file__).parent / "command_line" / "help" / "status.md").read_text()
    assert answer["phase"] == "Running"
    assert answer["workers"] == {"ready": 2, "wanted": 2}
    assert [name for name in answer if f"`{name}`" not in documented] == []


def test_run_is_read_with_one_list_per_kind_and_its_own_labels(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=step(100, at=time.time()))

    status("run1")

    lists = [request for request in api.requests if "labelSelector" in request]
    assert len(lists) == len({request.partition("?")[0] for request in lists}) == 6
    asked = [request.partition("?") for request in lists]
    selectors = {path: parse_qs(query)["labelSelector"][0] for path, _, query in asked}
    # Argo CD may change the label app.kubernetes.io/instance of a job, but not of the job's pods.
    assert selectors.pop(f"GET {NAMESPACE}/pods") == "app.kubernetes.io/name=distrain,app.kubernetes.io/instance=run1"
    assert set(selectors.values()) == {"app.kubernetes.io/name=distrain"}
    assert [request for request in api.requests if "/log" in request] == [
        f"GET {NAMESPACE}/pods/run1-launcher/log?container=launcher&tailLines=500&timestamps=true"
    ]


def test_run_of_1000_workers_asks_no_more_than_a_small_one(api: FakeApi, status: Run) -> None:
    waiting = [stuck("worker", number, reason="ContainerCreating") for number in range(500)]
    running = [pod("worker", number) for number in range(500, 1000)]
    serve(api, live(pytorch_job(workers=1000, gpus=1)), pods=[*waiting, *running])

    assert rows_of(status("run1"))["workers"] == "500 of 1000 workers ready"

    of_pods = [request.partition("?")[0].rpartition("/")[2] for request in api.requests if f"{NAMESPACE}/" in request]
    # The program must read two pages of pods, four logs of workers, and the events of the job and of the first three
    # pods.
    assert sorted(of_pods).count("pods") == 2
    assert of_pods.count("log") == 4
    assert of_pods.count("events") == 4


def test_key_that_a_plain_job_has_left_is_no_run(api: FakeApi, status: Run) -> None:
    serve(api, PLAIN[0])

    assert status("run1").code == 2


@pytest.mark.parametrize(
    ("objects", "pods", "phase", "why", "then"),
    [
        pytest.param([PYTORCH], WAITING, "Pending", "run1-worker-1: 0/3 nodes", "free nvidia", id="unplaced"),
        pytest.param(
            [PYTORCH],
            [stuck("worker", 0, reason="ErrImagePull", message="x: not found"), unplaced("worker", 1)],
            "Pending",
            "image.repository: cannot pull r:1: not found",
            "correct image.repository",
            id="image-before-room",
        ),
        pytest.param(
            [live({**PYTORCH, "status": {}}, "Failed")],
            [
                pod(
                    "worker",
                    phase="Failed",
                    containerStatuses=[
                        {
                            "name": "worker",
                            "state": {
                                "terminated": {
                                    "exitCode": 2,
                                    "message": "distrain: data.uri: /d is empty; name another",
                                }
                            },
                        }
                    ],
                )
            ],
            "Failed",
            "data.uri: /d is empty",
            "name another",
            id="failed",
        ),
        pytest.param(
            [changed(PYTORCH, suspend=True)],
            [],
            "Suspended",
            "job.suspend is true",
            "helm distrain upgrade",
            id="suspended",
        ),
        pytest.param([PYTORCH], [], "Pending", "no pod was made yet", "helm distrain doctor", id="no-pod"),
        pytest.param(
            [live({**PYTORCH, "status": {}}, "Succeeded")], [], "Succeeded", "", "helm uninstall run1", id="done"
        ),
    ],
)
def test_phase_has_its_reason_and_the_next_step(
    api: FakeApi, status: Run, objects: list[Object], pods: list[Object], phase: str, why: str, then: str
) -> None:
    serve(api, *objects, pods=pods)

    shown = status("run1")

    rows = rows_of(shown)
    assert rows["run1"] == phase
    assert why in rows.get("why", "")
    assert then in rows["next"]
    assert shown.code == (4 if phase == "Failed" else 0)


def test_pods_that_a_quota_refuses_are_explained_by_the_jobs_event(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH)
    amounts = ", ".join(f"{word}: requests.nvidia.com/gpu={n}" for word, n in AMOUNTS)
    message = f'Error creating: pods "run1-worker-0" is forbidden: exceeded quota: gpus, {amounts}'
    event = {
        "type": "Warning",
        "reason": "FailedCreatePod",
        "message": message,
        "involvedObject": {"uid": "uid-run1-1234abcd"},
    }
    api.answers[f"{NAMESPACE}/events"] = [event]

    rows = rows_of(status("run1"))

    assert rows["why"] == (
        "quota gpus of the namespace leaves no room: requested requests.nvidia.com/gpu=1, "
        "used requests.nvidia.com/gpu=8, limited requests.nvidia.com/gpu=8"
    )
    assert "`helm distrain rescale run1 --workers N --namespace team`" in rows["next"]


def test_run_in_a_queue_of_kueue_is_queued_with_kueues_words(api: FakeApi, status: Run) -> None:
    serve(api, changed(live(PYTORCH, labels={**LABELS, "kueue.x-k8s.io/queue-name": "gpus"}), suspend=True))
    told = [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota for nvidia.com/gpu"}]
    workload = {"metadata": {"name": "w"}, "status": {"conditions": told}}
    api.answers["/apis/kueue.x-k8s.io/v1beta1/namespaces/team/workloads"] = [workload]

    rows = rows_of(status("run1"))

    assert rows["run1"] == "Queued, in queue gpus"
    assert rows["why"] == "insufficient quota for nvidia.com/gpu"


@pytest.mark.parametrize(("phase", "shown"), [("Pending", "Queued, in queue gpus"), ("Inqueue", "Pending")])
def test_run_that_volcano_holds_back_is_queued_until_volcano_lets_its_pods_go(
    api: FakeApi, status: Run, phase: str, shown: str
) -> None:
    job = json.loads(
        json.dumps(PYTORCH).replace('"spec": {"containers"', '"spec": {"schedulerName": "volcano", "containers"')
    )
    serve(api, job, pods=[unplaced("worker", 0), unplaced("worker", 1)])
    told = [{"type": "Unschedulable", "status": "True", "message": "2/2 tasks in gang unschedulable"}]
    group = {"spec": {"queue": "gpus"}, "status": {"phase": phase, "conditions": told}}
    api.answers["/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/run1-1234abcd"] = group

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows["why"]) == (shown, "Volcano: 2/2 tasks in gang unschedulable")


def test_run_that_is_not_there_is_named_with_the_way_to_find_others(status: Run) -> None:
    shown = status("run1")

    assert shown.code == 2
    assert shown.err == (
        "distrain: run1: there is no run of this name in namespace team; "
        "`helm distrain status --namespace team` lists the existing runs\n"
    )


def test_release_of_another_chart_is_told_apart_from_none(api: FakeApi, status: Run) -> None:
    api.answers[f"{NAMESPACE}/secrets"] = [{"metadata": {"name": "s", "labels": {"owner": "helm", "name": "run1"}}}]

    assert "run1: is a Helm release, but has no job of distrain's chart" in status("run1").err

    api.answers[f"{NAMESPACE}/configmaps"] = [{"metadata": {"name": "run1-scripts", "labels": LABELS}}]

    assert "run1: the release has no job any more" in status("run1").err
    asked = [accept for request, accept in zip(api.requests, api.accepted, strict=True) if "/secrets" in request]
    assert all("PartialObjectMetadataList" in accept for accept in asked)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(f"{NAMESPACE}/pods", "pods of namespace team cannot be read", id="pods"),
        pytest.param(f"{NAMESPACE}/events", "events of namespace team cannot be read", id="events"),
        pytest.param(f"{NAMESPACE}/pods/run1-worker-0/log", "the log of run1-worker-0 cannot be read", id="logs"),
    ],
)
def test_what_may_not_be_read_is_said_in_a_line(api: FakeApi, status: Run, path: str, words: str) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1)])
    api.answers[path] = 403

    shown = status("run1")

    assert shown.code == 0
    unread = [line for line in shown.out.splitlines() if line.startswith("not read")]
    assert len(unread) == 1
    assert words in unread[0]


def _trainer() -> Object:
    """Return a job with the trainer as its program. Such a job counts as Running only after a step line."""
    container = {"name": "pytorch", "args": ["-m", "distrain_trainer"]}
    replicas = {"replicas": 2, "template": template("worker", {}, {"containers": [container]})}
    return live(kubeflow("PyTorchJob", "v1", pytorchReplicaSpecs={"Worker": replicas}))


def test_run_whose_log_may_not_be_read_runs_and_nobody_knows_its_steps(api: FakeApi, status: Run) -> None:
    serve(api, _trainer(), pods=[pod("worker", 0), pod("worker", 1)])
    for number in range(2):
        api.answers[f"{NAMESPACE}/pods/run1-worker-{number}/log"] = 403

    rows = rows_of(status("run1"))

    words = "all its pods run; its log cannot be read, so nobody can tell whether it makes steps"
    assert (rows["run1"], rows["why"]) == ("Running", words)


def test_many_runs_whose_logs_are_not_read_run(api: FakeApi, status: Run) -> None:
    names = [f"run{number}" for number in range(EXPLAINED_RUNS + 1)]
    jobs = [live(_trainer(), release=name) for name in names]
    jobs = [{**job, "metadata": {**job["metadata"], "name": name}} for name, job in zip(names, jobs, strict=True)]
    serve(api, *jobs, pods=[pod("worker", number, release=name) for name in names for number in range(2)])

    shown = status()

    words = "all its pods run; its log is not read in a list of so many runs, so nobody can tell whether it makes steps"
    assert all(line.split()[2] == "Running" and line.endswith(words) for line in shown.out.splitlines()[1:])


def test_jobs_that_may_not_be_read_leave_no_answer(api: FakeApi, status: Run) -> None:
    serve(api)
    api.answers["/apis/kubeflow.org/v1/namespaces/team/pytorchjobs"] = 403

    shown = status("run1")

    assert shown.code == 3
    assert "pytorchjobs of namespace team cannot be read" in shown.err


def test_run_whose_pods_may_not_be_read_has_the_phase_that_its_operator_knows(api: FakeApi, status: Run) -> None:
    for conditions, phase in ((("Running",), "Running"), ((), "Pending")):
        serve(api, live({**PYTORCH, "status": {}}, *conditions))
        api.answers[f"{NAMESPACE}/pods"] = 403

        rows = rows_of(status("run1"))

        assert (rows["run1"], rows["workers"]) == (phase, "2 workers wanted")
        assert rows["why"] == "its pods may not be read, so only the job's own conditions are known"
