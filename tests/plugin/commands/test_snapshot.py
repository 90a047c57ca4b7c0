"""Test the command `snapshot`: its file, its line on stderr, and that an error leaves no file behind."""

from __future__ import annotations

import gzip
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.plugin.check.judging import kind
from tests.plugin.check.serving import serve
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import mpi_job, namespace, node, pod
from tests.plugin.program import Run

PODS = 600


@pytest.fixture
def helm(helm4: Path) -> Path:
    """Run these tests with only one version of Helm, because `snapshot` does not call Helm."""
    return helm4


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve two nodes and more pods than fit on a page, and set KUBECONFIG."""
    (tmp_path / "config").mkdir()
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "config")))
    nodes = kind("Node", node("a", gpu="8", pods="1000"), node("b", gpu="8"))
    pods = kind("Pod", *(pod(f"p{number}", on="a") for number in range(PODS)))
    serve(api, [*nodes, *kind("Namespace", namespace("team")), *pods])
    return api


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "written").mkdir()
    return tmp_path / "written"


def test_snapshot_is_checked_elsewhere(run: Run, cluster: FakeApi, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(mpi_job()))
    check = ("check", "--manifest", str(tmp_path / "job.yaml"), "-n", "team", "-o", "json")
    live = run(*check)

    taken = run("snapshot", "-o", str(folder / "cluster.json.gz"))

    assert (taken.code, taken.out) == (0, "")
    assert taken.err == f"distrain: wrote {folder}/cluster.json.gz: 2 nodes, 1 namespace and {PODS} pods\n"
    cluster.answers.clear()
    assert run(*check, "--snapshot", str(folder / "cluster.json.gz")) == live
    assert [each.name for each in folder.iterdir()] == ["cluster.json.gz"]


def test_values_are_rendered_for_what_the_snapshot_says_is_served(run: Run, cluster: FakeApi, folder: Path) -> None:
    file = str(folder / "cluster.json")
    check = ("check", "--set", "workers.gpus=1", "-n", "team", "--snapshot", file)

    assert run("snapshot", "-o", file).code == 0
    refused = run(*check)
    cluster.serve_mpi_jobs()
    assert run("snapshot", "-o", file, "--force").code == 0

    assert refused.code == 2
    assert "job.kind: this cluster does not serve MPIJob" in refused.err
    assert run(*check).code == 0


def test_stdout_gets_the_snapshot_and_nothing_else(run: Run, cluster: FakeApi) -> None:
    taken = run("snapshot")

    assert len(json.loads(taken.out)["items"]) == 2 + 1 + PODS + 1
    assert taken.err == f"distrain: printed: 2 nodes, 1 namespace and {PODS} pods\n"


def test_same_cluster_gives_the_same_compressed_bytes(
    run: Run, cluster: FakeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distrain.check.snapshot.snapshot_writer._now", lambda: "2026-01-01T00:00:00Z")
    for name in ("one.gz", "two.gz"):
        assert run("snapshot", "-o", str(folder / name)).code == 0

    assert (folder / "one.gz").read_bytes() == (folder / "two.gz").read_bytes()
    assert len(gzip.decompress((folder / "one.gz").read_bytes())) > 10 * (folder / "one.gz").stat().st_size


def test_what_may_not_be_read_is_said(run: Run, cluster: FakeApi, folder: Path) -> None:
    cluster.answers |= {"/api/v1/resourcequotas": 403, "/api/v1/limitranges": 403}
    cluster.answers |= {"/api/v1/namespaces/team/limitranges": 403}

    taken = run("snapshot", "-o", str(folder / "cluster.json"))

    assert taken.code == 0
    assert taken.err.endswith("; no permission to read limitranges and resourcequotas outside namespace team\n")


def test_list_that_expires_is_read_again_without_counting_pods_twice(run: Run, cluster: FakeApi, folder: Path) -> None:
    cluster.troubles["/api/v1/pods"] = [200, 410]

    taken = run("snapshot", "-o", str(folder / "cluster.json"))

    assert (taken.code, f" {PODS} pods" in taken.err) == (0, True)
    assert len(json.loads((folder / "cluster.json").read_text())["items"]) == 2 + 1 + PODS + 1


def test_existing_file_is_replaced_only_with_force(run: Run, cluster: FakeApi, folder: Path) -> None:
    file = folder / "cluster.json"
    file.write_text("mine")

    refused = run("snapshot", "-o", str(file))

    assert (refused.code, cluster.requests) == (2, [])
    words = "already exists; name another file, or add --force to replace it"
    assert refused.err == f"distrain: --output: {file} {words}\n"
    assert file.read_text() == "mine"
    assert run("snapshot", "-o", str(file), "--force").code == 0
    assert "Snapshot" in file.read_text()


def test_file_behind_a_link_is_replaced_and_a_device_is_not(run: Run, cluster: FakeApi, folder: Path) -> None:
    (folder / "link").symlink_to(folder / "file")

    assert run("snapshot", "-o", str(folder / "link")).code == 0
    assert run("snapshot", "-o", "/dev/null", "--force").code == 0

    assert (folder / "link").is_symlink()
    assert (folder / "file").is_file()
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        pytest.param("", " is a folder; name a file", id="folder"),
        pytest.param("missing/file", " cannot be written: No such file or directory; name another file", id="missing"),
    ],
)
def test_file_that_cannot_be_written_is_refused(
    run: Run, cluster: FakeApi, folder: Path, output: str, words: str
) -> None:
    refused = run("snapshot", "-o", str(folder / output))

    assert (refused.code, refused.err) == (2, f"distrain: --output: {folder / output}{words}\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("path", "what"), [("nodes", "nodes"), ("pods", "pods of all namespaces")])
def test_missing_right_ends_with_3_and_leaves_the_old_file(
    run: Run, cluster: FakeApi, folder: Path, path: str, what: str
) -> None:
    (folder / "cluster.json").write_text("old")
    cluster.answers[f"/api/v1/{path}"] = 403

    refused = run("snapshot", "-o", str(folder / "cluster.json"), "--force")

    assert refused.code == 3
    assert refused.err.startswith(
        f"distrain: {what} cannot be read: /api/v1/{path} is refused with 403; ask for a role"
    )
    assert [each.read_text() for each in folder.iterdir()] == ["old"]
    assert run("snapshot").out == ""


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files that the program writes, so that writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_full_disk_leaves_no_file(run: Run, cluster: FakeApi, folder: Path, name: str) -> None:
    with _files_of_at_most(500):
        refused = run("snapshot", "-o", str(folder / name))

    assert refused.code == 2
    assert refused.err == f"distrain: --output: {folder / name} cannot be written: File too large; name another file\n"
    assert list(folder.iterdir()) == []


def test_full_folder_of_temporary_files_is_named(run: Run, cluster: FakeApi, folder: Path) -> None:
    with _files_of_at_most(500):
        refused = run("snapshot")

    assert (refused.code, refused.out) == (5, "")
    assert refused.err.startswith("distrain: TMPDIR: ")
    assert refused.err.endswith(
        " cannot be written: File too large; set TMPDIR to a folder with free space, or name a file with -o\n"
    )


def test_ctrl_c_leaves_no_file(run: Run, cluster: FakeApi, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("distrain.pods.pod_encoding.encoded", interrupt)

    stopped = run("snapshot", "-o", str(folder / "cluster.json"))

    assert (stopped.code, stopped.err) == (130, "distrain: interrupted; nothing was changed\n")
    assert list(folder.iterdir()) == []
