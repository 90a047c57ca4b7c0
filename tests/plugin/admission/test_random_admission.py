"""Compare the plugin's handling of quotas, LimitRanges and PriorityClasses with Kubernetes' own code on random pods.

The environment variable RANDOM_VALUES sets the number of cases. A failure names the seed of the case. Call
random_case(seed) to get the case.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from distrain.admission.refusal import Refusal
from distrain.check.snapshot import snapshot_file
from distrain.kube.quantities import thousandths
from distrain.verdict import Verdict
from distrain.workload.manifest import from_manifest
from lab.builds import golang
from tests.line_program import answers
from tests.plugin.admission.random_admission import NAMESPACES, STORAGE_CLASSES, Case, Object, random_case
from tests.plugin.check.random_clusters import with_usage

COUNT = int(os.environ.get("RANDOM_VALUES", "500"))
OTHERS = [*STORAGE_CLASSES, *({"kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES)]
QUANTITY = re.compile(r"\d(?:[\w.]*\w)?(?:(?<=[eE])[+-]\d+)?")
PRIORITY, INVALID = ("no PriorityClass", "the integer value", "the string value"), "Pod is invalid"
LIMITS, QUOTAS = re.compile("(minimum|maximum) |.* max limit to request ratio"), ("exceeded quota", "failed quota")


def _refusals(case: Case, used: dict[str, Object]) -> Sequence[Refusal]:
    """Return the refusals that the check reports for a case. `used` is the usage of each quota."""
    items = [*OTHERS, *(with_usage(each, used) for each in case.cluster)]
    found = snapshot_file.contents(json.dumps({"items": items}).encode())
    job = from_manifest(json.dumps({"kind": "List", "items": case.manifest}), "--manifest")
    prepared, _ = snapshot_file.examined(found, job, NAMESPACES[0], release="run1")
    return prepared.refusals


def _compared(case: Case, admitted: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield tuples: what is compared, the plugin's answer, and Kubernetes' answer."""
    ours = _refusals(case, admitted["used"] or {})
    reasons = [refusal.reason for refusal in ours]
    theirs = admitted["refusals"]
    words = {_plain(each) for each in _all(theirs, "quota")}
    quotas = [refusal for refusal in ours if refusal.reason.startswith(QUOTAS)]
    yield "priority", {each for each in reasons if each.startswith(PRIORITY)}, _all(theirs, "priority")
    yield "validity", any(each.startswith(INVALID) for each in reasons), any("invalid" in each for each in theirs)
    limits = {_plain(words) for each in theirs for words in each.get("limits", ())}
    yield "limits", {_plain(each) for each in reasons if LIMITS.match(each)}, limits
    yield "quotas", bool(quotas), bool(words)
    small = any(each.verdict == Verdict.IMPOSSIBLE for each in quotas)
    yield "quotas without other pods", small, any("empty" in each for each in theirs)
    # Kubernetes' message about a quota contains the amounts of one object. The plugin's message contains the sum over
    # all pods and claims. So the test compares the messages only if there is a single pod.
    if case.pods == 1 and not case.has_claims and not any("count/jobs.batch" in each.reason for each in quotas):
        yield "words of quotas", words <= {_plain(each.reason) for each in quotas}, True


def _all(refusals: Sequence[Object], key: str) -> set[str]:
    return {each[key] for each in refusals if key in each}


def _plain(words: str) -> str:
    """Return the message with all quantities written in the same notation."""
    return QUANTITY.sub(_thousandths, words)


def _thousandths(found: re.Match[str]) -> str:
    try:
        return str(thousandths(found[0]))
    except ValueError:
        return found[0]


@pytest.fixture(scope="module")
def compared() -> list[tuple[int, str, Any, Any]]:
    """Return, for each comparison: the seed, what is compared, the plugin's answer, and Kubernetes' answer."""
    command = [golang.binary("schedule")]
    environment = {**os.environ, "GOGC": "800"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    said = answers(process, (random_case(seed).request() for seed in range(COUNT)))
    found = []
    for seed, answer in enumerate(said):
        assert "error" not in answer, (seed, answer)
        found += [(seed, *each) for each in _compared(random_case(seed), answer["admitted"])]
    return found


def test_random_pods_are_admitted_as_kubernetes_does(compared: Sequence[tuple[int, str, Any, Any]]) -> None:
    different = [each for each in compared if each[2] != each[3]]

    print(f"{COUNT} cases, {len({seed for seed, *_ in different})} of them with another answer")
    assert {seed for seed, *_ in compared} == set(range(COUNT))
    assert different[:3] == []


def test_random_pods_meet_every_answer(compared: Sequence[tuple[int, str, Any, Any]]) -> None:
    answers = Counter((what, bool(theirs)) for _, what, _, theirs in compared)

    kinds = ("priority", "validity", "limits", "quotas", "quotas without other pods")
    assert min(answers[what, is_refused] for what in kinds for is_refused in (False, True)) > COUNT // 50
