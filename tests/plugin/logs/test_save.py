"""Test `logs --save`: which files a bug report gets, and what it must not contain."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from distrain.without_secrets import cleaned
from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import BORN, BY_ARGO, LABELS, MPI, NAMESPACE, PLAIN, live, pod, serve

PASSWORD = "hunter2hunter2"


def _event(reason: str, **about: Any) -> Object:
    return {"metadata": {"name": reason}, "reason": reason, "lastTimestamp": BORN, "involvedObject": about}


@pytest.fixture
def up(api: FakeApi, kubelet: Kubelet) -> Kubelet:
    """Serve a run with secrets in all fields in which users may put them."""
    launcher = pod("launcher")
    launcher["status"]["containerStatuses"][0]["restartCount"] = 1
    launcher["spec"]["containers"][0] |= {
        "env": [{"name": "DB_PASSWORD", "value": PASSWORD}, {"name": "PLAIN", "value": "visible-value"}],
        "args": [f"--token={PASSWORD}", "--api-key", PASSWORD, f"https://me:{PASSWORD}@host/x", "--steps=5"],
    }
    launcher["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": PASSWORD}
    serve(api, MPI, pods=[launcher, pod("worker", 0)])
    api.answers |= {
        f"{NAMESPACE}/events": [
            _event("mine", uid="uid-run1-launcher"),
            _event("gone", name="run1-1234abcd-worker-7"),
            _event("other", uid="x", name="run2-worker-0"),
        ],
        f"{NAMESPACE}/configmaps": [{"metadata": {"name": "run1-scripts", "labels": LABELS}, "data": {"a": PASSWORD}}],
        "/apis/scheduling.volcano.sh/v1beta1": {"resources": [{"name": "podgroups", "kind": "PodGroup"}]},
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/run1-1234abcd": {"spec": {"minMember": 3}},
    }
    kubelet.start("run1-launcher")
    kubelet.write("run1-launcher", "first try")
    kubelet.restart("run1-launcher")
    kubelet.write("run1-launcher", f"connects with {PASSWORD}", "Authorization: Bearer abcdefghijklmnopqrst", b"\xff")
    kubelet.start("run1-worker-0")
    return kubelet


def _items(folder: Path, name: str) -> list[Any]:
    found: list[Any] = json.loads((folder / name).read_text())["items"]
    return found


def test_folder_has_logs_events_and_objects_without_secrets(up: Kubelet, logs: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"

    shown = logs("run1", "--save", str(folder))

    assert (shown.code, shown.out) == (0, "")
    assert shown.err == (
        f"distrain: wrote {folder}: 1 MPIJob, 2 Pods, PodGroup run1-1234abcd, the names of 1 ConfigMap, 2 events "
        "and 3 logs\n"
    )
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "configmaps.txt",
        "events.json",
        "mpijobs.json",
        "podgroups.json",
        "pods.json",
        "run1-launcher.launcher.log",
        "run1-launcher.launcher.previous.log",
        "run1-worker-0.worker.log",
    ]
    assert [event["reason"] for event in _items(folder, "events.json")] == ["mine", "gone"]
    assert (folder / "configmaps.txt").read_text() == "run1-scripts\n"
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for secret in (PASSWORD, "visible-value", "abcdefghijklmnopqrst"):
        assert secret.encode() not in everything


@pytest.mark.parametrize("objects", [[MPI], PLAIN], ids=["mpi", "plain"])
def test_events_of_a_run_whose_name_begins_with_the_same_words_are_left_out(
    api: FakeApi, up: Kubelet, logs: Run, tmp_path: Path, objects: list[Object]
) -> None:
    own = ("launcher-x7k2p", "worker-7", "worker-7-x7k2p", "preflight-1a2b3c4d", "test-1a2b3c4d-worker-0")
    others = ("2-worker-0", "2-launcher-x7k2p", "plain-worker-0", "x7k2p", "7", "worker-2-worker-0", "keygens")
    serve(api, *objects, pods=[pod("launcher")])
    about = [f"run1-1234abcd-{end}" for end in (*own, *others)]
    api.answers[f"{NAMESPACE}/events"] = [_event(name, uid="x", name=name) for name in about]

    logs("run1", "--save", str(tmp_path / "report"))

    assert [event["reason"] for event in _items(tmp_path / "report", "events.json")] == about[: len(own)]
    assert [group["spec"] for group in _items(tmp_path / "report", "podgroups.json")] == [{"minMember": 3}]


def test_objects_of_the_run_are_saved_although_argo_cd_has_changed_their_label(
    api: FakeApi, up: Kubelet, logs: Run, tmp_path: Path
) -> None:
    by_release = {release: {**BY_ARGO, "distrain/instance": release} for release in ("run1", "run2")}
    jobs = [live(MPI, release=release, labels=labels) for release, labels in by_release.items()]
    api.answers |= {
        "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs": jobs,
        f"{NAMESPACE}/configmaps": [
            {"metadata": {"name": f"{release}-scripts", "labels": labels}} for release, labels in by_release.items()
        ],
    }

    assert logs("run1", "--save", str(tmp_path / "report")).code == 0
    assert [item["metadata"]["labels"] for item in _items(tmp_path / "report", "mpijobs.json")] == [by_release["run1"]]
    assert (tmp_path / "report" / "configmaps.txt").read_text() == "run1-scripts\n"


def test_pods_of_hooks_are_saved_by_the_label_that_argo_cd_does_not_change(
    api: FakeApi, up: Kubelet, logs: Run, tmp_path: Path
) -> None:
    hooks = [_preflight("run1-1234abcd", "run1", by_argo="run2"), _preflight("run2-1234abcd", "run2", by_argo="run1")]
    serve(api, live(MPI, labels={**LABELS, "distrain/instance": "run1"}), pods=[pod("launcher"), *hooks])
    about = [hook["metadata"] for hook in hooks]
    api.answers[f"{NAMESPACE}/events"] = [_event(each["name"], uid=each["uid"], name=each["name"]) for each in about]

    logs("run1", "--save", str(tmp_path / "report"))

    pods = [item["metadata"]["name"] for item in _items(tmp_path / "report", "pods.json")]
    assert pods == ["run1-launcher", about[0]["name"]]
    assert [event["reason"] for event in _items(tmp_path / "report", "events.json")] == [about[0]["name"]]


def test_log_is_saved_with_times_and_odd_bytes(up: Kubelet, logs: Run, tmp_path: Path) -> None:
    logs("run1", "--save", str(tmp_path / "report"))

    lines = (tmp_path / "report" / "logs" / "run1-launcher.launcher.log").read_bytes().splitlines()
    assert lines == [
        b"2026-01-01T00:00:00.500000000Z connects with [hidden]",
        b"2026-01-01T00:00:00.750000000Z Authorization: Bearer [hidden]",
        b"2026-01-01T00:00:01.000000000Z \xff",
    ]


def test_command_keeps_what_is_no_secret() -> None:
    words = ["sh", "-c", f"export TOKEN={PASSWORD}\ntrain", "--steps=5", "--password", PASSWORD, "--batch", "8"]
    source = {"secretKeyRef": {"name": "s", "key": "k"}}

    found = cleaned({"command": words, "env": [{"name": "A", "valueFrom": source}]})

    assert found["command"] == [
        "sh",
        "-c",
        "export TOKEN=[hidden]\ntrain",
        "--steps=5",
        "--password",
        "[hidden]",
        "--batch",
        "8",
    ]
    assert found["env"][0]["valueFrom"] == source


SECRET = "planted-secret"
CONTAINER: dict[str, Object] = {
    "flag-in-a-script": {"command": ["sh", "-c", f"train --token {SECRET}; go --password '{SECRET} x' --steps 5"]},
    "flag-and-value-in-one-argument": {"args": [f"--wandb_token {SECRET}"]},
    "life-cycle": {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", f"login --password {SECRET}"]}}}},
    "header": {"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X-Auth", "value": f"Basic {SECRET}"}]}}},
    "query-of-a-probe": {"livenessProbe": {"httpGet": {"path": f"/?t={SECRET}"}}},
}
VOLUME: dict[str, Object] = {
    "attribute": {"csi": {"volumeAttributes": {"password": SECRET, "key": SECRET}}},
    "mount-options": {"csi": {"volumeAttributes": {"mountOptions": f"username=a,password={SECRET}"}}},
    "option": {"flexVolume": {"options": {"accountKey": SECRET}}},
}
OTHER: dict[str, Object] = {
    "annotation": {"metadata": {"annotations": {"note": f"--set s3.secretKey={SECRET}", "my-token": SECRET}}},
    "termination": {"status": {"lastState": {"terminated": {"message": f"with --token {SECRET} and token={SECRET}9"}}}},
    "event": {"message": f"Failed: exec sh -c 'x --password {SECRET}' token: {SECRET}"},
    "header-in-a-message": {"message": f"got Authorization: Basic {SECRET}"},
    "field": {"spec": {"apiToken": SECRET}},
    "url": {"note": f"https://u:{SECRET}@h/x?t={SECRET}"},
}
PLACES = {
    **{name: {"spec": {"containers": [each]}} for name, each in CONTAINER.items()},
    **{name: {"spec": {"volumes": [each]}} for name, each in VOLUME.items()},
    **OTHER,
}


@pytest.mark.parametrize("place", [pytest.param(each, id=name) for name, each in PLACES.items()])
def test_no_place_of_an_object_keeps_a_secret(place: Object) -> None:
    assert SECRET not in json.dumps(cleaned(place))


def test_names_and_messages_without_secrets_are_kept() -> None:
    spec = {
        "volumes": [{"name": "key", "secret": {"secretName": "run1-key", "items": [{"key": "id_rsa", "path": "a"}]}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "imagePullSecrets": [{"name": "login"}],
        "containers": [{"image": "registry/tokenizer:1.2", "args": ["--steps", "5"], "livenessProbe": {"httpGet": {}}}],
    }
    message = 'secret "run1-key" not found; Back-off pulling image "r:1"'

    assert cleaned({"spec": spec, "message": message}) == {"spec": spec, "message": message}


@pytest.mark.parametrize("is_file", [True, False])
def test_folder_that_has_files_is_refused(up: Kubelet, logs: Run, tmp_path: Path, is_file: bool) -> None:
    folder = tmp_path / "report"
    if not is_file:
        folder.mkdir()
    kept = folder if is_file else folder / "kept"
    kept.write_text("mine")

    shown = logs("run1", "--save", str(folder))

    assert shown.code == 2
    assert f"--save: {folder} {'is a file' if is_file else 'has files'}; name a new or an empty folder" in shown.err
    assert kept.read_text() == "mine"


def test_empty_folder_is_used(up: Kubelet, logs: Run, tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()

    assert logs("run1", "--save", str(tmp_path / "report")).code == 0


def test_full_disk_is_one_line(up: Kubelet, logs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file = Path.open

    def full(path: Path, *settings: Any, **more: Any) -> Any:
        if "report" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, *settings, **more)

    monkeypatch.setattr(Path, "open", full)

    shown = logs("run1", "--save", str(tmp_path / "report"))

    assert shown.code == 5
    assert len(shown.err.splitlines()) == 1
    assert "mpijobs.json cannot be written: No space left on device" in shown.err
    assert shown.err.endswith("; free disk space, or name another folder\n")


def test_folder_that_cannot_be_made_is_told_without_a_word_of_room(up: Kubelet, logs: Run) -> None:
    shown = logs("run1", "--save", "/proc/distrain/report")

    assert shown.code == 5
    assert shown.err == (
        "distrain: --save: the folder /proc/distrain/report cannot be created: No such file or directory; "
        "name a folder that you may write to\n"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(f"{NAMESPACE}/events", "events of namespace team cannot be read", id="events"),
        pytest.param(f"{NAMESPACE}/configmaps", "configmaps of namespace team cannot be read", id="configmaps"),
    ],
)
def test_what_may_not_be_read_is_said_and_the_rest_is_saved(
    api: FakeApi, up: Kubelet, logs: Run, tmp_path: Path, path: str, words: str
) -> None:
    api.answers[path] = 403

    shown = logs("run1", "--save", str(tmp_path / "report"))

    first, last = shown.err.splitlines()
    assert shown.code == 0
    assert words in first
    assert last.endswith("3 logs")
    assert words in (tmp_path / "report" / "not-read.txt").read_text()


def test_logs_that_may_not_be_read_leave_the_objects(api: FakeApi, up: Kubelet, logs: Run, tmp_path: Path) -> None:
    api.stream = lambda path, query: 403 if path.endswith("/log") else None

    shown = logs("run1", "--save", str(tmp_path / "report"))

    first, last = shown.err.splitlines()
    assert shown.code == 0
    assert "the log of run1-launcher cannot be read" in first
    assert first.endswith("(and 2 more)")
    assert "2 Pods" in last


def _preflight(job: str, release: str, *, by_argo: str) -> Object:
    found, name = pod("preflight", release=release), f"{job}-preflight-1a2b3c4d"
    found["metadata"] |= {"name": name, "uid": name}
    found["metadata"]["labels"] |= {"app.kubernetes.io/instance": by_argo, "distrain/instance": release}
    return found
