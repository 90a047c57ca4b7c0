"""Test distrain-keygen as a real process, with a real ssh-keygen and an API on loopback."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.scripts import fake_kube
from tests.chart.scripts.fake_kube import Kube, Object, status

SECRET = "/api/v1/namespaces/team/secrets/run1-ssh"


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    with fake_kube.running(tmp_path) as kube:
        yield kube


class Secret:
    """A fake Secret. Like the API server, it answers 409 to a patch with a wrong resourceVersion."""

    def __init__(self, **data: str) -> None:
        self.version = 1
        self.data = data

    def __call__(self, method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        if path != SECRET:
            return 404, status(404, f"{path} not found")
        if method == "PATCH":
            assert body is not None
            if body["metadata"]["resourceVersion"] != str(self.version):
                return 409, status(409, "the object has been modified")
            self.data.update(body["data"])
            self.version += 1
        return 200, {"metadata": {"resourceVersion": str(self.version)}, "data": self.data or None}

    def decoded(self) -> dict[str, bytes]:
        return {name: base64.b64decode(value) for name, value in self.data.items()}


def test_empty_secret_gets_a_key_that_ssh_accepts(kube: Kube, tmp_path: Path) -> None:
    kube.answer = secret = Secret()

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "distrain-keygen: Secret run1-ssh has a new key\n"
    keys = secret.decoded()
    assert set(keys) == {"id_rsa", "id_rsa.pub", "authorized_keys"}
    assert keys["id_rsa"].startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    private = tmp_path / "id_rsa"
    private.touch(mode=0o600)
    private.write_bytes(keys["id_rsa"])
    public = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, check=True).stdout
    assert keys["id_rsa.pub"].split() == keys["authorized_keys"].split() == public.split()


def test_request_is_the_accounts(kube: Kube) -> None:
    kube.answer = Secret()

    kube.run("distrain-keygen", "--secret=run1-ssh")

    assert kube.requests == [f"GET {SECRET}", f"PATCH {SECRET}"]
    assert {headers["Authorization"] for headers in kube.headers} == {"Bearer a-token"}
    assert kube.headers[1]["Content-Type"] == "application/merge-patch+json"


def test_key_that_is_there_stays(kube: Kube) -> None:
    kube.answer = Secret(**{"id_rsa": "eA==", "id_rsa.pub": "eA==", "authorized_keys": "eA=="})

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.returncode == 0
    assert done.stdout == "distrain-keygen: Secret run1-ssh has a key; nothing to do\n"
    assert kube.requests == [f"GET {SECRET}"]


def test_half_a_key_is_left_alone(kube: Kube) -> None:
    kube.answer = Secret(id_rsa="eA==")

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.returncode == 1
    assert done.stderr == (
        "distrain: Secret run1-ssh has id_rsa, but not authorized_keys and id_rsa.pub; "
        "delete the Secret and run helm upgrade again\n"
    )


def test_of_two_at_a_time_the_second_takes_the_firsts_key(kube: Kube) -> None:
    secret = Secret()
    others = {"id_rsa": "b3RoZXI=", "id_rsa.pub": "b3RoZXI=", "authorized_keys": "b3RoZXI="}

    def overtaken_after_reading(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        if len(kube.requests) > 1:
            return secret(method, path, body)
        empty: Object = {"metadata": {"resourceVersion": "1"}}
        secret.data, secret.version = dict(others), 2
        return 200, empty

    kube.answer = overtaken_after_reading

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.stdout == "distrain-keygen: Secret run1-ssh has a key; nothing to do\n"
    assert [request.split()[0] for request in kube.requests] == ["GET", "PATCH", "GET"]
    assert secret.data == others


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass_is_tried_again(kube: Kube, code: int) -> None:
    secret = Secret()

    def at_first(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        return (code, "busy") if len(kube.requests) == 1 else secret(method, path, body)

    kube.answer = at_first

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.returncode == 0, done.stderr
    assert len(kube.requests) == 3


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(
            403,
            "rbac.create: the API server refuses this pod's ServiceAccount (secrets is forbidden); "
            "give it a Role with get and patch on the Secret run1-ssh",
            id="forbidden",
        ),
        pytest.param(
            404,
            "Secret run1-ssh does not exist (secrets is forbidden); the release makes it: run helm upgrade again",
            id="absent",
        ),
        pytest.param(400, "secrets is forbidden", id="other"),
    ],
)
def test_refusal_is_reported_at_once(kube: Kube, code: int, words: str) -> None:
    kube.answer = lambda *_: (code, status(code, "secrets is forbidden"))

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert (done.returncode, done.stderr) == (1, f"distrain: {words}\n")
    assert len(kube.requests) == 1


def test_image_without_ssh_keygen_is_reported(kube: Kube, tmp_path: Path) -> None:
    kube.answer = secret = Secret()

    done = kube.run("distrain-keygen", "--secret=run1-ssh", PATH=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("distrain: image.repository: the image has no ssh-keygen; use one with OpenSSH, or ")
    assert secret.data == {}


def test_ssh_keygen_that_refuses_the_pods_user_is_reported(kube: Kube, tmp_path: Path) -> None:
    kube.answer = Secret()
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\necho No user exists for uid 1000\nexit 255\n")
    program.chmod(0o755)

    done = kube.run("distrain-keygen", "--secret=run1-ssh", PATH=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr == (
        "distrain: image.repository: ssh-keygen in the image failed: No user exists for uid 1000; "
        "use an image that has Horovod, Open MPI and an SSH server\n"
    )


def test_another_servers_certificate_is_not_trusted(kube: Kube, tmp_path: Path) -> None:
    kube.answer = Secret()
    with fake_kube.running(tmp_path / "other") as other:
        (kube.account / "ca.crt").write_bytes((other.account / "ca.crt").read_bytes())

        done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr.lower()
    assert kube.requests == []


def test_pod_without_a_token_is_reported(kube: Kube) -> None:
    (kube.account / "ca.crt").unlink()

    done = kube.run("distrain-keygen", "--secret=run1-ssh")

    assert done.returncode == 1
    assert "the pod needs automountServiceAccountToken: true" in done.stderr
