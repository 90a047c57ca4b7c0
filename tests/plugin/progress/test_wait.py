"""Test how long the program follows the start of a job, and what happens if the job does not start."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import yaml

from distrain import kube
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError, GoneError, LateError, StartError, UnreachableError
from distrain.kube.resource import Resource
from distrain.progress import wait
from distrain.progress.failures import Failure
from distrain.progress.first_step import Program
from distrain.progress.wait import FIRST_STEP, PODS, Followed, Patience, until_started
from distrain.workload.manifest import from_manifest
from tests.plugin.objects import JOB, mpi_job, plain

LABEL = "app.kubernetes.io/component"
PULL_FAILS = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}

Pods = list[dict[str, Any]]


class FakeClock:
    """A clock that advances only when the program sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeCluster:
    """A fake cluster.

    Each request returns the next list of pods. When all lists have been returned, each further request returns the last
    list.

    An exception in place of a list is raised. `logs` maps the name of a pod to a list of texts. Each request for the
    pod's log returns the next text. `read` contains the names of the pods whose logs were read.
    """

    target = Target("config", "lab", "team", given=("", "lab"))

    def __init__(self, *looks: Pods | Exception, **logs: list[str]) -> None:
        self._looks: Iterator[Pods | Exception] = itertools.chain(looks, itertools.repeat(looks[-1]))
        self._logs, self.read = logs, list[str]()

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        role = pod.removeprefix("run1-")
        self.read.append(role)
        texts = self._logs.get(role) or [""]
        return texts.pop(0) if len(texts) > 1 else texts[0]

    def workload(self, *_: object) -> kube.Workload | None:
        return kube.Workload()

    def release_pods(self, *_: str) -> list[kube.Pod]:
        look = next(self._looks)
        if isinstance(look, Exception):
            raise look
        return msgspec.convert(look, list[kube.Pod])

    def warnings(self, _: str) -> list[kube.Event]:
        raise ForbiddenError("events")


class EndedCluster(FakeCluster):
    """A cluster whose job has this condition."""

    def __init__(self, condition: str, *looks: Pods | Exception, **logs: list[str]) -> None:
        super().__init__(*looks, **logs)
        self._condition = condition

    def workload(self, *_: object) -> kube.Workload | None:
        found = {"status": {"conditions": [{"type": self._condition, "status": "True"}]}}
        return msgspec.convert(found, kube.Workload)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(wait, "time", clock)
    return clock


def _pod(role: str, state: dict[str, Any], phase: str = "Pending") -> dict[str, Any]:
    metadata = {"name": f"run1-{role}", "labels": {LABEL: role}}
    return {"metadata": metadata, "status": {"phase": phase, "containerStatuses": [{"name": role, "state": state}]}}


def _pods(**states: dict[str, Any]) -> Pods:
    return [_pod(role, state, "Running" if "running" in state else "Pending") for role, state in states.items()]


UP = _pods(launcher={"running": {}}, worker={"running": {}})
CREATING = _pods(launcher={"running": {}}, worker={"waiting": {"reason": "ContainerCreating"}})
NO_IMAGE = _pods(launcher={"running": {}}, worker=PULL_FAILS)


def _follow(
    cluster: Any,
    say: Callable[[str], None] = lambda line: None,
    timeout: float = 600,
    waits_for: str = PODS,
    ranks: int | None = None,
) -> None:
    job = from_manifest(yaml.safe_dump(mpi_job(workers=1)), "--chart")
    until_started(cluster, Followed(job, "run1", "team", "s3", timeout, waits_for, Program(ranks=ranks)), say)


def test_progress_is_told_when_it_changes() -> None:
    told: list[str] = []

    _follow(FakeCluster([], [], CREATING, CREATING, UP), told.append)

    assert told == [
        "0 of 1 worker running, launcher waiting; no pod yet",
        "0 of 1 worker running, launcher running; run1-worker: ContainerCreating",
        "run1: all pods run: 1 worker and 1 launcher",
    ]


def test_pull_that_works_in_the_end_is_waited_for() -> None:
    told: list[str] = []

    _follow(FakeCluster(NO_IMAGE, NO_IMAGE, UP), told.append)

    assert told


def test_pull_that_goes_on_failing_ends_the_wait(clock: FakeClock) -> None:
    with pytest.raises(StartError, match=r"^image.repository: cannot pull"):
        _follow(FakeCluster(CREATING, NO_IMAGE))

    assert 1020 <= clock.now <= 1030


def test_trouble_that_went_away_starts_anew() -> None:
    patience, trouble = Patience(), Failure("pod", "words")

    assert patience.exhausted([trouble], now=0) is None
    assert patience.exhausted([], now=15) is None
    assert patience.exhausted([trouble], now=25) is None
    assert patience.exhausted([trouble], now=44) is None
    assert patience.exhausted([trouble], now=45) == trouble


def test_final_trouble_is_not_waited_for() -> None:
    trouble = Failure("pod", "words", final=True)

    assert Patience().exhausted([trouble], now=0) == trouble


def test_timeout_names_the_cause(clock: FakeClock) -> None:
    unplaced = _pod("worker", {})
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
    unplaced["status"] = {"phase": "Pending", "conditions": [condition]}

    with pytest.raises(LateError) as refused:
        _follow(FakeCluster([unplaced]), timeout=60)

    assert str(refused.value) == (
        "--timeout: the run has not started in 60 s: run1-worker: 0/1 nodes are available; free resources "
        "for its pods, or give a longer --timeout"
    )
    assert 1060 <= clock.now <= 1065


def test_short_silence_of_the_cluster_is_passed_over() -> None:
    told: list[str] = []

    _follow(FakeCluster(UnreachableError("silent"), UnreachableError("silent"), UP), told.append)

    assert told == ["run1: all pods run: 1 worker and 1 launcher"]


def test_long_silence_is_not() -> None:
    with pytest.raises(UnreachableError, match="silent"):
        _follow(FakeCluster(UnreachableError("silent")))


def test_pods_that_may_not_be_listed_end_the_wait_at_once(clock: FakeClock) -> None:
    with pytest.raises(ForbiddenError):
        _follow(FakeCluster(ForbiddenError("pods")))

    assert clock.now == 1000


def test_job_that_somebody_removed_is_named() -> None:
    cluster = FakeCluster(UP)
    cluster.workload = lambda *_: None  # type: ignore[method-assign]

    with pytest.raises(GoneError, match=r"^MPIJob run1-1234abcd is gone: someone removed it$"):
        _follow(cluster)


def test_every_resource_of_the_job_is_checked() -> None:
    asked: list[tuple[object, ...]] = []

    def workload(*arguments: object) -> kube.Workload:
        asked.append(arguments)
        return kube.Workload()

    cluster = FakeCluster(UP)
    cluster.workload = workload  # type: ignore[method-assign]
    job = from_manifest(yaml.safe_dump_all(plain(workers=1)), "--chart")

    until_started(cluster, Followed(job, "run1", "team", "s3", 600, PODS), lambda line: None)  # type: ignore[arg-type]

    names = [f"{JOB}-{role}" for role in ("launcher", "keygen", "worker")]
    assert asked == [(Resource("batch/v1", "Job", name), "team") for name in names]


STEP = 'distrain-progress: {"step": 11, "steps": 90}\n'
FAILED = "distrain-launch: starting again (restart 1 of 10 in 3600 s): no memory; raise workers.memory\n"


def test_first_step_ends_the_wait_within_two_seconds(clock: FakeClock) -> None:
    told: list[str] = []
    cluster = FakeCluster(CREATING, UP, launcher=["", "", "loading\n", STEP])

    _follow(cluster, told.append, waits_for=FIRST_STEP)

    assert told[-2:] == [
        "1 of 1 worker running, launcher running; no step yet",
        "run1: trains, at step 11 of 90: 1 worker and 1 launcher",
    ]
    assert clock.now <= 1003
    assert set(cluster.read) == {"launcher"}


def test_wait_after_a_rescale_awaits_a_step_at_the_new_size() -> None:
    told: list[str] = []
    at = [f'distrain-progress: {{"step": {step}, "world_size": {ranks}}}\n' for step, ranks in ((11, 1), (12, 2))]

    _follow(FakeCluster(UP, launcher=at), told.append, waits_for=FIRST_STEP, ranks=2)

    assert told == [
        "1 of 1 worker running, launcher running; no step yet at the new size",
        "run1: trains, at step 12: 1 worker and 1 launcher",
    ]


FINISHED = "finished: s3://c/team/run1 shows that this run has finished; nothing is left to do\n"


@pytest.mark.parametrize(("log", "told"), [(FINISHED, 1), (STEP, 0), (FINISHED + STEP, 0)])
def test_wait_for_a_run_that_had_finished_before_says_that_nothing_was_trained(log: str, told: int) -> None:
    lines: list[str] = []
    ended = _pod("launcher", {"terminated": {"exitCode": 0}}, "Succeeded")
    cluster = EndedCluster("Succeeded", [ended], launcher=[log])

    _follow(cluster, lines.append, waits_for=FIRST_STEP)

    words = (
        "run1: its checkpoints show that the run had finished before, so this start trained nothing; to train further, "
        "raise trainer.epochs or trainer.steps, or to train from the start, set checkpoint.resume to never"
    )
    assert lines == ["run1: has succeeded already: 1 worker and 1 launcher", *[words] * told]


def test_wait_for_the_pods_reads_no_log() -> None:
    cluster = FakeCluster(UP)

    _follow(cluster)

    assert cluster.read == []


def test_failure_before_the_first_step_ends_the_wait_at_once(clock: FakeClock) -> None:
    cluster = FakeCluster(UP, launcher=["loading\n", "loading\n" + FAILED])

    with pytest.raises(StartError) as failed:
        _follow(cluster, waits_for=FIRST_STEP)

    assert str(failed.value) == "no memory; raise workers.memory; run1-launcher tries again (restart 1 of 10)"
    assert clock.now == 1001
    assert cluster.read == ["launcher", "launcher", "worker"]


def test_timeout_before_the_first_step_names_the_end_of_the_log() -> None:
    with pytest.raises(StartError) as failed:
        _follow(FakeCluster(UP, launcher=["reading 9 shards\n"]), timeout=60, waits_for=FIRST_STEP)

    assert str(failed.value) == "--timeout: the run made no step in 60 s: reading 9 shards; give a longer --timeout"


def test_timeout_before_the_first_step_shortens_the_end_of_the_log() -> None:
    command = f"mpirun {'--mca a b ' * 50}-np 2"

    with pytest.raises(StartError) as failed:
        _follow(FakeCluster(UP, launcher=[f"{command}\n"]), timeout=60, waits_for=FIRST_STEP)

    assert str(failed.value) == f"--timeout: the run made no step in 60 s: {command[:120]}...; give a longer --timeout"


def test_storage_that_does_not_answer_gets_time_to_recover(clock: FakeClock) -> None:
    trying = "s3.endpoint: no answer; correct it; trying again for 9 s\n"

    _follow(FakeCluster(UP, launcher=[trying, trying, STEP]), waits_for=FIRST_STEP)
    with pytest.raises(StartError, match=r"^s3.endpoint: no answer; correct it; the run still tries$"):
        _follow(FakeCluster(UP, launcher=[trying]), waits_for=FIRST_STEP)

    assert 1022 <= clock.now <= 1024


@pytest.mark.parametrize("role", ["launcher", "server"])
def test_program_that_fails_at_once_is_explained_by_the_log_of_its_pod(role: str) -> None:
    message = "distrain: python3 ended with exit code 1; this pod's log says why"
    failed = _pod(role, {"terminated": {"exitCode": 1, "message": message}}, "Failed")

    with pytest.raises(StartError, match=rf"^run1-{role}: ValueError: no model; read `kubectl .* logs run1-{role}`$"):
        _follow(EndedCluster("Failed", [failed], **{role: ["ValueError: no model\n"]}), waits_for=FIRST_STEP)
