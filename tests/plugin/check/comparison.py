"""Compare `helm distrain check` with the code of kube-scheduler and quota admission on random clusters.

`python -m tests.plugin.check.comparison` compares a range of seeds on all processors and prints the disagreements.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from distrain.scheduler.messages import NOT_APART, NOT_NEAR, REPELLED, TOO_MANY_PODS, UNEVEN
from distrain.workload.manifest import from_manifest
from lab.builds import golang
from tests.plugin.check.judging import check_snapshot
from tests.plugin.check.random_clusters import FEATURES, Case, random_case

# For each gang, the search through the real scheduler's states stops after this number. If a gang has more states, the
# scheduler's answer is incomplete.
BUDGET = 4000
CHUNK = 500
BETWEEN_PODS = {UNEVEN, NOT_NEAR, NOT_APART, REPELLED}
# When a case is reduced, parts under these keys are never removed.
KEPT = ("kind", "apiVersion", "metadata", "name", "namespace", "labelSelector", "allocatable")
WHOLE = (
    *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "VolumeAttachment"),
    *("CSIDriver", "CSIStorageCapacity"),
    *("Namespace", "PriorityClass"),
)


class RealScheduler:
    """A running lab/builds/go/schedule.

    The process ends when its stdin is closed, at the latest when this process ends.
    """

    def __init__(self) -> None:
        command = [golang.binary("schedule")]
        environment = {**os.environ, "GOMAXPROCS": "1", "GOGC": "800"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, case: Case, *, explain: bool = False) -> dict[str, Any]:
        """Return the program's answer, as described in lab/builds/go/schedule/main.go."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(case.request(BUDGET, explain=explain) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer


@dataclass(frozen=True)
class Outcome:
    """The plugin's and the scheduler's answers for a case. `error` says why no answer is possible.

    `reasons` contains the plugin's reasons, but only for a gang of one role. If a gang has several roles, the plugin
    and the scheduler may blame different roles, so their reasons cannot be compared.
    """

    checked: str
    undecided: bool
    real: dict[str, Any]
    error: str = ""
    reasons: frozenset[str] = frozenset()

    @property
    def disagreement(self) -> str:
        """Return how the two answers contradict each other, or "" if they agree."""
        if self.error:
            return self.error
        return next((words for words, holds in self._contradictions() if holds), "")

    def _contradictions(self) -> Iterator[tuple[str, bool]]:
        verdict, complete, emptied = (self.real.get(key) for key in ("verdict", "complete", "emptied"))
        possible = verdict in ("fits", "depends")
        over_quota, over_empty_quota = self._is_over_quota("quota"), self._is_over_quota("empty")
        admitted = not (over_empty_quota if self.checked == "impossible" else over_quota)
        says_now = self.checked == "fits" or (self.checked == "depends" and not self.undecided)
        yield f"check says {self.checked}, quotas refuse pods", says_now and over_quota
        yield "check says busy, empty quotas refuse pods", self.checked == "busy" and over_empty_quota
        yield "check says fits, the scheduler leaves pods over", self.checked == "fits" and verdict != "fits"
        yield (
            f"check says {self.checked}, the scheduler places all pods",
            self.checked in ("busy", "impossible") and possible and admitted,
        )
        yield (
            "check says impossible, the scheduler places all pods in the emptied cluster",
            self.checked == "impossible" and emptied == "possible" and admitted,
        )
        yield (
            "check says busy, the scheduler leaves pods over in the emptied cluster",
            self.checked == "busy" and emptied == "none",
        )
        decided = self.checked == "depends" and not self.undecided and bool(complete)
        yield f"check says depends, the scheduler says {verdict}", decided and verdict != "depends"
        yield (
            f"check says {TOO_MANY_PODS}, rules between pods refuse every node",
            TOO_MANY_PODS in self.reasons and self._is_refused_by_rules(),
        )

    def _is_refused_by_rules(self) -> bool:
        """Return whether the gang's next pod finds no node only because of rules between pods."""
        found = {words for nodes in (self.real.get("reasons") or {}).values() for words in nodes.values()}
        return bool(found) and found <= BETWEEN_PODS

    def _is_over_quota(self, key: str) -> bool:
        refusals = (self.real.get("admitted") or {}).get("refusals") or ()
        return any(key in refusal for refusal in refusals)


def compare(case: Case, scheduler: RealScheduler) -> Outcome:
    """Get both answers. Raises ValueError for a case that the API server would refuse."""
    real = scheduler.ask(case, explain=True)
    if real.get("error"):
        raise ValueError(real["error"])
    try:
        cluster = case.used((real.get("admitted") or {}).get("used") or {}).cluster
        report = check_snapshot(cluster, from_manifest(case.manifest, "--manifest"), case.namespace)
    except Exception:
        return Outcome("", False, real, traceback.format_exc(limit=-3))
    reasons = frozenset(each.reason for each in report.reasons) if len(case.gang) == 1 else frozenset()
    return Outcome(report.verdict, report.undecided, real, reasons=reasons)


@dataclass
class Tally:
    """A count of outcomes.

    `disagreements` contains the seeds for which the two answers contradict each other, each with a description.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    undecided: int = 0
    incomplete: int = 0
    disagreements: list[tuple[int, str]] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.verdicts.total()

    def add(self, seed: int, outcome: Outcome) -> None:
        """Add the outcome of one seed to the counts."""
        self.verdicts[outcome.checked] += 1
        self.undecided += outcome.undecided
        self.incomplete += not outcome.real["complete"]
        if outcome.disagreement:
            self.disagreements.append((seed, outcome.disagreement))

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.verdicts.update(other.verdicts)
        self.undecided += other.undecided
        self.incomplete += other.incomplete
        self.disagreements += other.disagreements

    def __str__(self) -> str:
        verdicts = ", ".join(f"{verdict} {number}" for verdict, number in self.verdicts.most_common())
        depends = self.verdicts["depends"]
        share = f"{self.undecided} of {depends} depends are only undecided ({self.undecided / max(depends, 1):.1%})"
        return (
            f"{self.compared} clusters compared, {len(self.disagreements)} disagreements; {verdicts}; {share}; "
            f"{self.incomplete} not explored to the end"
        )


def compare_seeds(seeds: Sequence[int], features: frozenset[str] = FEATURES) -> Tally:
    """Compare the cases of these seeds."""
    scheduler, tally = RealScheduler(), Tally()
    for seed in seeds:
        try:
            tally.add(seed, compare(random_case(seed, features), scheduler))
        except ValueError as error:
            raise ValueError(f"seed {seed}: {error}") from error
    return tally


def smallest(case: Case, scheduler: RealScheduler) -> Case:
    """Remove parts of the case while the disagreement stays the same.

    Stop when every remaining part is needed, and return this smallest case.
    """
    words = _kind(compare(case, scheduler))
    found, position = case, 0
    while position < len(paths := list(_paths([found.items, found.gang]))):
        smaller = _without(found, paths[position])
        try:
            same = bool(smaller.gang) and _kind(compare(smaller, scheduler)) == words
        except (ValueError, KeyError):
            same = False
        if same:
            found = smaller
        else:
            position += 1
    return found


def _kind(outcome: Outcome) -> str:
    return outcome.disagreement[-200:]


def _paths(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each part that may be removed, the largest parts first."""
    keys: list[Any] = list(part) if isinstance(part, dict) else list(range(len(part))) if isinstance(part, list) else []
    for key in keys:
        if path and key not in KEPT and not _is_whole(part[key]):
            yield (*path, key)
    for key in keys:
        if not _is_whole(part[key]):
            yield from _paths(part[key], (*path, key))


def _is_whole(part: Any) -> bool:
    """Return whether this part must stay when a case is reduced.

    If a snapshot contains no object of a kind, the check assumes that the user could not read this kind.
    """
    return isinstance(part, dict) and part.get("kind") in WHOLE


def _without(case: Case, path: tuple[Any, ...]) -> Case:
    parts = copy.deepcopy([case.items, case.gang])
    holder: Any = parts
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return replace(case, items=parts[0], gang=parts[1])


def told(seed: int, features: frozenset[str] = FEATURES) -> str:
    """Find the smallest case of this seed for which check and the scheduler disagree.

    Return it and both answers as JSON.
    """
    scheduler = RealScheduler()
    case = smallest(random_case(seed, features), scheduler)
    outcome = compare(case, scheduler)
    real = scheduler.ask(case, explain=True)
    return f"seed {seed}: {outcome.disagreement}\n{case.request(BUDGET, explain=True)}\n{json.dumps(real)}"


def main() -> int:
    """Compare a range of seeds in parallel. Return 1 if the plugin and the scheduler disagree on any seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--without", default="", help="features to leave out, with commas")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=5, help="how many disagreements to print in full")
    arguments = parser.parse_args()
    features = FEATURES - set(arguments.without.split(","))
    last = arguments.first + arguments.count
    chunks = [range(first, min(first + CHUNK, last)) for first in range(arguments.first, last, CHUNK)]
    tally, started = Tally(), time.monotonic()
    golang.binary("schedule")
    with multiprocessing.Pool(arguments.processes) as pool:
        for part in pool.imap(_Comparer(features), chunks):
            tally.merge(part)
            for seed, words in part.disagreements:
                print(f"seed {seed}: {words}")
            print(f"seeds {arguments.first} to {arguments.first + tally.compared - 1}: {tally}", flush=True)
    for seed, _ in tally.disagreements[: arguments.show]:
        print(told(seed, features))
    if tally.disagreements:
        print("disagreements:", ", ".join(str(seed) for seed, _ in tally.disagreements))
    print(f"{tally}; {time.monotonic() - started:.0f} s")
    return int(bool(tally.disagreements))


@dataclass(frozen=True)
class _Comparer:
    features: frozenset[str]

    def __call__(self, seeds: Sequence[int]) -> Tally:
        return compare_seeds(seeds, self.features)


if __name__ == "__main__":
    sys.exit(main())
