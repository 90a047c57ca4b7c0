"""Test that `status` finds a run's record in S3, even if the pods are gone and only the release's values name it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain.request import run_record
from lab.s3.server import Server
from lab.waiting import free_port
from tests.plugin.fake_api import FakeApi, make_certificate
from tests.plugin.fake_api import running as serving
from tests.plugin.program import Run
from tests.plugin.report import records
from tests.plugin.report.records import BUCKET
from tests.plugin.status.runs import LABELS, MPI, NAMESPACE, PYTORCH, UP, changed, live, rows_of, serve, step

Put = Callable[[str, bytes], None]
Release = Callable[[dict[str, Any]], object]
DONE = live({**MPI, "status": {}}, "Succeeded")
KEY = "team/run1/record.jsonl"
CONTENT = records.content(records.rescaled())
# In one of the tests, the fake Helm waits this number of seconds before it answers.
ASLEEP = 20


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit for reading a record, because importing boto3 alone takes seconds on a busy machine."""
    monkeypatch.setattr(run_record, "SECONDS", 100.0)


def _values(endpoint: str, uri: str = f"s3://{BUCKET}") -> dict[str, Any]:
    return {"output": {"uri": uri}, "checkpoint": {"uri": ""}, "s3": {"endpoint": endpoint}}


@pytest.mark.parametrize("place", [f"s3://{BUCKET}/team/run1", f"s3://{BUCKET}/{KEY}"], ids=["folder", "file"])
def test_record_in_s3_has_the_figures(api: FakeApi, status: Run, s3: Put, s3_server: Server, place: str) -> None:
    serve(api, DONE)
    s3(KEY, CONTENT)

    shown = status("run1", "--record", place, "--endpoint", s3_server.endpoint)

    assert (shown.code, shown.err) == (0, "")
    rows = rows_of(shown)
    assert rows["step"] == "200 of 200 100 %"
    assert rows["source"] == "from the run's record"


@pytest.mark.parametrize("source", ["--endpoint", "AWS_ENDPOINT_URL", "release"])
def test_record_in_s3_is_read_from_the_server_of_the_flag_the_environment_or_the_release(
    api: FakeApi,
    status: Run,
    release: Release,
    s3: Put,
    s3_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
) -> None:
    serve(api, DONE)
    s3(KEY, CONTENT)
    release(_values(s3_server.endpoint if source == "release" else f"http://127.0.0.1:{free_port()}", ""))
    if source == "AWS_ENDPOINT_URL":
        monkeypatch.setenv(source, s3_server.endpoint)
    flags = ["--endpoint", s3_server.endpoint] if source == "--endpoint" else []

    shown = status("run1", "--record", f"s3://{BUCKET}/team/run1", *flags)

    assert (shown.code, shown.err, rows_of(shown)["step"]) == (0, "", "200 of 200 100 %")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"s3://{BUCKET}/nothing", f"s3://{BUCKET}/nothing contains no record.jsonl; name the folder of a run"),
        ("s3://no-such-bucket/run1", "there is no bucket no-such-bucket at"),
        ("s3:///run1", "s3:///run1 names no bucket; write s3://bucket/folder"),
        ("https://host/run1", "https://host/run1 is neither s3://bucket/folder nor a folder"),
        ("no-such-folder", "no-such-folder cannot be read: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_place_without_a_record_is_refused(
    api: FakeApi, status: Run, s3_server: Server, place: str, words: str
) -> None:
    serve(api, DONE)

    shown = status("run1", "--record", place, "--endpoint", s3_server.endpoint)

    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith(f"distrain: --record: {words}")


def test_wrong_unknown_and_missing_credentials_are_told_apart(
    api: FakeApi, status: Run, s3: Put, s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, DONE)
    s3(KEY, CONTENT)
    asked = ("run1", "--record", f"s3://{BUCKET}/team/run1", "--endpoint", s3_server.endpoint)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    wrong = status(*asked)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    unknown = status(*asked)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    missing = status(*asked)

    assert (wrong.code, wrong.err.count("\n")) == (3, 1)
    assert ": SignatureDoesNotMatch: the secret key of your AWS credentials is wrong; set AWS_PROFILE" in wrong.err
    assert (unknown.code, unknown.err.count("\n")) == (3, 1)
    assert "the server does not know the access key of your AWS credentials; set AWS_PROFILE" in unknown.err
    assert (missing.code, missing.err.count("\n")) == (3, 1)
    assert "your environment has no AWS credentials; set AWS_PROFILE" in missing.err


@pytest.mark.usefixtures("s3")
def test_server_whose_certificate_is_not_trusted_is_told(api: FakeApi, status: Run, tmp_path: Path) -> None:
    serve(api, DONE)
    make_certificate(tmp_path / "tls")

    with serving(tmp_path / "tls") as server:
        shown = status("run1", "--record", f"s3://{BUCKET}/team/run1", "--endpoint", server.url)

    assert (shown.code, shown.err.count("\n")) == (3, 1)
    words = "its certificate is not trusted; set AWS_CA_BUNDLE to a file with the certificate of the authority"
    assert f"--record: s3://{BUCKET}/team/run1 at {server.url}: {words}" in shown.err


@pytest.mark.usefixtures("s3")
def test_missing_boto3_is_told_with_the_command_that_installs_it(
    api: FakeApi, status: Run, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, DONE)
    release(_values(""))
    monkeypatch.setattr("distrain.record.libraries.S3", ("no_such_library",))

    shown = status("run1", "--record", f"s3://{BUCKET}/team/run1")

    assert (shown.code, shown.err.count("\n")) == (4, 1)
    assert shown.err.startswith(
        f"distrain: --record: s3://{BUCKET}/team/run1: needs no_such_library, which the plugin does"
    )
    assert [" --record" in line for line in _not_read(status("run1").out)] == [False]


@pytest.mark.parametrize("flag", ["--record", "--endpoint"])
def test_record_of_all_runs_is_refused(status: Run, flag: str) -> None:
    shown = status(flag, "http://x")

    words = f"{flag}: is for a single run; write `helm distrain status run1`, with your run's name, and then {flag}"
    assert (shown.code, shown.err) == (2, f"distrain: {words}\n")


@pytest.mark.parametrize("job", [DONE, changed(PYTORCH, suspend=True)], ids=["ended", "suspended"])
def test_run_without_pods_is_read_from_where_its_release_keeps_the_record(
    api: FakeApi, status: Run, release: Release, s3: Put, s3_server: Server, job: dict[str, Any]
) -> None:
    serve(api, job)
    s3(KEY, CONTENT)
    release(_values(s3_server.endpoint))

    shown = status("run1")

    assert (shown.code, shown.err) == (0, "")
    assert rows_of(shown)["step"].startswith("200 of 200 100 %")
    assert "not read" not in shown.out


def test_wait_ends_with_the_figures_of_the_record(
    api: FakeApi, status: Run, release: Release, s3: Put, s3_server: Server
) -> None:
    serve(api, DONE)
    s3(KEY, CONTENT)
    release(_values(s3_server.endpoint))

    shown = status("run1", "--wait")

    assert (shown.code, rows_of(shown)["step"]) == (0, "200 of 200 100 %")


def test_run_with_pods_is_not_looked_up(api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "of_release", lambda *_: pytest.fail("the record was looked up"))
    serve(api, MPI, pods=UP, run1_launcher=step(7))
    assert status("run1").code == 0

    serve(api, MPI)
    assert rows_of(status("run1"))["run1"] == "Pending"


@pytest.mark.parametrize(
    ("end", "words", "then"),
    [
        pytest.param(
            {"cause": "finished", "step": 200}, "the run has succeeded at step 200, 2 h 0 min ago",
            "`helm uninstall run1 --namespace team` removes the rest", id="succeeded",
        ),
        pytest.param(
            {"cause": "failed", "reason": "distrain: data.uri: x holds nothing; correct it", "step": 7},
            "the run has failed at step 7, 2 h 0 min ago (data.uri: x holds nothing)",
            "`helm distrain upgrade run1 --reuse-values --namespace team` creates the job again", id="failed",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("flag", [True, False], ids=["--record", "values"])
def test_run_whose_job_was_removed_has_the_end_of_its_record(
    api: FakeApi,
    status: Run,
    release: Release,
    tmp_path: Path,
    end: dict[str, Any],
    words: str,
    then: str,
    *,
    flag: bool,
) -> None:
    _removed(api)
    folder = tmp_path / "out" / "team" / "run1"
    folder.mkdir(parents=True)
    lines = [{"event": "start"}, {"event": "end", "unix_seconds": time.time() - 7200, **end}]
    (folder / "record.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    release(_values("", str(tmp_path / "out")))

    shown = status("run1", *(["--record", str(folder)] if flag else []))

    told = f"distrain: run1: according to its record, {words}; its job was removed since; {then}\n"
    assert (shown.code, shown.err) == (2, told)


def test_run_whose_job_was_removed_without_a_record_is_told_how(api: FakeApi, status: Run, release: Release) -> None:
    _removed(api)
    release(_values("", ""))

    assert "somebody removed it, or job.ttlSecondsAfterFinished did; `helm distrain upgrade" in status("run1").err


def test_run_whose_job_was_removed_says_that_its_record_was_not_read(
    api: FakeApi, status: Run, release: Release
) -> None:
    _removed(api)
    release(_values("", "/nowhere"))

    unread, told = status("run1").err.splitlines()

    assert unread.startswith("distrain: not read: the run's record: output.uri: /nowhere/team/run1 is a folder in")
    assert told.startswith("distrain: run1: the release has no job any more")


def _removed(api: FakeApi) -> None:
    """Delete all objects except those that a release keeps after its job is removed: Helm's Secret and the scripts."""
    api.answers[f"{NAMESPACE}/secrets"] = [{"metadata": {"name": "s", "labels": {"owner": "helm", "name": "run1"}}}]
    api.answers[f"{NAMESPACE}/configmaps"] = [{"metadata": {"name": "run1-scripts", "labels": LABELS}}]


def _not_read(out: str) -> list[str]:
    return [line.partition("not read")[2].strip() for line in out.splitlines() if line.startswith("not read")]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(
            _values("", f"s3://{BUCKET}"),
            f"output.uri: s3://{BUCKET}/team/run1: your environment has no AWS credentials; set AWS_PROFILE, or "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            id="s3",
        ),
        pytest.param(
            _values("", "/nowhere"),
            "output.uri: /nowhere/team/run1 is a folder in the pods of run1, on a volume; copy it to this machine, for "
            "example by `kubectl cp` from a pod that mounts the volume, and run "
            "`helm distrain status run1 --record ./run1`",
            id="volume",
        ),
        pytest.param(
            {"replicas": 1},
            "run1: is a release of another chart: its values have no output and no checkpoint, or name its location "
            "with --record",
            id="other-chart",
        ),
    ],
)
def test_record_that_cannot_be_read_is_a_line_and_no_failure(
    api: FakeApi,
    status: Run,
    release: Release,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, Any],
    words: str,
) -> None:
    serve(api, DONE)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    release(values)

    shown = status("run1")

    assert (shown.code, shown.err, rows_of(shown)["run1"]) == (0, "", "Succeeded")
    [line] = _not_read(shown.out)
    assert line == f"the run's record: {words}"


@pytest.mark.usefixtures("s3")
def test_server_in_the_cluster_is_told_how_to_forward(api: FakeApi, status: Run, release: Release) -> None:
    serve(api, DONE)
    release(_values(f"http://127.0.0.1:{free_port()}".replace("127.0.0.1", "minio.storage.svc")))

    shown = status("run1")

    [line] = _not_read(shown.out)
    assert shown.code == 0
    assert "run `kubectl --namespace storage port-forward service/minio 9000:" in line
    assert line.endswith("and add --endpoint http://127.0.0.1:9000")


def test_endpoint_counts_for_the_record_of_the_release(
    api: FakeApi, status: Run, release: Release, s3: Put, s3_server: Server
) -> None:
    serve(api, DONE)
    s3(KEY, CONTENT)
    release(_values("http://minio.storage.svc:9000"))

    assert rows_of(status("run1", "--endpoint", s3_server.endpoint))["step"] == "200 of 200 100 %"


def test_run_whose_values_name_no_place_says_nothing_of_a_record(api: FakeApi, status: Run, release: Release) -> None:
    serve(api, DONE)
    release(_values("", ""))

    shown = status("run1")

    assert (shown.code, _not_read(shown.out)) == (0, [])


@pytest.mark.usefixtures("release")
def test_run_without_a_release_is_told_which_flag_names_the_place(api: FakeApi, status: Run) -> None:
    serve(api, DONE)

    answer = json.loads(status("run1", "-o", "json").out)

    words = "Helm has no release run1; name its location, as in --record s3://bucket/team/run1"
    assert answer["unread"] == [f"the run's record: {words}"]


@pytest.mark.parametrize(
    ("key", "credentials"),
    [
        ("x", ""),
        ("", " (your environment has no AWS credentials, which S3 needs: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
         "AWS_SECRET_ACCESS_KEY)"),
    ],
    ids=["credentials", "none"],
)  # fmt: skip
def test_helm_that_does_not_answer_is_not_waited_for(
    api: FakeApi, status: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, credentials: str
) -> None:
    serve(api, DONE)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    helm = tmp_path / "helm"
    helm.write_text(f"#!/bin/sh\nexec sleep {ASLEEP}\n")
    helm.chmod(0o755)
    monkeypatch.setenv("HELM_BIN", str(helm))
    monkeypatch.setattr(run_record, "SECONDS", 0.1)
    begin = time.monotonic()

    shown = status("run1")

    assert time.monotonic() - begin < ASLEEP
    words = f"not read within 0.1 s{credentials}; name its location, as in --record s3://bucket/team/run1"
    assert (shown.code, _not_read(shown.out)) == (0, [f"the run's record: {words}"])
