"""Find the first cause for the phase of a run, and what to do next.

The package `progress` finds the causes that `install --wait` reports, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.apiserver.target import Target
from distrain.progress import ends, first_step
from distrain.progress.causes import Cause
from distrain.progress.failures import Failure, failures
from distrain.progress.start import (
    SPEAKERS,
    JobState,
    Log,
    has_finished,
    lacks_pods,
    last_warning,
    role_of,
    runs,
    unreplaced,
    waits_for,
)
from distrain.progress.steps import after_last_step, trained_nothing
from distrain.progress.waiting import SEE_LOG
from distrain.status.causes import kubelet, queued, refused, stalled, unfinished, unscheduled
from distrain.status.phase import Phase, Word
from distrain.workload.chart_objects import s3_secret
from distrain.workload.kinds import VERSIONS
from distrain.workload.manifest import WORKER, Job
from distrain.workload.wording import counted

STORAGE = "/storage"
# The trainer or the launcher logs such a line when the ranks have stopped for a rescale, or are started again after it.
STOPPED = re.compile(
    r"^(?:.*<std\w+>: ?)?stopped at step \d|^distrain-launch: (?:\d+ -> \d+ workers after|.* workers answer: )",
    re.MULTILINE,
)
# The end of a message that says what tries again.
AGAIN = re.compile(r"; (?:\S+|another pod) tries again(?: \([^)]*\))?$")
NOT_KNOWN = "no reason is known yet"


class Reason(Struct, frozen=True):
    """Why a run is in its phase (`why`), and what the user should do (`next`). Either may be empty."""

    why: str = ""
    next: str = ""


ENDED_WELL = Reason("its program has ended well, and the job does not say so yet", "wait some seconds")


class Place(Struct, frozen=True):
    """The release's name and the flags for the commands that messages suggest to the user."""

    release: str
    helm_flags: str
    kubectl_flags: str

    def log(self, pod: kube.Pod, text: str | None, begin: int = 0) -> Log:
        return Log(pod, text, self.kubectl_flags, begin)

    @property
    def smaller(self) -> str:
        """Return the command that makes the run smaller."""
        return f"`helm distrain rescale {self.release} --workers N {self.helm_flags}`"

    @property
    def longer(self) -> str:
        """Return the command that makes the run longer."""
        return f"`helm distrain upgrade {self.release} --reuse-values --set trainer.epochs=N {self.helm_flags}`"

    @property
    def last_lines(self) -> str:
        """Return the command that prints the last log lines of each rank."""
        return f"`helm distrain logs {self.release} --all --tail 20 {self.helm_flags}`"

    @property
    def doctor(self) -> str:
        return f"`helm distrain doctor {self.helm_flags}`"


class Evidence(Struct, frozen=True):
    """What is known about a run, from which the reason for its phase is found.

    `held` says why a queue or a gang scheduler holds the run back, if this is known. `claims` are the claims that are
    not bound to a volume. `stall` says why the run has made no step for a long time, or how its program has failed
    since the last step. `healed` are ends of containers before the last step, from which the run has recovered; see
    `failures.ends_of`. `now` is in seconds since 1970.
    """

    found: JobState
    job: Job
    held: str = ""
    claims: Sequence[unscheduled.Claim] = ()
    stall: Cause | None = None
    healed: AbstractSet[str] = frozenset()
    now: float = 0


def place_of(target: Target, release: str, namespace: str) -> Place:
    there = replace(target, namespace=namespace)
    return Place(release, there.helm_flags, there.kubectl_flags)


def reason_of(phase: Phase, evidence: Evidence, place: Place) -> Reason:
    """Return the reason for a run's phase."""
    found = evidence.found
    match phase.word:
        case Word.SUCCEEDED:
            if trained_nothing(log.text or "" for log in found.logs):
                return Reason(first_step.TRAINED_NOTHING, f"{first_step.TRAIN_MORE}: {place.longer}")
            return Reason(next=f"`helm uninstall {place.release} {place.helm_flags}` removes the run")
        case Word.FAILED:
            failed = _split(next(_all(evidence), Failure("job", "the job failed")), place)
            return failed if failed.next else Reason(failed.why, _read_log(found, place))
        case Word.SUSPENDED:
            again = f"`helm distrain upgrade {place.release} --reuse-values --set job.suspend=false {place.helm_flags}`"
            state = f"the run is being suspended, and {left}" if (left := _still_run(found)) else "the run has no pods"
            return Reason(f"job.suspend is true: {state}", f"{again} lets it go on")
        case Word.QUEUED:
            left = f" ({left} until the operator ends them)" if (left := _still_run(found)) else ""
            then = queued.next_step(evidence.held, place.smaller, place.kubectl_flags)
            return Reason(f"{evidence.held or NOT_KNOWN}{left}", then)
        case _:
            return _with_next(_of_live(phase, evidence, place), found, place)


def _still_run(found: JobState) -> str:
    """Say how many pods of a suspended job are still running, because the operator ends them one by one.

    Empty if none is.
    """
    running = sum(pod.status.phase == "Running" for pod in (*found.pods, *found.leaving))
    return f"{running} of its pods still {'run' if running > 1 else 'runs'}" if running else ""


def _of_live(phase: Phase, evidence: Evidence, place: Place) -> Reason:
    """Return the reason for the phase of a run that is not held back and has not ended."""
    found, job = evidence.found, evidence.job
    if lost := ends.lost_nodes(found.pods):
        return Reason(lost.why, lost.next)
    if leaves := unfinished.of_job(found.states[0], job.resources[0].kind, evidence.now, place.kubectl_flags):
        return Reason(leaves.why, leaves.next)
    trains, lacks = phase.word in (Word.RUNNING, Word.RESCALING), lacks_pods(found.pods, job)
    if trains and not lacks and all(map(runs, unreplaced(found.pods, job))):
        # The run makes steps, so do not look at containers that ended earlier: the run has recovered from these
        # failures.
        silent = [each for each in _all(evidence) if each.about.endswith(STORAGE)]
        if silent:
            return _split(silent[0], place)
        if _has_ended_well(found):
            return ENDED_WELL
        return _of_stall(evidence.stall) if phase.word == Word.RUNNING else _of_rescale(phase, found)
    cause = _cause(evidence, place)
    if cause.why or phase.word == Word.RESCALING:
        return cause if cause.why else _of_rescale(phase, found)
    if kept := unfinished.kept_by(found.pods, place.kubectl_flags):
        return Reason(kept.why, kept.next)
    if _has_ended_well(found):
        return ENDED_WELL
    waits = first_step.awaited(found, job).removeprefix("; ")
    if evidence.stall and waits in ("", first_step.NO_STEP):
        return _of_stall(evidence.stall)
    return Reason(waits or "its pods start", stalled.next_step(waits))


def _of_stall(stall: Cause | None) -> Reason:
    return Reason(stall.why, stall.next) if stall else Reason()


def _of_rescale(phase: Phase, found: JobState) -> Reason:
    if any(STOPPED.search(after_last_step(log.text or "")) for log in found.logs[:1]):
        return Reason(f"the ranks have stopped, and start again on {counted(phase.after or 0, 'worker')}")
    return Reason(f"it trains on {counted(phase.before or 0, 'worker')} until the ranks meet again")


def _with_next(reason: Reason, found: JobState, place: Place) -> Reason:
    """If a reason does not say what the user should do, add it: to look at the log, or at the pod that does not run."""
    if reason.next or not found.pods:
        return reason
    waiting = next((pod.metadata.name for pod in found.pods if not runs(pod)), "")
    look = f"`kubectl {place.kubectl_flags} describe pod {waiting}` shows what it waits for" if waiting else ""
    return Reason(reason.why, look or _follow_log(found, place))


def _cause(evidence: Evidence, place: Place) -> Reason:
    """Return the first cause that prevents a pod from running. A cause comes before the causes that follow from it."""
    found, job = evidence.found, evidence.job
    lacks = lacks_pods(found.pods, job)
    if lost := ends.lost_nodes(found.leaving):
        return Reason(lost.why, lost.next)
    causes = list(_all(evidence))
    waiting = {pod.metadata.name for pod in found.pods if pod.status.phase == "Pending"}
    blocking = [each for each in causes if each.final or each.about.partition("/")[0] in waiting]
    if blocking:
        return _split(blocking[0], place)
    if lacks and (cause := refused.cause_of(found.events, place.smaller, found.pods, job)):
        return Reason(cause.why, cause.next)
    if evidence.held:
        return Reason(evidence.held, "wait, or free room for all pods of the run")
    for cause in _of_pods(evidence, place):
        return Reason(cause.why, cause.next)
    if lacks and (late := unfinished.of_pods(found.leaving, evidence.now, place.kubectl_flags)):
        return Reason(late.why, late.next)
    if not found.pods:
        return _without_pods(evidence, place)
    if causes:
        return _split(causes[0], place)
    if prepares := unfinished.prepared_by(found.pods, place.kubectl_flags):
        return Reason(prepares.why, prepares.next)
    return Reason(next((words for pod in found.pods if not runs(pod) for words in waits_for(pod, found.events)), ""))


def _of_pods(evidence: Evidence, place: Place) -> Iterator[Cause]:
    """Yield the causes that keep pods from running.

    The scheduler, kubelet and the controllers that end pods report these causes.
    """
    found = evidence.found
    where = unscheduled.Place(place.kubectl_flags, place.smaller)
    ended = (ends.cause_of(pod) for pod in unreplaced(found.pods, evidence.job))
    leaving = map(ends.cause_of, found.leaving) if lacks_pods(evidence.found.pods, evidence.job) else ()
    told = [unscheduled.cause_of(found.pods, evidence.claims, where), kubelet.cause_of(found.pods, found.events)]
    yield from filter(None, [*told, *ended, *leaving])


def _without_pods(evidence: Evidence, place: Place) -> Reason:
    found, resource = evidence.found, evidence.job.resources[0]
    if words := last_warning(found).removeprefix(": "):
        return Reason(words, f"remove the cause; {place.doctor} says what the namespace allows")
    if (resource.api_version, resource.kind) in VERSIONS and not found.states[0].status.conditions:
        [operator, *_] = VERSIONS[resource.api_version, resource.kind].operators
        return Reason(
            f"{operator} has not answered: the {resource.kind} has no status, and no pod was made yet",
            f"wait; if this lasts, {operator} does not run: {place.doctor} shows its pods",
        )
    return Reason("no pod was made yet", f"wait; if none comes, {place.doctor} says whether the operator runs")


def _all(evidence: Evidence) -> Iterator[Failure]:
    return failures(evidence.found, evidence.job, s3_secret(evidence.job), evidence.healed)


def _split(failure: Failure, place: Place) -> Reason:
    reason = split(failure.words)
    if reason.next != SEE_LOG:
        return reason
    pod, _, container = failure.about.partition("/")
    return Reason(reason.why, f"read `kubectl {place.kubectl_flags} logs {pod} -c {container} --previous`")


def split(words: str) -> Reason:
    """Split a message of the form "finding; next step" into its two parts.

    The finding includes what tries again, if the message ends with that.
    """
    again = AGAIN.search(words)
    why, _, step = (words[: again.start()] if again else words).partition("; ")
    return Reason(f"{why}{again.group()}" if again else why, step)


def _follow_log(found: JobState, place: Place) -> str:
    pod = next((pod.metadata.name for pod in _speakers(found) if pod.status.phase == "Running"), "")
    return f"`kubectl {place.kubectl_flags} logs -f {pod}` follows its log" if pod else ""


def _read_log(found: JobState, place: Place) -> str:
    pod = next((pod.metadata.name for pod in _speakers(found)), "")
    return (
        f"`kubectl {place.kubectl_flags} logs {pod}` says why" if pod else "its pods are gone, and no message is left"
    )


def _has_ended_well(found: JobState) -> bool:
    """Tell whether the run's program has ended well: in the launcher, Chief or Master, otherwise in any worker."""
    speakers = [pod for pod in found.pods if role_of(pod) in SPEAKERS]
    return any(map(has_finished, speakers or [pod for pod in found.pods if role_of(pod) == WORKER]))


def _speakers(found: JobState) -> list[kube.Pod]:
    return [log.pod for log in found.logs] or [pod for pod in found.pods if role_of(pod) in SPEAKERS] or [*found.pods]
