"""Test that several threads can build decoders of the same structs at once without crashing the interpreter."""

from __future__ import annotations

import subprocess
import sys

from lab.paths import REPOSITORY

# All threads need the struct kube.Metadata at once. msgspec examines a struct when it is first used.
PROGRAM = """
import sys, threading
from distrain import kube
from distrain.kube.decoders import convert, decoder
sys.setswitchinterval(1e-6)
start = threading.Barrier(6)
def build(form, use):
    start.wait()
    use(form)
def decode(form): decoder(list[form]).decode(b'[{"metadata": {"name": "a", "labels": {"a": "b"}}}]')
def from_yaml(form): convert({"metadata": {"name": "a"}}, form)
forms = [(kube.Pod, decode), (kube.Workload, decode), (kube.Node, decode), (kube.Event, decode)]
forms += [(kube.Workload, from_yaml), (kube.Pod, from_yaml)]
threads = [threading.Thread(target=build, args=each) for each in forms]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""
RUNS = 20


def test_threads_build_decoders_of_the_same_structs() -> None:
    command = [sys.executable, "-c", PROGRAM]
    for _ in range(RUNS):
        done = subprocess.run(command, env={"PYTHONPATH": str(REPOSITORY / "plugin")}, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
