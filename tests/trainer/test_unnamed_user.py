"""Test the images as OpenShift runs pods: with the group 0, and with a user id that is not in /etc/passwd."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.builds import images
from lab.builds.containers import run_in_image
from lab.waiting import free_port
from schemas import trainer

SCRIPTS = trainer.TARGET.parent
UNKNOWN = 1000660000
# This script runs a launcher and a worker in one container. ssh-keygen, sshd, ssh and mpirun each look up the user in
# /etc/passwd.
SCRIPT = r"""
set -eu
mkdir /tmp/ssh
ssh-keygen -q -t ecdsa -N '' -f /tmp/ssh/id_rsa
cp /tmp/ssh/id_rsa.pub /tmp/ssh/authorized_keys
bin=/opt/distrain/bin
$bin/distrain-worker --ssh-port="$PORT" --ssh-folder=/tmp/ssh &
worker=$!
echo 'localhost slots=2' >/tmp/hostfile
$bin/distrain-launch --ssh-port="$PORT" --ssh-folder=/tmp/ssh --hostfile=/tmp/hostfile --workers-timeout=60 \
    --termination-log=/dev/null mpirun --oversubscribe --bind-to none -- \
    python3 -c 'import getpass, os; print("rank of", getpass.getuser(), os.environ["HOME"])'
key=$(cat /tmp/ssh/id_rsa.pub)
echo "distrain $key" >/tmp/known_hosts
ssh -F none -p "$PORT" -i /tmp/ssh/id_rsa -o UserKnownHostsFile=/tmp/known_hosts -o HostKeyAlias=distrain localhost \
    'echo "session of $(id -un)"'
kill "$worker"
"""


def run(script: str, mounts: dict[Path, str], **env: str) -> subprocess.CompletedProcess[str]:
    return run_in_image(
        images.trainer_environment("tensorflow"),
        ["sh", "-c", script],
        env=env,
        mounts={SCRIPTS: "/opt/distrain/bin", **mounts},
        user=f"{UNKNOWN}:0",
        timeout=240,
    )


@pytest.fixture
def passwd(tmp_path: Path) -> Path:
    """The /etc/passwd that the init container distrain-user has written."""
    folder = tmp_path / "user"
    folder.mkdir()
    folder.chmod(0o777)
    done = run("/opt/distrain/bin/distrain-user /run/distrain/passwd", {folder: "/run/distrain"})
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "passwd"


def test_ssh_and_mpirun_work_for_a_user_of_the_cluster(passwd: Path) -> None:
    done = run(SCRIPT, {passwd: "/etc/passwd"}, PORT=str(free_port()), HOME="/tmp")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"rank of user{UNKNOWN} /tmp\n") == 2
    assert f"session of user{UNKNOWN}\n" in done.stdout


def test_program_without_ssh_has_a_name_and_a_home() -> None:
    program = "python3 -c 'import getpass, os; print(getpass.getuser(), os.environ[\"HOME\"])'"

    done = run(f"/opt/distrain/bin/distrain-run --termination-log=/dev/null -- {program}", {}, HOME="/")

    assert (done.returncode, done.stdout) == (0, f"user{UNKNOWN} /tmp\n"), done.stderr
