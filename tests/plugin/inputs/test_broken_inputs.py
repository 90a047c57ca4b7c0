"""Test inputs that once caused a traceback: each gives one line with the path, the finding and the next step."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distrain import files
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
            f"MPIJob {JOB}: spec.mpiReplicaSpecs is missing; did you write mpiReplicaSpec instead?",
            id="misspelt-roles",
        ),
        pytest.param(
            as_yaml({key: value for key, value in mpi_job().items() if key != "spec"}),
            f"MPIJob {JOB}: spec.mpiReplicaSpecs is missing; write its roles there",
            id="no-spec",
        ),
        pytest.param(
            _beside({"apiVersion": "v1", "kinds": "ConfigMap", "metadata": {"name": "a"}}),
            "an object without a kind a: kind is missing; did you write kinds instead?",
            id="misspelt-kind",
        ),
        pytest.param(
            as_yaml({"framework": "pytorch"}),
            "an object without a kind and without a name: kind is missing; write it there, or name a values file with "
            "-f",
            id="values",
        ),
        pytest.param(
            _beside({"apiVersion": "v1", "kind": {"a": None}, "metadata": {"name": "a"}}),
            "an object without a kind a: kind: found a mapping of keys; it needs text",
            id="kind-is-a-block",
        ),
        pytest.param(
            as_yaml({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}),
            "Job a: spec.template is missing; write the pods there",
            id="no-spec-of-a-job",
        ),
        pytest.param(
            as_yaml({"apiVersion": "v1", "kind": "List", "items": [1]}),
            "document 1: items[0]: found a whole number; it needs a mapping of keys",
            id="number-as-item",
        ),
        pytest.param(
            _job(metadata="foo"),
            "MPIJob without a name: metadata: found text; it needs a mapping of keys",
            id="metadata",
        ),
        pytest.param(
            _job(metadata={"name": JOB, "annotations": ["a"]}),
            f"MPIJob {JOB}: metadata.annotations: found a list; it needs a mapping of keys",
            id="annotations",
        ),
        pytest.param(
            _job(metadata={"name": JOB, "annotations": {"helm.sh/hook": 5}}),
            f"MPIJob {JOB}: metadata.annotations.helm.sh/hook: found a whole number; it needs text",
            id="hook",
        ),
        pytest.param(
            _beside({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": "foo"}),
            "ConfigMap a: data: found text; it needs a mapping of keys",
            id="data",
        ),
    ],
)
def test_broken_manifest_is_one_line(place: Bench, manifest: bytes, words: str) -> None:
    answer = place.in_process(Input([*CHECK, *OFFLINE], {**GOOD, "job.yaml": manifest}))

    assert (answer.code, answer.err) == (2, f"distrain: --manifest: job.yaml: {words}\n")


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


def test_each_values_file_and_flag_that_helm_cannot_read_is_one_line(place: Bench) -> None:
    files = {
        "list.yaml": b"[1]\n",
        "latin.yaml": b"a: \xfc\n",
        "cut.yaml": b"a: b\nc: [\n",
        "null.yaml": b"workers:\n  ~: 1\n",
        "aliases.yaml": b"a: &a [x, x]\n"
        + b"".join(b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 120)),
    }
    flags = [word for name in files for word in ("-f", name)]
    flags += ["--set", "workers", "--set-string", "s3.secretName=a-secret,b-secret", "--set", "workers.gpus=8"]
    flags += ["--set-literal", "env[a]=1", "--set-json", "env=[", "--set", "workers[0]=1"]

    answer = place.in_process(Input(["check", *OFFLINE, *flags], files))

    assert answer.code == 2
    assert answer.err.splitlines() == [
        "distrain: --values: list.yaml: found a list; it needs a mapping of keys, written as KEY: VALUE lines",
        "distrain: --values: latin.yaml cannot be read: it is not UTF-8 text; name another file",
        "distrain: --values: cut.yaml: line 2 is not valid YAML; check indentation, brackets and quotes there",
        "distrain: --values: null.yaml: line 2 has a key that is null, a list or a mapping; write the key as text",
        "distrain: --values: aliases.yaml: it has aliases that repeat too much; write the values out",
        "distrain: --set-json: env: cannot be read; write KEY=JSON, such as workers.gpus=8",
        "distrain: --set: workers: has no value; write KEY=VALUE",
        "distrain: --set: workers[0]: is a mapping of keys in the values before it, not a list; write it in one of the "
        "two forms",
        "distrain: --set-string: s3.secretName: has no value; write KEY=VALUE, and \\, for a comma inside a value",
        "distrain: --set-literal: env[a]: has an index that is no whole number; write KEY=VALUE, with KEY[0] for the "
        "first entry of a list",
    ]


@pytest.mark.parametrize("depth", [150, 3000])
@pytest.mark.parametrize("key", [b"x-a", b"unknown"])
def test_values_that_are_nested_deep_are_one_line(place: Bench, depth: int, key: bytes) -> None:
    deep = key + b": " + b"[" * depth + b"]" * depth

    answer = place.in_process(Input(["derive", "--node-gpus", "8", "-f", "deep.yaml"], {"deep.yaml": deep}))

    words = "distrain: --values: deep.yaml: it is nested more than 100 levels deep; flatten it\n"
    assert (answer.code, answer.err) == (2, words)


def test_file_of_brackets_alone_does_not_crash_the_yaml_library(place: Bench) -> None:
    """libyaml's parser, which PyYAML uses, crashes the whole process at some ten thousand levels."""
    answer = place.as_process(Input(["check", *OFFLINE, "-f", "deep.yaml"], {"deep.yaml": b"[" * 50_000}))

    assert (answer.code, answer.err.count("\n")) == (2, 1), answer
    assert answer.err.startswith("distrain: --values: deep.yaml: "), answer


def test_flag_that_is_nested_deep_is_one_line(place: Bench) -> None:
    answer = place.in_process(Input(["check", *OFFLINE, "--set-json", f"a={'[' * 200}{']' * 200}"]))

    words = "distrain: values: a value is nested more than 100 levels deep; flatten it\n"
    assert (answer.code, answer.err) == (2, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"a: &a [*a]\n", "it has an anchor that contains itself; write the values out", id="anchor"),
        pytest.param(
            b"%YAML 1.2\n---\ngpus: 8\n",
            "is no YAML that Helm can read; write it as KEY: VALUE lines",
            id="version",
        ),
    ],
)
def test_values_that_helm_alone_cannot_read_are_one_line(place: Bench, content: bytes, words: str) -> None:
    answer = place.in_process(Input(["check", *OFFLINE, "-f", "values.yaml"], {"values.yaml": content}))

    assert (answer.code, answer.err) == (2, f"distrain: --values: values.yaml: {words}\n")


def test_long_key_is_read_as_helm_reads_it(place: Bench) -> None:
    content = b"? " + b"k" * 2000 + b"\n: 1\n"

    answer = place.in_process(Input(["check", *OFFLINE, "-f", "values.yaml"], {"values.yaml": content}))

    assert (answer.code, answer.err.startswith("distrain: kkk")) == (2, True)
    assert answer.err.endswith("kkk: there is no such value; values.yaml of the chart lists all values\n")


@pytest.mark.usefixtures("hidden_heap")
def test_file_of_many_unknown_values_is_answered_soon(place: Bench) -> None:
    many = b"".join(b"k%d: 1\n" % number for number in range(50_000))

    answer = place.in_process(Input(["check", *OFFLINE, "-f", "values.yaml"], {"values.yaml": many}))

    assert (answer.code, mistakes(answer)) == (2, [])


def test_each_file_that_cannot_be_opened_is_one_line(place: Bench) -> None:
    answer = place.in_process(Input(["check", *OFFLINE, "-f", "none.yaml", "-f", "/", "--set-file", "data.uri=x.txt"]))

    assert (answer.code, answer.err.splitlines()) == (
        2,
        [
            "distrain: --values: none.yaml cannot be read: No such file or directory; name another file",
            "distrain: --values: / cannot be read: Is a directory; name another file",
            "distrain: --set-file: x.txt cannot be read: No such file or directory; name another file",
        ],
    )


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


@pytest.mark.parametrize("command", [["snapshot"], ["init", "--framework", "pytorch", "--node-gpus", "8"]])
@pytest.mark.parametrize("name", ["x" * 300, "\udcff"], ids=["long", "no-utf-8"])
def test_output_that_can_be_no_file_is_one_line(place: Bench, command: list[str], name: str) -> None:
    answer = place.in_process(Input([*command, "-o", name]))

    assert (answer.code, len(answer.err.splitlines()), mistakes(answer)) == (2, 1, [])
    assert "; name another file" in answer.err


def test_endless_values_file_is_one_line(place: Bench) -> None:
    answer = place.in_process(Input(["check", *OFFLINE, "-f", "/dev/zero", "--set-file", "data.uri=/dev/full"]))

    words = "cannot be read: it is larger than 16 MiB; name another file"
    lines = [f"distrain: --values: /dev/zero {words}", f"distrain: --set-file: /dev/full {words}"]
    assert (answer.code, answer.err.splitlines()) == (2, lines)


def test_helm_that_does_not_work_is_not_blamed_on_the_values(place: Bench) -> None:
    given = Input(["check", *OFFLINE, "--set", "workers.replicas=2"], environment={"HELM_DRIVER": "nonsense"})

    answer = place.in_process(given)

    words = (
        r'Helm fails even without any values: "unknown driver \"nonsense\""; correct the settings of Helm, '
        r"such as HELM_DRIVER"
    )
    assert (answer.code, answer.err) == (2, f"distrain: {words}\n")


@pytest.mark.parametrize(
    ("arguments", "limit", "line"),
    [
        pytest.param(["--manifest", "/dev/zero", *OFFLINE], "MANIFEST", "--manifest: /dev/zero", id="manifest"),
        pytest.param(["--manifest", "-", *OFFLINE], "MANIFEST", "--manifest: -", id="stdin"),
        pytest.param(["--snapshot", "/dev/zero"], "SNAPSHOT", "--snapshot: /dev/zero", id="snapshot"),
        pytest.param(["--snapshot", "-"], "SNAPSHOT", "--snapshot: -", id="packed-snapshot"),
        pytest.param(["-f", "-", *OFFLINE], "VALUES", "--values: stdin", id="values"),
    ],
)
def test_endless_input_is_one_line(
    place: Bench, arguments: list[str], limit: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, limit, 2**20)
    content = gzip.compress(b" " * 2**21) if limit == "SNAPSHOT" else b" " * 2**21

    answer = place.in_process(Input(["check", *arguments], stdin=content))

    assert (answer.code, mistakes(answer)) == (2, [])
    assert answer.err.startswith(f"distrain: {line} cannot be read: it is larger than 1 MiB; ")


def test_small_snapshot_needs_little_memory(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(GOOD["job.yaml"])
    (tmp_path / "snapshot.json.gz").write_bytes(gzip.compress(GOOD["snapshot.json"]))
    command = [sys.executable, "-m", "distrain", *CHECK, "--snapshot", "snapshot.json.gz"]
    limited = partial(resource.setrlimit, resource.RLIMIT_AS, (2**30, 2**30))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / "plugin")}

    done = subprocess.run(
        command, cwd=tmp_path, env=environment, preexec_fn=limited, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
