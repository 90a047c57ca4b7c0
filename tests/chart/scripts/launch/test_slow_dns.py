"""Test that the launcher distinguishes a silent name server from a deleted worker, with a real resolver."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.chart.rendering import REPOSITORY


def test_silent_name_server_is_no_missing_worker() -> None:
    program = [sys.executable, "-m", "tests.chart.scripts.launch.slow_dns"]

    done = subprocess.run(
        ["unshare", "--net", "--mount", *program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["the name server does not answer", "", "no address yet"]
