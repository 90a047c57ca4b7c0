"""Test inputs that once ended in a traceback: each is one line with the path, what was found, and what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from tests.plugin.inputs.mutations import as_json, as_yaml
from tests.plugin.inputs.random_inputs import CHECK, GOOD, OFFLINE, Input
from tests.plugin.inputs.trial import Answer, Bench, bench, mistakes
from tests.plugin.objects import JOB, mpi_job, node

NODE = {"kind": "Node", **node("a", gpu="16")}


@pytest.fixture(scope="module")
def place() -> Iterator[Bench]:
    with bench() as found:
        yield found


def _job(**changes: Any) -> bytes:
    return as_yaml({**mpi_job(), **changes})


def _beside(item: Any) -> bytes:
    return as_yaml(mpi_job(), item)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        pytest.param(
            _job(spec={"mpiReplicaSpec": {}}),
            f"MPIJob {JOB}: spec.mpiReplicaSpecs is missing; did you mean it by mpiReplicaSpec?",
            id="misspelt-roles",
        ),
        pytest.param(
            as_yaml({key: value for key, value in mpi_job().items() if key != "spec"}),
            f"MPIJob {JOB}: spec.mpiReplicaSpecs is missing; write its roles there",
            id="no-spec",
        ),
        pytest.param(
            as_yaml({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}),
            "Job a: spec.template is missing; write the pods there",
            id="no-spec-of-a-job",
        ),
        pytest.param(
            as_yaml({"apiVersion": "v1", "kind": "List", "items": [1]}),
            "document 1: items[0]: found a whole number; it needs a block of keys",
            id="number-as-item",
        ),
        pytest.param(
            _job(metadata="foo"),
            "MPIJob without a name: metadata: found text; it needs a block of keys",
            id="metadata",
        ),
        pytest.param(
            _job(metadata={"name": JOB, "annotations": ["a"]}),
            f"MPIJob {JOB}: metadata.annotations: found a list; it needs a block of keys",
            id="annotations",
        ),
        pytest.param(
            _job(metadata={"name": JOB, "annotations": {"helm.sh/hook": 5}}),
            f"MPIJob {JOB}: metadata.annotations.helm.sh/hook: found a whole number; it needs text",
            id="hook",
        ),
        pytest.param(
            _beside({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": "foo"}),
            "ConfigMap a: data: found text; it needs a block of keys",
            id="data",
        ),
    ],
)
def test_broken_manifest_is_one_line(place: Bench, manifest: bytes, words: str) -> None:
    answer = place.in_process(Input([*CHECK, *OFFLINE], {**GOOD, "job.yaml": manifest}))

    assert (answer.code, answer.err) == (2, f"distrain: --manifest: {words}\n")


def test_all_mistakes_of_a_manifest_are_told_in_at_most_ten_lines(place: Bench) -> None:
    wrong = [{**mpi_job(), "metadata": {"name": f"a{number}", "labels": number}} for number in range(30)]

    answer = place.in_process(Input([*CHECK, *OFFLINE], {"job.yaml": as_yaml(*wrong)}))

    lines = answer.err.splitlines()
    assert (answer.code, len(lines)) == (2, 10)
    assert lines[-1] == "distrain: and 21 more mistakes; correct these first"


def test_labels_are_read_as_kubectl_reads_them(place: Bench) -> None:
    labels = (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {day: 2024-01-01, hour: 12:30, op: =}}\n---\n"
    )

    answer = place.in_process(Input([*CHECK, *OFFLINE], {"job.yaml": labels + GOOD["job.yaml"]}))

    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param({"kind": "ResourceQuota", "spec": {"hard": {"pods": "many"}}}, "many is no quantity", id="hard"),
        pytest.param({"kind": "ResourceQuota", "status": {"used": {"pods": "-"}}}, "- is no quantity", id="used"),
        pytest.param({"kind": "LimitRange", "spec": {"limits": [{"max": {"cpu": "x"}}]}}, "x is no quantity", id="max"),
    ],
)
def test_bad_quantity_in_a_snapshot_is_one_line(place: Bench, item: dict[str, Any], words: str) -> None:
    item = {**item, "metadata": {"name": "q", "namespace": "default"}}
    snapshot = as_json({"items": [NODE, item]})

    answer = place.in_process(Input([*CHECK, "--snapshot", "snapshot.json"], {**GOOD, "snapshot.json": snapshot}))

    assert answer.code == 2
    assert answer.err.startswith(f"distrain: --snapshot: snapshot.json: {item['kind']} q: {words}; ")
    assert mistakes(answer) == []


@pytest.mark.parametrize(
    "server", ["https://127.0.0.1:99999", "https://127.0.0.1:abc", "https://[::1", "https://k\u00f6ln.invalid"]
)
def test_server_that_is_no_url_is_one_line(place: Bench, server: str) -> None:
    answer = place.in_process(Input([*CHECK], GOOD, {"HELM_KUBEAPISERVER": server}))

    assert (answer.code, len(answer.err.splitlines()), mistakes(answer)) == (3, 1, [])


def test_namespace_with_an_umlaut_is_one_line(place: Bench) -> None:
    answer = place.in_process(Input([*CHECK, *OFFLINE, "-n", "t\u00e4am"], GOOD))

    assert (answer.code, len(answer.err.splitlines()), mistakes(answer)) == (2, 1, [])


@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        pytest.param("--manifest - <&-", 2, id="stdin-closed"),
        pytest.param("--manifest job.yaml >/dev/full", 5, id="stdout-full"),
    ],
)
def test_stream_that_cannot_be_used_is_one_line(tmp_path: Path, redirection: str, code: int) -> None:
    (tmp_path / "job.yaml").write_bytes(GOOD["job.yaml"])
    command = f'exec "$0" -m distrain check {" ".join(OFFLINE)} {redirection}'
    environment = {"PYTHONPATH": str(REPOSITORY / "plugin"), "PATH": "/usr/bin"}

    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1)
    assert mistakes(Answer(2, "", done.stderr, 0)) == []
