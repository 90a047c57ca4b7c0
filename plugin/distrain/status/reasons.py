"""Find the first cause of a run's phase, and what to do next. `progress` finds the causes for `install --wait`, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.apiserver.target import Target
from distrain.progress import first_step
from distrain.progress.failures import Failure, failures
from distrain.progress.start import SPEAKERS, JobState, Log, last_warning, role_of, runs, unplaced, waits_for
from distrain.status.phase import Phase, Word
from distrain.workload.chart_values import s3_secret
from distrain.workload.manifest import Job
from distrain.workload.wording import counted

STORAGE = "/storage"
# The scheduler's remark, after its reasons, on pods of lower priority.
PREEMPTION = " preemption: "
NOT_KNOWN = "no reason is known yet"


class Reason(Struct, frozen=True):
    """Why a run is in its phase, and the next step. Either may be empty."""

    why: str = ""
    next: str = ""


class Place(Struct, frozen=True):
    """What the commands of a next step name."""

    release: str
    helm_flags: str
    kubectl_flags: str

    def log(self, pod: kube.Pod, text: str | None) -> Log:
        return Log(pod, text, self.kubectl_flags)


def place_of(target: Target, release: str, namespace: str) -> Place:
    there = replace(target, namespace=namespace)
    return Place(release, there.helm_flags, there.kubectl_flags)


def reason_of(phase: Phase, found: JobState, job: Job, place: Place, held: str = "") -> Reason:
    """Return the reason of a phase. `held` is why a queue or a gang scheduler holds the run back, if known."""
    match phase.word:
        case Word.SUCCEEDED:
            return Reason(next=f"`helm uninstall {place.release} {place.helm_flags}` removes the run")
        case Word.FAILED:
            failed = _split(next(_all(found, job), Failure("job", "the job failed")))
            return failed if failed.next else Reason(failed.why, _read_log(found, place))
        case Word.SUSPENDED:
            again = f"`helm distrain upgrade {place.release} --reuse-values --set job.suspend=false {place.helm_flags}`"
            return Reason("job.suspend is true: the run has no pods", f"{again} lets it go on")
        case Word.QUEUED:
            return Reason(held or NOT_KNOWN, "wait: the queue starts the run when there is room")
        case _:
            return _with_next(_of_live(phase, found, job, place, held), found, place)


def _of_live(phase: Phase, found: JobState, job: Job, place: Place, held: str) -> Reason:
    """Return the reason of a run that is not held back and has not ended."""
    trains, all_run = phase.word in (Word.RUNNING, Word.RESCALING), all(map(runs, found.pods))
    if trains and all_run and found.pods:
        # The ends of earlier containers explain nothing here: the run has made steps since.
        stalled = [each for each in _all(found, job) if each.about.endswith(STORAGE)]
        if stalled or phase.word == Word.RUNNING:
            return _split(stalled[0]) if stalled else Reason()
        return Reason(f"it trains on {counted(phase.before or 0, 'worker')} until the ranks meet again")
    cause = _cause(found, job, place, held)
    return cause if cause.why else Reason(first_step.awaited(found, job).removeprefix("; ") or "its pods start")


def _with_next(reason: Reason, found: JobState, place: Place) -> Reason:
    """Add a next step to a reason without one: look at the log, or at the pod that does not run."""
    if reason.next or not found.pods:
        return reason
    waiting = next((pod.metadata.name for pod in found.pods if not runs(pod)), "")
    look = f"`kubectl {place.kubectl_flags} describe pod {waiting}` shows what it waits for" if waiting else ""
    return Reason(reason.why, look or _follow_log(found, place))


def _cause(found: JobState, job: Job, place: Place, held: str) -> Reason:
    """Return the first cause that keeps a pod from running, in the order in which causes follow from each other."""
    causes = list(_all(found, job))
    waiting = {pod.metadata.name for pod in found.pods if pod.status.phase == "Pending"}
    blocking = [each for each in causes if each.final or each.about.partition("/")[0] in waiting]
    if blocking:
        return _split(blocking[0])
    if held:
        return Reason(held, "wait, or free room for all pods of the run")
    if unscheduled := _unscheduled(found.pods):
        make = f"`helm distrain rescale {place.release} --workers N {place.helm_flags}`"
        return Reason(unscheduled, f"free room, or make the run smaller with {make}")
    if not found.pods:
        return _without_pods(found, place)
    if causes:
        return _split(causes[0])
    return Reason(next((words for pod in found.pods if not runs(pod) for words in waits_for(pod, found.events)), ""))


def _without_pods(found: JobState, place: Place) -> Reason:
    words = last_warning(found).removeprefix(": ")
    doctor = f"`helm distrain doctor {place.helm_flags}`"
    if words:
        return Reason(words, f"remove the cause; {doctor} says what the namespace allows")
    return Reason("no pod was made yet", f"wait; if none comes, {doctor} says whether the operator runs")


def _all(found: JobState, job: Job) -> Iterator[Failure]:
    return failures(found, job, s3_secret(job))


def _split(failure: Failure) -> Reason:
    """Split a message into finding and next step, which stand in this order with "; " between them."""
    why, _, step = failure.words.partition("; ")
    return Reason(why, step)


def _unscheduled(pods: Sequence[kube.Pod]) -> str:
    words = [each.partition(PREEMPTION)[0] for pod in pods for each in unplaced(pod)]
    more = f" (and {counted(len(words) - 1, 'more pod')})" if len(words) > 1 else ""
    return f"{words[0]}{more}" if words else ""


def _follow_log(found: JobState, place: Place) -> str:
    pod = next((pod.metadata.name for pod in _speakers(found) if pod.status.phase == "Running"), "")
    return f"`kubectl {place.kubectl_flags} logs -f {pod}` follows its log" if pod else ""


def _read_log(found: JobState, place: Place) -> str:
    pod = next((pod.metadata.name for pod in _speakers(found)), "")
    return (
        f"`kubectl {place.kubectl_flags} logs {pod}` says why" if pod else "its pods are gone, and no message is left"
    )


def _speakers(found: JobState) -> list[kube.Pod]:
    return [log.pod for log in found.logs] or [pod for pod in found.pods if role_of(pod) in SPEAKERS] or [*found.pods]
