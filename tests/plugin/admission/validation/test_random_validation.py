"""Compare the plugin's validation with the API server's own code on random Jobs, StatefulSets, Pods and MPIJobs.

The environment variable RANDOM_VALUES sets the number of objects. A failure names the seed, and random_case(seed)
returns its object.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from distrain.admission import pod_validation
from distrain.admission.validation.refusals import mistakes
from distrain.check.snapshot import snapshot_file
from distrain.verdict import Verdict
from distrain.workload.manifest import from_manifest
from lab.builds import golang
from tests.line_program import answers
from tests.plugin.admission.random_objects import NAMESPACE, Case, random_case

COUNT = int(os.environ.get("RANDOM_VALUES", "500"))
# These patterns match messages of the API server that the test cannot compare word for word. UID matches messages that
# contain the UID of a Job. INIT_CONTAINER matches messages that name the first init container even if the mistake is in
# another one.
UID = re.compile(r"(spec\.selector|labels|labels\[.*\]): Invalid value: .*?: (must be|`selector` (not|does not)).*")
# The API server appends the volumes of a StatefulSet's claims in the random order of a Go map. So in its messages, a
# volume without a name may have any index.
NAMELESS = re.compile(r"volumes\[\d+\](\.(name|persistentVolumeClaim\.claimName): Required)")
INIT_CONTAINER = re.compile(r"initContainers\[\d+\](.*hostPort: Duplicate)")


def _ours(case: Case) -> tuple[bool, set[str]]:
    """Return whether the check refuses the case as invalid, and the mistakes that it reports."""
    job = from_manifest(json.dumps(case.item), "--manifest")
    prepared, _ = snapshot_file.examined(snapshot_file.contents(b'{"items": []}'), job, NAMESPACE)
    invalid = [each for each in prepared.refusals if " is invalid: " in each.reason]
    assert all(each.verdict is Verdict.IMPOSSIBLE for each in invalid)
    role = job.main
    return bool(invalid), _plain([*mistakes(role), *pod_validation.of_spec(role.spec)])


def _theirs(validity: dict[str, Any]) -> set[str]:
    """Return the API server's error messages about the object and about the pods of its template."""
    return _plain([*(validity["object"] or ()), *(validity["pod"] or ())])


def _plain(messages: Iterable[str]) -> set[str]:
    """Return comparable messages: with paths of pod fields instead of template fields, and without UIDs."""
    found = (INIT_CONTAINER.sub(r"initContainers[0]\1", each) for each in messages)
    return {_without_uid(NAMELESS.sub(r"volumes[]\1", each)) for each in found}


def _without_uid(message: str) -> str:
    return UID.sub(r"\1", message.replace("spec.template.spec.", "spec.").replace("spec.template.metadata.", ""))


@pytest.fixture(scope="module")
def compared() -> list[tuple[int, tuple[bool, set[str]], set[str]]]:
    """Return for each case: the seed, the plugin's answer, and the API server's answer."""
    process = subprocess.Popen([golang.binary("schedule")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = []
    for seed, answer in enumerate(answers(process, (random_case(seed).request() for seed in range(COUNT)))):
        assert "error" not in answer, (seed, answer)
        found.append((seed, _ours(random_case(seed)), _theirs(answer["validity"][0])))
    return found


def test_random_objects_are_refused_as_the_api_server_does(
    compared: Sequence[tuple[int, tuple[bool, set[str]], set[str]]],
) -> None:
    different = [(seed, ours, theirs) for seed, (is_refused, ours), theirs in compared if is_refused != bool(theirs)]

    print(f"{COUNT} objects, {len(different)} of them with another answer")
    assert [seed for seed, *_ in compared] == list(range(COUNT))
    assert different[:3] == []


def test_every_mistake_is_in_the_words_of_the_api_server(
    compared: Sequence[tuple[int, tuple[bool, set[str]], set[str]]],
) -> None:
    assert [(seed, ours - theirs, theirs) for seed, (_, ours), theirs in compared if not ours <= theirs][:3] == []


def test_random_objects_meet_every_answer(compared: Sequence[tuple[int, tuple[bool, set[str]], set[str]]]) -> None:
    kinds = Counter((random_case(seed).item["kind"], bool(theirs)) for seed, _, theirs in compared)

    assert len(kinds) == 8
    assert min(kinds.values()) > COUNT // 50
