"""Test which evidence a failed test run saves and prints, without a cluster."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest

from lab.builds import golang
from lab.cluster import client, host, lifecycle, namespaces
from lab.errors import LabError
from lab.paths import REPOSITORY
from tests.cluster.collector import collect

pytest_plugins = ("pytester",)

PODS = """{"items": [
    {"metadata": {"name": "launcher"}, "status": {"containerStatuses": [{"name": "main", "restartCount": 1}]}},
    {"metadata": {"name": "worker"}, "status": {
        "initContainerStatuses": [{"name": "keys", "restartCount": 0}],
        "containerStatuses": [{"name": "main", "restartCount": 0}]}},
    {"metadata": {"name": "pending"}, "status": {}}]}"""
KUBECTL = f"""#!/bin/sh
shift
echo "$*" >>"$0.called"
case "$*" in
  *api-resources*) printf 'pods\\nsecrets\\nevents\\nmpijobs.kubeflow.org\\n' ;;
  *"get pods --output=json"*) cat <<'END'
{PODS}
END
  ;;
  *"logs worker --container=main"*) echo 'container not found' >&2; exit 1 ;;
  *) echo "answer to $*" ;;
esac
"""
FAILING = """
def test_run(module_namespace):
    assert module_namespace.name == "another"
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace kubectl by a script that prints its arguments, and appends them to the file `kubectl.called`."""
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL)
    path.chmod(0o755)
    monkeypatch.setattr(client, "binary", lambda _: path)
    return path


def test_collector_writes_events_objects_and_each_containers_logs(kubectl: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    folder.mkdir()

    collect("ns1", folder)

    asked = "answer to --namespace ns1 --request-timeout=20s"
    log = f"{asked} logs launcher --container=main --timestamps"
    found = {path.name: path.read_text() for path in folder.iterdir()}
    failed = found.pop("worker.main.log")
    assert found == {
        "events.txt": f"{asked} get events --sort-by=.lastTimestamp --output=wide\n",
        "objects.yaml": f"{asked} get pods,mpijobs.kubeflow.org --output=yaml\n",
        "launcher.main.log": f"{log}\n",
        "launcher.main.previous.log": f"{log} --previous\n",
        "worker.keys.log": f"{asked} logs worker --container=keys --timestamps\n",
    }
    assert failed.endswith("container not found\n")


def test_collector_asks_once_without_an_api_server(kubectl: Path, tmp_path: Path) -> None:
    kubectl.write_text('#!/bin/sh\necho >>"$0.called"; echo "connection refused" >&2; exit 1\n')
    folder = tmp_path / "evidence"
    folder.mkdir()

    collect("ns1", folder)

    assert (kubectl.parent / "kubectl.called").read_text() == "\n"
    assert (folder / "events.txt").read_text().endswith("connection refused\n")


def test_last_line_of_a_failed_run_names_the_folder_with_the_evidence(
    kubectl: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.evidence.CACHE_DIR", pytester.path / "cache")
    monkeypatch.setattr(lifecycle, "prepare_namespace", lambda *_: None)
    monkeypatch.setattr(lifecycle, "put_s3_secret", lambda *_: None)
    pytester.makeconftest(
        "import pytest\n"
        "from tests.cluster.conftest import module_namespace, pytest_runtest_makereport\n"
        "pytest_plugins = ('tests.evidence',)\n"
        "kube_cluster = pytest.fixture(scope='module')(lambda: None)\n"
    )
    pytester.makepyfile(test_runs=FAILING)

    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    said = re.fullmatch(r"what the failed tests left is in (\S+)", ended.outlines[-1])
    assert said, ended.outlines
    (folder,) = Path(said[1]).iterdir()
    assert folder.name == "test_runs.py-test_run"
    assert "assert 'test-" in (folder / "failure.txt").read_text()
    namespace = f"test-{os.getpid()}-"
    assert f"--namespace {namespace}" in (folder / "events.txt").read_text()
    # The last call is the deletion, so the evidence was collected before the namespace was deleted.
    assert "delete namespace" in (kubectl.parent / "kubectl.called").read_text().splitlines()[-1]


def test_failed_start_of_the_lab_is_the_cause_that_every_process_shows(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = pytester.path / "cache"
    logs = cache / "logs" / "failed-start"
    logs.mkdir(parents=True)
    (logs / "etcd.log").write_text("no space left")
    monkeypatch.setenv("DISTRAIN_CACHE", str(cache))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.delenv("FULL", raising=False)
    pytester.makeini("[pytest]\nmarkers = full\n")
    pytester.makeconftest(
        "import fcntl\n"
        "import os\n"
        "import pytest\n"
        "from lab.errors import LabError\n"
        "from tests import evidence\n"
        "pytest_plugins = ('tests.evidence', 'tests.not_tried')\n"
        "@pytest.fixture(scope='session')\n"
        "def lab(pytestconfig):\n"
        "    folder = evidence.folder_of_run(pytestconfig)\n"
        "    with open(os.environ['DISTRAIN_CACHE'] + '/lock', 'w') as lock:\n"
        "        fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "        with evidence.one_start_of_the_lab(folder):\n"
        "            raise LabError(f'etcd ended, says process {os.getpid()}')\n"
    )
    module = (
        "import pytest\n"
        "def test_run(lab): pass\n"
        "@pytest.mark.full\ndef test_more(lab): pass\n"
        "@pytest.mark.skipif(True, reason='needs a moon')\ndef test_moon(): pass\n"
    )
    pytester.makepyfile(test_one=module, test_two=module)

    ended = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-n2", "--dist=loadfile", "-rE", "-p", "no:helm-charts"
    )

    errors = [line.partition(" - ")[2] for line in ended.outlines if line.startswith("ERROR ")]
    assert len(errors) == 2
    assert len(set(errors)) == 1, errors
    assert errors[0].startswith("lab.errors.LabError: etcd ended, says process ")
    folder = Path(ended.outlines[-1].removeprefix("what the failed tests left is in "))
    assert (folder / "lab-logs" / "etcd.log").read_text() == "no space left"
    start = next(number for number, line in enumerate(ended.outlines) if "not tried on this machine" in line)
    assert ended.outlines[start + 1 : start + 4] == [
        "2 tests: the rest of the matrices: `make bench-full` tries it",
        "2 tests: needs a moon",
        "GPUs: no test needs one, and every training ran on the CPU",
    ]


def test_failed_start_that_cannot_be_undone_is_reported_with_its_first_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(words: str) -> None:
        raise LabError(words)

    monkeypatch.setattr(lifecycle, "FAILED_LOG_DIR", tmp_path / "failed-start")
    monkeypatch.setattr(lifecycle, "LOG_DIR", tmp_path / "logs")
    monkeypatch.setattr(lifecycle, "is_ready", lambda: False)
    monkeypatch.setattr(host, "check_root", lambda: None)
    monkeypatch.setattr(
        host,
        "check",
        lambda: monkeypatch.setattr(namespaces, "destroy", lambda: fail("distrain0 is still there")),
    )
    monkeypatch.setattr(namespaces, "destroy", lambda: None)
    monkeypatch.setattr(golang, "build", lambda names: None)
    monkeypatch.setattr(lifecycle, "lock", contextlib.nullcontext)
    monkeypatch.setattr(lifecycle, "_start", lambda _: fail("etcd ended"))

    with pytest.raises(LabError, match=r"^etcd ended$"):
        lifecycle.up()

    assert "could not be undone: distrain0 is still there" in capsys.readouterr().out
