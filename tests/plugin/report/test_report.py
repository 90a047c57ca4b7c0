"""Test the command `report`: where it looks for records, which files it writes, and its message for each mistake."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.s3.server import Server
from lab.waiting import free_port
from tests.plugin.program import Outcome, called
from tests.plugin.report import records
from tests.plugin.report.records import BUCKET, event, start, step

Report = Callable[..., Outcome]
FULL = pytest.mark.full
# Tests that are not about the plots use this record, because it has few points.
SHORT = [start(0, 2), event("end", 1, cause="finished", exit_code=0)]


@pytest.fixture
def drawing_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Return a function that runs `distrain report` in an empty folder. Unlike `report`, it also draws the picture."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return lambda *arguments: called(capsys, "report", *arguments)


@pytest.fixture
def report(drawing_report: Report, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Return a function that runs `distrain report` in an empty folder.

    The function does not draw the picture, because drawing would take most of a test's time.
    """
    monkeypatch.setattr("distrain.report.page.png", lambda runs, plots: b"\x89PNG")
    return drawing_report


def _written(folder: Path = Path("distrain-report")) -> str:
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")
    return (folder / "report.html").read_text()


def test_folder_gives_a_page_and_a_picture(drawing_report: Report) -> None:
    records.folder(Path(), records.rescaled())

    done = drawing_report("./run1")

    assert (done.code, done.out) == (0, "")
    assert done.err == "distrain: wrote distrain-report/report.html and distrain-report/report.png\n"
    assert "<h1>Run run1</h1>" in _written()


def test_several_runs_are_in_one_page(report: Report) -> None:
    for name in ("one", "two"):
        records.folder(Path(name), SHORT)

    done = report("./one/run1", "two/run1/record.jsonl", "-o", "both")

    assert done.code == 0, done.err
    assert "<h1>Runs run1 (1) and run1 (2)</h1>" in _written(Path("both"))


def test_report_is_replaced_only_with_force(report: Report) -> None:
    records.folder(Path(), SHORT)
    assert report("./run1").code == 0

    refused, forced = report("./run1"), report("./run1", "--force")

    words = (
        "--output: distrain-report already contains a report; name another folder, or add --force to replace the report"
    )
    assert (refused.code, refused.err) == (2, f"distrain: {words}\n")
    assert forced.code == 0


def test_run_that_has_written_nothing_yet_is_told(report: Report) -> None:
    Path("run1").mkdir()
    Path("run1/record.jsonl").write_bytes(b"")

    done = report("./run1")

    assert done.code == 2
    assert done.err == "distrain: RUN: run1 is empty: the run has not written its first line yet; try again later\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            b'{"event": "record", "version": 9}\n{"event": "step"}\n', "has version 9 of the record's", id="newer"
        ),
        pytest.param(b"\x00\xff" * 1000, "is not a run's record: none of its lines is a JSON object", id="binary"),
    ],
)
def test_file_that_is_no_record_is_refused(report: Report, content: bytes, words: str) -> None:
    Path("record.jsonl").write_bytes(content)

    done = report("record.jsonl")

    assert done.code == 2
    assert done.err.startswith(f"distrain: record.jsonl {words}")
    assert done.err.count("\n") == 1
    assert not Path("distrain-report").exists()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([{"event": "start"}], id="start alone"),
        pytest.param([{"event": "surprise", "unix_seconds": -5}], id="unknown event alone", marks=FULL),
        pytest.param([step(9, 1, 5, loss=float("nan")), step(9, 2, 6, loss=float("inf"))], id="no finite loss"),
        pytest.param([start(300, 2), step(310, 1, 64, loss=1), start(0, 2), step(10, 2, 128, loss=1)], id="clocks"),
        pytest.param(
            [start(0, 0, steps=0, epoch_samples=0), step(0, 0, 0, images_per_second=0.0)], id="zeros", marks=FULL
        ),
        pytest.param(
            [start(0, -3, parameter_bytes=-1), step(-5, -7, -9, step_seconds_total=-1.0)], id="negative", marks=FULL
        ),
        pytest.param([start(0, 2**62, step=2**62), step(1, 2**62, 2**62, loss=1e99)], id="huge", marks=FULL),
        pytest.param(
            [start(0, 2, values={"a": {"b": [1, None, "é\u202e\x00"]}}), event("end", 1)], id="values", marks=FULL
        ),
        pytest.param([{"event": "end", "reason": "\x1b[31m" + "x" * 10_000, "exit_code": -9}], id="long reason"),
        pytest.param([*records.rescaled()[:5], {"event": "step"}, {"event": "kill"}], id="empty lines"),
    ],
)
def test_strange_record_is_drawn(drawing_report: Report, lines: list[dict[str, Any]]) -> None:
    records.folder(Path(), lines)
    with Path("run1/record.jsonl").open("ab") as file:
        file.write(b'{"event": "step", "st')

    done = drawing_report("./run1")

    assert (done.code, done.err.count("\n")) == (0, 1), done.err
    assert "1 line of the record that cannot be read" in _written()


def test_every_record_that_is_missing_is_named(report: Report) -> None:
    records.folder(Path(), SHORT)

    done = report("./run1", "./run2", "./run3")

    assert done.code == 2
    assert [line.split(":")[2].split()[0] for line in done.err.splitlines()] == ["run2", "run3"]


def test_s3_is_read_with_the_users_environment(
    report: Report, s3: Callable[[str, bytes], None], s3_server: Server
) -> None:
    for name in ("record.jsonl", "record-2.jsonl", "results.json"):
        s3(f"team/run1/{name}", records.content(SHORT))

    done = report(f"s3://{BUCKET}/team/run1", "--endpoint", s3_server.endpoint)

    assert done.code == 0, done.err
    assert f"s3://{BUCKET}/team/run1/record-2.jsonl" in _written()


def test_endpoint_of_the_environment_that_is_no_url_is_named(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "s3.example.com:9000")

    refused = report(f"s3://{BUCKET}/team/run1")

    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "the endpoint in AWS_ENDPOINT_URL, or in your AWS profile, is no URL of a server; correct it" in refused.err


def test_record_in_s3_can_be_named_itself(
    report: Report, s3: Callable[[str, bytes], None], s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3("alone.jsonl", records.content(SHORT))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)

    done = report(f"s3://{BUCKET}/alone.jsonl")

    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"s3://{BUCKET}/nothing", f"s3://{BUCKET}/nothing contains no record.jsonl; name the folder of a run"),
        (f"s3://{BUCKET}/no.jsonl", f"there is no s3://{BUCKET}/no.jsonl at"),
        ("s3://no-such-bucket/run1", "there is no bucket no-such-bucket at"),
        ("s3:///run1", "s3:///run1 names no bucket; write s3://bucket/folder"),
        ("https://host/run1", "https://host/run1 is neither s3://bucket/folder nor a folder"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_place_without_a_record_is_refused(report: Report, s3_server: Server, place: str, words: str) -> None:
    done = report(place, "--endpoint", s3_server.endpoint)

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert words in done.err


def test_wrong_credentials_are_told(
    report: Report, s3: Callable[[str, bytes], None], s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3("team/run1/record.jsonl", records.content(SHORT))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    done = report(f"s3://{BUCKET}/team/run1", "--endpoint", s3_server.endpoint)

    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "the secret key of your AWS credentials is wrong; set AWS_PROFILE" in done.err


def test_missing_credentials_are_told(report: Report, s3_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    done = report(f"s3://{BUCKET}/team/run1", "--endpoint", s3_server.endpoint)

    assert done.code == 3
    assert "your environment has no AWS credentials; set AWS_PROFILE" in done.err


def test_release_names_the_place_of_its_record(
    report: Report, release: Callable[..., None], s3: Callable[[str, bytes], None], s3_server: Server
) -> None:
    s3("out/team/run1/record.jsonl", records.content(SHORT))
    output = {"uri": f"s3://{BUCKET}/out/"}
    release({"output": output, "checkpoint": {"uri": "s3://other"}, "s3": {"endpoint": s3_server.endpoint}})

    done = report("run1", "-n", "team")

    assert done.code == 0, done.err
    assert f"s3://{BUCKET}/out/team/run1/record.jsonl" in _written()


def test_endpoint_in_the_cluster_is_told_how_to_forward(
    report: Report, release: Callable[..., None], s3: Callable[[str, bytes], None], s3_server: Server
) -> None:
    s3("team/run1/record.jsonl", records.content(SHORT))
    endpoint = f"http://minio.storage.svc:{free_port()}"
    release({"output": {"uri": ""}, "checkpoint": {"uri": f"s3://{BUCKET}"}, "s3": {"endpoint": endpoint}})

    refused = report("run1", "-n", "team")
    forwarded = report("run1", "-n", "team", "--endpoint", s3_server.endpoint)

    port = endpoint.rpartition(":")[2]
    assert refused.code == 3
    assert refused.err.endswith(
        "the endpoint is an address inside the cluster: run "
        f"`kubectl --namespace storage port-forward service/minio 9000:{port}`, "
        "and add --endpoint http://127.0.0.1:9000\n"
    )
    assert f"checkpoint.uri: s3://{BUCKET}/team/run1 at {endpoint}: S3 does not answer" in refused.err
    assert forwarded.code == 0, forwarded.err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"replicas": 1}, "run1: is a release of another chart", id="another chart"),
        pytest.param(
            {"output": {"uri": ""}, "checkpoint": {"uri": ""}},
            "run1: its values set neither output.uri nor checkpoint.uri",
            id="no place",
        ),
        pytest.param(
            {"output": {"uri": "/nowhere"}, "checkpoint": {}},
            "output.uri: /nowhere/team/run1 is a folder in the pods of run1, on a volume; copy it",
            id="volume",
        ),
    ],
)
def test_release_without_a_readable_record_is_refused(
    report: Report, release: Callable[..., None], values: dict[str, Any], words: str
) -> None:
    release(values)

    done = report("run1", "-n", "team")

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert words in done.err


@pytest.mark.usefixtures("release")
def test_release_that_is_not_there_is_told(report: Report) -> None:
    Path("run1").mkdir()

    done = report("run1", "-n", "team")

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "run1: there is no release of this name in namespace team; if it was uninstalled, give the" in done.err
    assert "if you mean the local folder, write ./run1" in done.err


def test_folder_that_a_release_mounts_is_read(report: Report, release: Callable[..., None], tmp_path: Path) -> None:
    records.folder(tmp_path / "volume" / "team", SHORT)
    release({"output": {"uri": str(tmp_path / "volume")}, "checkpoint": {"uri": ""}})

    assert report("run1", "-n", "team").code == 0


@pytest.mark.parametrize("kept", [True, False], ids=["plugin", "wheel"])
def test_missing_library_is_told_with_the_command_that_installs_it(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: bool
) -> None:
    records.folder(Path(), SHORT)
    monkeypatch.setattr("distrain.record.libraries.PLOTS", ("matplotlib", "no_such_library"))
    setup = tmp_path / "setup"
    if kept:
        setup.write_text("")
    monkeypatch.setattr("distrain.record.libraries.SETUP", str(setup))

    done = report("./run1")

    step = f"{setup} report" if kept else "pip install 'distrain[report]'"
    assert done.code == 4
    assert done.err == (
        "distrain: report: needs no_such_library, which the plugin does not install by default; "
        f"to install it, run `{step}`\n"
    )


def test_folder_that_cannot_be_written_is_told(report: Report) -> None:
    records.folder(Path(), SHORT)
    Path("file").write_text("")

    as_file, below_file = report("./run1", "-o", "file"), report("./run1", "-o", "file/folder")

    assert (as_file.code, as_file.err) == (2, "distrain: --output: file is a file; name a folder\n")
    assert below_file.code == 2
    assert "--output: file/folder cannot be created: Not a directory; name another folder" in below_file.err


def _raising(error: OSError) -> Callable[..., bool]:
    def raise_it(path: Path, **options: bool) -> bool:
        raise error

    return raise_it


def test_folder_that_cannot_be_read_is_told(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    records.folder(Path(), SHORT)
    long = "c" * 300

    too_long, below = report("./run1", "-o", long), report("./run1", "-o", f"{long}/d")
    # The tests may run as root, who can read a folder without any permission.
    monkeypatch.setattr(Path, "exists", _raising(PermissionError(errno.EACCES, "Permission denied")))
    closed = report("./run1", "-o", "no/out")

    assert (too_long.code, below.code, closed.code) == (2, 2, 2)
    words = "cannot be read: File name too long; name another folder\n"
    assert too_long.err == f"distrain: --output: {long} {words}"
    assert below.err == f"distrain: --output: {long}/d {words}"
    assert closed.err == "distrain: --output: no/out cannot be read: Permission denied; name another folder\n"


def test_path_in_a_release_that_is_too_long_is_told(report: Report, release: Callable[..., None]) -> None:
    release({"output": {"uri": f"/{'c' * 300}"}, "checkpoint": {"uri": ""}})

    done = report("run1", "-n", "team")

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "is a folder in the pods of run1" in done.err


@pytest.mark.parametrize("name", ["report.html", "report.png"])
def test_report_is_replaced_as_a_whole_or_not_at_all(report: Report, name: str) -> None:
    records.folder(Path(), SHORT)
    folder = Path("distrain-report")
    folder.mkdir()
    for each in ("report.html", "report.png"):
        (folder / each).write_text("old")
    (folder / name).unlink()
    (folder / name).mkdir()

    done = report("./run1", "--force")

    assert done.code == 2
    assert f"--output: {Path.cwd()}/distrain-report/{name} cannot be written: Is a directory" in done.err
    [other] = [path for path in folder.iterdir() if path.name != name]
    assert other.read_text() == "old"


def test_too_many_runs_are_refused(report: Report) -> None:
    done = report(*[f"./run{number}" for number in range(9)])

    assert (done.code, done.err) == (2, "distrain: RUN: 9 runs are too many for one plot; name at most 8\n")
