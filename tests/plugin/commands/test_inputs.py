"""Test that --values and --chart accept the same inputs as Helm's own flags: pipes, URLs, lists, archives."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from distrain import temporary
from lab.paths import CHART
from tests.plugin.program import Run

pytestmark = pytest.mark.either_helm

SMALL = "gpus: null\nworkers: {replicas: 3, gpus: 0}\n"
STEPS = "trainer: {steps: 7}\n"
# The rendered job must have this number of workers and this argument. They come from SMALL and STEPS, which the command
# gets through two flags.
WANTED = (3, "--steps=7")
TEMPLATE = ["template", "run1", "--offline", "--show-only", "templates/mpijob.yaml"]


def _rendered(printed: str) -> tuple[int, str]:
    job = yaml.safe_load(printed)
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    flags = [word for word in launcher["args"] if word.startswith("--steps")]
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], flags[0]


@contextmanager
def _pipe(folder: Path, text: str) -> Iterator[str]:
    """Write the text into a named pipe, from which it can be read only once."""
    fifo = folder / "values.fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(text,), daemon=True)
    writer.start()
    yield str(fifo)
    writer.join(timeout=5)


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder over HTTP. Yield the URL and a list of the requested paths."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "steps.yaml").write_text(STEPS)
    return str(tmp_path / "small.yaml"), str(tmp_path / "steps.yaml")


def test_pipe_is_read_once_for_all_runs_of_helm(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    with _pipe(tmp_path, STEPS) as fifo:
        outcome = run(*TEMPLATE, "-f", files[0], "-f", fifo)

    assert (outcome.code, _rendered(outcome.out)) == (0, WANTED), outcome.err


def test_pipe_of_set_file_is_read_once(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    with _pipe(tmp_path, "mnist") as fifo:
        outcome = run(*TEMPLATE, "-f", files[0], "-f", files[1], "--set-file", f"trainer.model={fifo}")

    assert outcome.code == 0, outcome.err
    assert "--model=mnist" in outcome.out


def test_file_of_set_file_may_have_a_comma(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    (tmp_path / "a,b").write_text("mnist")

    outcome = run(*TEMPLATE, "-f", ",".join(files), "--set-file", f"trainer.model={tmp_path}/a\\,b")

    assert outcome.code == 0, outcome.err
    assert "--model=mnist" in outcome.out


def test_url_is_fetched_once_by_helm(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    with _served(tmp_path) as (url, asked):
        outcome = run(*TEMPLATE, "-f", f"{url}/small.yaml", "-f", files[1])

    assert (outcome.code, _rendered(outcome.out)) == (0, WANTED), outcome.err
    assert asked == ["/small.yaml"]


def test_list_of_files_and_quotes_are_taken(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    odd = tmp_path / "a,b.yaml"
    odd.write_text(STEPS)

    outcome = run(*TEMPLATE, "-f", f'{files[0]},"{odd}"')

    assert (outcome.code, _rendered(outcome.out)) == (0, WANTED), outcome.err


def test_stdin_may_stand_among_other_files(run: Run, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(STEPS.encode())))

    outcome = run(*TEMPLATE, "-f", f"{files[0]},-")

    assert (outcome.code, _rendered(outcome.out)) == (0, WANTED), outcome.err


def test_derive_completes_what_a_pipe_and_a_url_hold(run: Run, tmp_path: Path) -> None:
    (tmp_path / "total.yaml").write_text("gpus: 16\n")

    with _served(tmp_path) as (url, _), _pipe(tmp_path, STEPS) as fifo:
        outcome = run("derive", "--node-gpus", "8", "-f", f"{url}/total.yaml", "-f", fifo)

    assert (outcome.code, outcome.workers["replicas"], outcome.values["trainer"]["steps"]) == (0, 2, 7), outcome.err


TWICE = """\
gpus: null
workers:
  replicas: 2
  sidecars:
    - {name: a, image: b, name: c}
  # A reader takes the first one, and Helm the last.
  "replicas": 3
  gpus: 0
workers: {replicas: 4, gpus: 0}
"""


@pytest.mark.parametrize("command", [["template", "--offline"], ["derive"], ["check"], ["install"]])
def test_key_that_a_values_file_has_twice_is_refused_with_both_lines(
    run: Run, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "twice.yaml").write_text(TWICE)
    (tmp_path / "steps.yaml").write_text(STEPS)
    verb, *more = command

    outcome = run(
        verb, *([] if verb == "derive" else ["run1"]), *more, "-f", f"{tmp_path}/twice.yaml,{tmp_path}/steps.yaml"
    )

    lines = [
        ("workers.sidecars[0].name", "line 5"),
        ("workers.replicas", "lines 3 and 7"),
        ("workers", "lines 2 and 9"),
    ]
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines() == [
        f"distrain: --values: {tmp_path}/twice.yaml: {key} appears twice, in {at}; remove one of them"
        for key, at in lines
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x-a: {replicas: 1}\nworkers: {replicas: 3, gpus: 0}\ngpus: null\n", id="of-two-blocks"),
        pytest.param("x-a: [{b: 1}, {b: 2}, [b, b]]\nworkers: {replicas: 3, gpus: 0}\ngpus: null\n", id="of-entries"),
        pytest.param(f"{SMALL}x-a: &a {{b: 1}}\nx-b: {{<<: *a, <<: *a, b: 2}}\n", id="merged"),
        pytest.param(f"{SMALL}x-a: {{? [b, c] : d, ? {{b: c}} : d, b: b, c: b}}\n", id="key-that-is-no-text"),
        pytest.param(f"{SMALL}---\nworkers: {{gpus: 0}}\n", id="of-two-documents"),
    ],
)
def test_key_of_another_block_is_no_repetition(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "once.yaml").write_text(text)

    outcome = run("template", "run1", "--offline", "-f", str(tmp_path / "once.yaml"))

    assert "appears twice" not in outcome.err
    assert outcome.code == (2 if "? [" in text else 0), outcome.err


def test_mistake_in_a_pipe_is_reported_with_its_name(run: Run, tmp_path: Path) -> None:
    with _pipe(tmp_path, "a: : 1\n") as fifo:
        outcome = run(*TEMPLATE, "-f", fifo)

    assert outcome.code == 2
    assert fifo in outcome.err
    assert "distrain-" not in outcome.err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        pytest.param("http://127.0.0.1:1/a.yaml", "--values: http://127.0.0.1:1/a.yaml cannot be fetched: ", id="url"),
        pytest.param("none://a/b", "--values: none://a/b cannot be fetched: ", id="scheme-without-getter"),
        pytest.param('a"b,c', '--values: a"b cannot be read: No such file or directory', id="list"),
        pytest.param(
            "a.yaml,",
            "--values: a.yaml, has a comma without a file name beside it; write a.yaml,b.yaml",
            id="comma-at-the-end",
        ),
        pytest.param('"a', '--values: "a is not a list of files: ', id="open-quote"),
        pytest.param("/nowhere/a.yaml", "--values: /nowhere/a.yaml cannot be read: No such file", id="missing"),
    ],
)
def test_each_file_that_cannot_be_read_is_one_line(run: Run, flag: str, words: str) -> None:
    outcome = run(*TEMPLATE, "-f", flag)

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", len(flag.strip(",").split(",")))
    assert outcome.err.startswith(f"distrain: {words}")


@pytest.mark.parametrize(
    ("path", "why"),
    [("user:s3cr3t@127.0.0.1:1/a.yaml", "connection refused"), ("{served}/none.yaml", "404 File not found")],
    ids=["no-server", "no-file"],
)
def test_url_that_cannot_be_fetched_is_answered_with_the_cause_and_the_next_step(
    run: Run, tmp_path: Path, path: str, why: str
) -> None:
    with _served(tmp_path) as (served, _):
        url = "http://" + path.format(served=served.removeprefix("http://"))
        outcome = run(*TEMPLATE, "-f", url)

    step = "correct the URL, or download the file and name it here"
    shown = url.replace("user:s3cr3t", "[hidden]")
    assert (outcome.code, outcome.err) == (2, f"distrain: --values: {shown} cannot be fetched: {why}; {step}\n")


def test_copies_are_removed_at_the_end(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    create = temporary.folder

    def folder() -> Path:
        made.append(create())
        return made[-1]

    monkeypatch.setattr(temporary, "folder", folder)

    with _pipe(tmp_path, STEPS) as fifo:
        run(*TEMPLATE, "-f", fifo, "--set", "workers.gpus=0")

    assert [folder.exists() for folder in made] == [False]


def _archive(folder: Path, *names: str) -> str:
    """Pack the chart as `helm package` does. If `names` are given, pack empty files with these names instead."""
    path = folder / "distrain-0.1.0.tgz"
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        if not names:
            archive.add(CHART, "distrain")
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return str(path)


def test_chart_may_be_an_archive(run: Run, tmp_path: Path, files: tuple[str, str]) -> None:
    template, name, *rest = TEMPLATE

    outcome = run(template, name, _archive(tmp_path), *rest, "-f", f"{files[0]},{files[1]}")

    assert (outcome.code, _rendered(outcome.out)) == (0, WANTED), outcome.err


@pytest.mark.parametrize(
    ("names", "words"),
    [
        pytest.param(["distrain/values.yaml"], "contains no folder with a Chart.yaml", id="no-chart"),
        pytest.param(
            ["distrain/Chart.yaml", "../x"], "cannot be unpacked: ../x lies outside the archive", id="outside"
        ),
        pytest.param(["/x"], "cannot be unpacked: /x lies outside the archive", id="absolute"),
    ],
)
def test_archive_without_a_chart_is_refused(run: Run, tmp_path: Path, names: list[str], words: str) -> None:
    archive = _archive(tmp_path, *names)

    outcome = run(*TEMPLATE[:2], archive, "--offline")

    assert (outcome.code, outcome.err) == (2, f"distrain: --chart: {archive} {words}; name another file\n")


def test_file_of_another_kind_is_no_archive(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.tgz"
    path.write_text(SMALL)

    outcome = run(*TEMPLATE[:2], str(path), "--offline")

    words = "cannot be unpacked: not a gzip file; name another file"
    assert (outcome.code, outcome.err) == (2, f"distrain: --chart: {path} {words}\n")


def test_archive_with_a_damaged_header_is_refused(run: Run, tmp_path: Path) -> None:
    path = Path(_archive(tmp_path))
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[content.index(b"distrain/templates/scripts-configmap.yaml")] = ord("?")
    path.write_bytes(gzip.compress(bytes(content)))

    outcome = run(*TEMPLATE[:2], str(path), "--offline")

    words = "cannot be unpacked: it is damaged; name another file"
    assert (outcome.code, outcome.err) == (2, f"distrain: --chart: {path} {words}\n")


@pytest.mark.parametrize("chart", ["oci://127.0.0.1/distrain", "stable/distrain", "missing.tgz"])
def test_chart_elsewhere_is_refused_with_the_next_step(run: Run, chart: str) -> None:
    outcome = run(*TEMPLATE[:2], chart, "--offline")

    words = (
        "is neither a chart's folder nor a .tgz file; name the folder that contains Chart.yaml, or fetch the "
        "chart with `helm pull`"
    )
    assert (outcome.code, outcome.err) == (2, f"distrain: --chart: {chart} {words}\n")


# Forms of --set that Helm accepts. A parser that only splits the text at commas and equals signs would misread each of
# them.
ODD_FLAGS = [
    ["--set", "podLabels.a=b\\,c,podLabels.d=e"],
    ["--set", r"podLabels.example\.com/a=b"],
    ["--set", "mpi.flags={--bind-to,none}"],
    ["--set", "mpi.flags[0]=--tag-output"],
    ["--set", "trainer.epochs=null,trainer.steps=07"],
    ["--set", "trainer.steps=1", "--set-json", 'trainer={"steps": 2}', "--set-string", "podLabels.a=1"],
    ["--set-literal", "podLabels.a=b,c=d"],
    # Python ends a line at U+0085. YAML allows neither DEL nor the quotes of cp1252 that were read as Latin-1.
    ["--set", "command={echo,wait\x85\u2028}"],
    ["--set", "command={echo,\x93quoted\x94\x7f}"],
    ["--set="],
]


@pytest.mark.parametrize("flags", ODD_FLAGS, ids=" ".join)
def test_single_values_are_read_as_helm_reads_them(run: Run, helm: Path, flags: list[str]) -> None:
    command = [str(helm), "template", "run1", str(CHART), *flags]
    helms = subprocess.run(command, capture_output=True, text=True, check=False)

    outcome = run("template", "run1", "--offline", *flags)

    assert (outcome.code == 0) == (helms.returncode == 0), outcome.err
    if outcome.code == 0:
        assert outcome.out.rstrip() == helms.stdout.rstrip()


OBJECT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (OBJECT, "Deployment"),
        ("---\n" + OBJECT + "---\n" + OBJECT, "Deployment"),
        ('{"kind": "MPIJob", "apiVersion": "kubeflow.org/v2beta1"}', "MPIJob"),
    ],
    ids=["block", "two-documents", "json"],
)
@pytest.mark.parametrize("command", ["check", "derive", "template"])
def test_kubernetes_object_as_values_is_named_in_one_line(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: str, text: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my job.yaml").write_text(text)

    shown = run(command, "-f", "my job.yaml", *(["--offline"] if command == "template" else []))

    step = "name a values file; `helm distrain import 'my job.yaml'` prints one for a training job"
    words = f"distrain: --values: my job.yaml is a Kubernetes object ({kind}), not values; {step}\n"
    assert (shown.code, shown.out, shown.err) == (2, "", words)
