"""Test that SIGTERM ends process 1 of a pod at once, even while process 1 is still starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests.chart.scripts import pods
from tests.chart.scripts.pods import SCRIPTS

# The first import of each script is argparse. This module replaces argparse. Its import lasts until the test has sent
# SIGTERM.
SLOW_IMPORT = """
import importlib, pathlib, sys, time
folder = pathlib.Path(__file__).parent
(folder / "is-importing").touch()
while not (folder / "is-told").exists():
    time.sleep(0.01)
sys.path.remove(str(folder))
del sys.modules["argparse"]
sys.modules["argparse"] = importlib.import_module("argparse")
"""
# The commands run in a folder with an SSH key. The hostfile lists a worker whose name never gets an address, so the
# launcher waits.
COMMANDS = {
    "distrain-keygen": ["--secret=key", "--account=/none"],
    "distrain-launch": ["--ssh-folder=.", "--hostfile=hosts", "mpirun", "-np", "1", "--", "sleep", "60"],
    "distrain-run": ["--", "sleep", "60"],
    "distrain-test": ["--job=job", "--instance=run1", "--workers=1", "--timeout=60", "--account=/none"],
    "distrain-torchrun": ["--", "sleep", "60"],
    "distrain-worker": ["--no-sshd"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_process_1_ends_on_a_sigterm_from_before_its_handler(name: str, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text(SLOW_IMPORT)
    for file in ("id_rsa", "id_rsa.pub"):
        (tmp_path / file).touch()
    (tmp_path / "hosts").write_text("nowhere.invalid slots=1\n")
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, str(SCRIPTS / name), *COMMANDS[name]]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}

    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until("the import", (tmp_path / "is-importing").exists, pause=0.01)
            [first] = pods.children(process.pid)
            os.kill(first, signal.SIGTERM)
            (tmp_path / "is-told").touch()
            _, told = process.communicate(timeout=300)
        finally:
            process.kill()

    assert process.returncode == 128 + signal.SIGTERM, told


# This program stands for a process 1 that starts slowly. The program also runs the preStop hook, which kubelet would
# run in the same pod.
SLOW_START = """
import signal, subprocess, sys, time
hook = subprocess.Popen([sys.executable, sys.argv[1]])
time.sleep(1)
print(hook.poll(), flush=True)
signal.signal(signal.SIGTERM, lambda *_: None)
print(hook.wait(timeout=60))
"""


def test_hook_ends_when_process_1_has_a_handler() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", SLOW_START]

    done = subprocess.run([*command, SCRIPTS / "distrain_sigterm.py"], stdout=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "None\n0\n")
