"""Test the phase that `status` shows for runs of every kind, and that a run is always in exactly one phase."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest

from distrain import kube
from distrain.kube.resource import Resource
from distrain.progress.start import JobState, Log
from distrain.status.facts import facts_of
from distrain.status.figures import timed
from distrain.status.phase import Facts, Word, decide
from distrain.workload.live_job import in_order, live_job
from tests.plugin.objects import Object
from tests.plugin.status.runs import FIXED, MPI, MPI_V1, MX, PLAIN, PYTORCH, TF, changed, pod, step, stuck, unplaced

# KINDS maps a kind of job to two lists: its objects, and the roles of its pods.
KINDS = {
    "MPIJob": ([MPI], ["launcher", "worker", "worker"]),
    "MPIJob-v1": ([MPI_V1], ["launcher", "worker", "worker"]),
    "PyTorchJob-elastic": ([PYTORCH], ["worker", "worker"]),
    "PyTorchJob-fixed": ([FIXED], ["master", "worker"]),
    "MXJob": ([MX], ["scheduler", "server", "worker", "worker"]),
    "TFJob": ([TF], ["chief", "server", "worker", "worker"]),
    "Plain": (PLAIN, ["launcher", "worker", "worker"]),
}


def _phase(
    objects: list[Object], pods: list[Object], log: str | None = "", queue: str = "", replaced: int | None = None
) -> str:
    found = [
        (Resource(each["apiVersion"], each["kind"], each["metadata"]["name"]), msgspec.convert(each, kube.Workload))
        for each in objects
    ]
    typed = msgspec.convert(pods, list[kube.Pod])
    logs = [Log(each, log) for each in typed[:1]]
    state = JobState([workload for _, workload in in_order(found)], typed, [], logs)
    times = [timed(each.text or "") for each in logs]
    return str(decide(facts_of(state, live_job(found), queue, replaced, times)))


def _pods(roles: list[str]) -> list[Object]:
    return [pod(role, number) for number, role in enumerate(roles)]


def _text(line: str) -> str:
    """Return a log line without the timestamp that kubelet adds."""
    return line.partition(" ")[2]


STEP = _text(step(100))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[list[Object], list[str]]:
    return KINDS[request.param]


Kind = tuple[list[Object], list[str]]


def test_run_without_pods_is_pending(kind: Kind) -> None:
    assert _phase(kind[0], []) == "Pending"


def test_run_whose_last_pod_has_no_node_is_pending(kind: Kind) -> None:
    *placed, last = kind[1]

    assert _phase(kind[0], [*_pods(placed), unplaced(last, len(placed))]) == "Pending"


def test_run_whose_image_cannot_be_pulled_is_pending(kind: Kind) -> None:
    pods = [stuck(role, number, reason="ImagePullBackOff") for number, role in enumerate(kind[1])]

    assert _phase(kind[0], pods) == "Pending"


def test_run_whose_containers_are_being_created_is_starting(kind: Kind) -> None:
    pods = [stuck(role, number, reason="ContainerCreating") for number, role in enumerate(kind[1])]

    assert _phase(kind[0], pods) == "Starting"


def test_program_of_the_users_runs_when_all_its_pods_run(kind: Kind) -> None:
    assert _phase(kind[0], _pods(kind[1])) == "Running"


def test_trainer_is_starting_until_its_first_step(kind: Kind) -> None:
    trainer = [_with_trainer(each) for each in kind[0]]

    assert _phase(trainer, _pods(kind[1])) == "Starting"
    assert _phase(trainer, _pods(kind[1]), STEP) == "Running"


def test_trainer_whose_log_may_not_be_read_runs_when_all_its_pods_run(kind: Kind) -> None:
    assert _phase([_with_trainer(each) for each in kind[0]], _pods(kind[1]), None) == "Running"


def test_run_that_starts_again_after_a_failure_is_starting(kind: Kind) -> None:
    again = "distrain-launch: starting again (restart 1 of 10 in 3600 s): rank 1 ended\n"

    assert _phase([_with_trainer(each) for each in kind[0]], _pods(kind[1]), STEP + again) == "Starting"
    assert _phase([_with_trainer(each) for each in kind[0]], _pods(kind[1]), STEP + again + STEP) == "Running"


def test_run_that_trains_on_another_size_than_it_asks_for_is_rescaling(kind: Kind) -> None:
    assert _phase(kind[0], _pods(kind[1]), _text(step(100, world_size=4))) == "Rescaling 4-2"
    assert (
        _phase(kind[0], [*_pods(kind[1][:-1]), unplaced("worker", 9)], _text(step(9, world_size=1))) == "Rescaling 1-2"
    )


def test_run_that_replaces_a_job_of_another_size_is_rescaling(kind: Kind) -> None:
    assert _phase(kind[0], [], replaced=4) == "Rescaling 4-2"
    assert _phase(kind[0], [], replaced=2) == "Pending"


def test_run_of_a_users_program_with_surplus_pods_is_rescaling(kind: Kind) -> None:
    assert _phase(kind[0], [*_pods(kind[1]), pod("worker", 8), pod("worker", 9)]) == "Rescaling 4-2"


def test_suspended_run_is_suspended_and_in_a_queue_queued(kind: Kind) -> None:
    suspended = [changed(each, suspend=True) for each in kind[0]]

    assert _phase(suspended, []) == "Suspended"
    assert _phase(suspended, [], queue="gpu") == "Queued"


@pytest.mark.parametrize("pods_stay", [True, False])
def test_ended_run_has_the_phase_of_its_end(kind: Kind, pods_stay: bool) -> None:
    pods = [pod(role, number, phase="Succeeded") for number, role in enumerate(kind[1])] * pods_stay
    first = kind[0][-1]

    for condition, phase in (
        (("Complete" if first["kind"] == "Job" else "Succeeded"), "Succeeded"),
        ("Failed", "Failed"),
    ):
        ended = {**first, "status": {"conditions": [{"type": condition, "status": "True"}]}}
        assert _phase([*kind[0][:-1], ended], pods, STEP) == phase


def test_plain_run_fails_with_its_workers() -> None:
    keygen, workers, launcher = PLAIN
    failed = {**workers, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}

    assert _phase([keygen, failed, launcher], _pods(["launcher"]), STEP) == "Failed"


def test_mpi_job_with_an_evicted_worker_goes_on_while_its_launcher_does() -> None:
    evicted = {**MPI, "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "MPIJobEvicted"}]}}

    assert _phase([evicted], _pods(["launcher", "worker", "worker"]), STEP) == "Running"
    assert _phase([evicted], [pod("launcher", phase="Failed")], STEP) == "Failed"


def test_every_combination_of_facts_has_one_phase_and_none_is_without() -> None:
    sizes = (None, 1, 2)
    flags = (False, True)
    seen = set()
    for made, end, queue, trained, replaced in itertools.product(
        (0, 2, 3), ("", "Failed", "Succeeded"), ("", "q"), sizes, sizes
    ):
        for suspended, waits, runs, tells in itertools.product(flags, repeat=4):
            facts = Facts(2, made, end, queue, suspended, trained, replaced, waits, runs, tells)
            phase = decide(facts)
            seen.add(phase.word)
            assert _holds(phase.word, facts), facts

    assert seen == set(Word)


def _holds(word: Word, facts: Facts) -> bool:
    """Tell whether the facts about a run agree with what this phase tells a reader.

    Unlike `decide`, this function does not depend on the order of its rules.
    """
    lives = not facts.end and not facts.queue and not facts.is_suspended
    promises = {
        Word.QUEUED: bool(facts.queue) and not facts.end,
        Word.PENDING: lives and facts.waits and facts.trained is None,
        Word.STARTING: lives and not facts.waits and facts.trained is None,
        Word.RUNNING: lives and (facts.trained == 2 or (facts.all_run and not facts.tells_steps)),
        Word.RESCALING: lives and {facts.trained, facts.replaced, facts.made} - {None, 2} != set(),
        Word.SUSPENDED: facts.is_suspended and not facts.end,
        Word.SUCCEEDED: facts.end == "Succeeded",
        Word.FAILED: facts.end == "Failed",
    }
    return promises[word]


def _with_trainer(job: Object) -> Object:
    """Return the job with the command line of the trainer in its containers."""
    marked: Object = json.loads(json.dumps(job).replace('"image": ', '"args": ["-m", "distrain_trainer"], "image": '))
    return marked
