"""Test Helm's connection flags and the permissions that the plugin needs.

The tests start the program in the same way as users do.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from distrain import cli
from distrain.errors import StoppedError
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.plugin.fake_api import FakeApi, make_certificate, running, write_kubeconfig
from tests.plugin.objects import node, pytorch_job


@pytest.mark.parametrize("given", ["flags", "environment"])
def test_helm_and_we_are_the_same_user_to_the_same_server(
    helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        api.serve_mpi_jobs()
        api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": []}
        api.answers["/api/v1/namespaces/team/secrets"] = 403
        said = {
            "apiserver": api.url.replace("127.0.0.1", "localhost"),
            "token": "flag",
            "ca-file": str(tmp_path / "tls.pem"),
            "tls-server-name": "127.0.0.1",
            "as-user": "jane",
        }
        flags = [f"--kube-{name}={value}" for name, value in said.items()] + ["--kube-as-group=a", "--kube-as-group=b"]
        if given == "environment":
            flags = []
            for name, value in {**said, "as-groups": "a,b"}.items():
                variable = name.replace("tls-server-name", "tls_server_name").replace("-", "").upper()
                monkeypatch.setenv(f"HELM_KUBE{variable}", value)
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://127.0.0.1:9", token="own")))
        monkeypatch.setenv("HELM_BIN", str(helm))

        cli.run(["install", "run1", *flags])

    assert any("/secrets" in request for request in api.requests), "Helm asked nothing"
    assert {headers["User-Agent"].partition("/")[0] for headers in api.headers} >= {"distrain", "Helm"}
    assert set(api.authorizations) == {"Bearer flag"}
    assert {tuple(headers.get_all("Impersonate-Group", [])) for headers in api.headers} == {("a", "b")}
    assert {headers["Impersonate-User"] for headers in api.headers} == {"jane"}


def test_check_of_certificates_is_left_out_by_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        api.otherwise = 403
        api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": []}
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api.url)))
        check = ["check", "--manifest", str(_manifest(tmp_path))]

        assert cli.run(check) == 3
        assert cli.run([*check, "--kube-insecure-skip-tls-verify"]) == 0


def test_right_to_list_nodes_and_pods_is_enough_for_a_manifest(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api.otherwise = 403
    api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": []}
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))

    code = cli.run(["check", "--manifest", str(_manifest(tmp_path))])

    told = capsys.readouterr()
    assert (code, told.err) == (0, "")
    assert told.out.startswith("fits: ")
    assert "ResourceQuotas of namespace team (you may not read it)" in told.out


def test_right_to_list_nodes_and_pods_is_enough_for_values(
    helm: Path, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every user may read the cluster's version and its served APIs, through the roles system:public-info-viewer and
    # system:discovery.
    api.serve_mpi_jobs()
    api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": [], "/apis/monitoring.coreos.com": 404}
    api.otherwise = 403
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("HELM_BIN", str(helm))

    assert cli.run(["check", "run1", "--set", "workers.gpus=4"]) == 0
    assert "LimitRanges of namespace team (you may not read it)" in capsys.readouterr().out
    (tmp_path / "values.yaml").write_text("gpus: 8\n")
    assert cli.run(["derive", "-f", str(tmp_path / "values.yaml")]) == 0


@pytest.mark.parametrize("origin", ["flag", "environment", "kubeconfig"])
@pytest.mark.parametrize("namespace", ["team a", "a/../b?x", "jürgen", "a\nb", "-a", "a" * 64])
def test_name_that_no_namespace_has_is_refused_at_once(
    api: FakeApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    namespace: str,
    origin: str,
) -> None:
    path = api.kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    if origin == "environment":
        monkeypatch.setenv("HELM_NAMESPACE", namespace)
    if origin == "kubeconfig":
        path.write_text(path.read_text().replace("namespace: team", f"namespace: {json.dumps(namespace)}"))
    flags = [f"--namespace={namespace}"] if origin == "flag" else []

    assert cli.run(["check", "--manifest", str(_manifest(tmp_path)), *flags]) == 2

    told = capsys.readouterr().err
    named = "KUBECONFIG: contexts.context.namespace" if origin == "kubeconfig" else "--namespace"
    assert told.startswith(f"distrain: {named}: ")
    assert told.endswith(" is not a valid namespace name: use a-z, 0-9 and -, 63 characters at most\n")
    assert told.count("\n") == 1
    assert api.requests == []


@pytest.mark.parametrize("server", ["https://127.0.0.1:99999", "https://127.0.0.1:abc", "https://[::1", "127.0.0.1:0x"])
@pytest.mark.parametrize("given", ["kubeconfig", "flag"])
def test_server_that_is_no_address_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: str, given: str
) -> None:
    in_file, flags = (server, []) if given == "kubeconfig" else ("https://127.0.0.1:1", ["--kube-apiserver", server])
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, in_file)))

    assert cli.run(["check", "--manifest", str(_manifest(tmp_path)), *flags]) == 3

    assert capsys.readouterr().err == f'distrain: KUBECONFIG: server "{server}" is not a URL; write https://HOST:PORT\n'


def test_wait_for_a_request_ends_after_the_time_of_its_flag(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api.otherwise, api.delays["/api/v1/nodes"] = 403, 1.5
    api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": []}
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    check = ["check", "--manifest", str(_manifest(tmp_path))]

    assert cli.run([*check, "--request-timeout", "1s"]) == 3
    assert "timed out" in capsys.readouterr().err
    assert cli.run([*check, "--request-timeout", "0"]) == 0


def test_limit_of_a_request_that_is_no_duration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--request-timeout", "soon"]) == 2
    assert capsys.readouterr().err.startswith('distrain: --request-timeout: "soon" is no duration; give one ')


def test_unchecked_certificate_is_no_warning(tmp_path: Path) -> None:
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        api.otherwise = 403
        api.answers |= {"/api/v1/nodes": [node("a", gpu="8")], "/api/v1/pods": []}
        path = write_kubeconfig(tmp_path, api.url, cluster={"insecure-skip-tls-verify": True})
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin"), "KUBECONFIG": str(path)}
        command = [sys.executable, "-m", "distrain", "check", "--manifest", str(_manifest(tmp_path))]

        ended = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("given", ["flag", "environment"])
def test_token_with_a_line_break_is_refused_by_the_flags_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://127.0.0.1:1")))
    if given == "environment":
        monkeypatch.setenv("HELM_KUBETOKEN", "A\nB")
    flags = ["--kube-token", "A\nB"] if given == "flag" else []

    code = cli.run(["check", "--manifest", str(_manifest(tmp_path)), *flags])

    words = "contains a line break or another control character, so Helm and kubectl would not send it; remove it"
    said = f"distrain: --kube-token: the token of this flag, or of HELM_KUBETOKEN, {words}\n"
    assert (code, capsys.readouterr().err) == (2, said)


def test_ctrl_c_stops_at_once_while_a_server_is_silent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin"), "KUBECONFIG": str(path)}
        command = [sys.executable, "-m", "distrain", "check", "--manifest", str(_manifest(tmp_path))]
        # If a shell has started the tests in the background, their child processes may ignore SIGINT. So restore its
        # default.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
            connection, _ = silent.accept()
            connection.recv(1)
            # Another thread has sent the request, while the main thread still imports modules. Some functions of
            # Python's import system run as callbacks, and a Ctrl-C that arrives in a callback is lost. So send it only
            # after the imports.
            wait_until("the end of the imports", lambda: _has_slept(process.pid))
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate()
        connection.close()

    assert process.returncode == StoppedError.exit_code
    assert told.startswith("distrain: interrupted")
    # By default, the plugin waits 65 s for a silent server.
    assert time.monotonic() - started < 30


def _has_slept(pid: int) -> bool:
    """Tell whether the main thread of a process sleeps, and has not run for half a second."""

    def state() -> list[str]:
        lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        return [line for line in lines if line.startswith("State:") or "ctxt_switches" in line]

    before = state()
    time.sleep(0.5)
    return "sleeping" in before[0] and state() == before


def _manifest(folder: Path) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(pytorch_job(workers=2)))
    return path
