"""Test how `make audit` interprets the output of pip-audit and govulncheck."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.builds import audit, golang, tools
from lab.paths import REPOSITORY

SAFE = {"name": "idna", "version": "3.20", "vulns": []}
BROKEN = {"name": "idna", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.7"]}]}
UNKNOWN = {"name": "idna", "skip_reason": "Dependency not found on PyPI"}
GO_SAFE = (0, "No vulnerabilities found.\n", "")
GO_BROKEN = (3, "Vulnerability #1: GO-2026-1\n    More info: ...\n\nVulnerability #2: GO-2026-2\n", "")
GO_UNKNOWN = (1, "", "govulncheck: fetching vulnerabilities: no such host\n")


@pytest.mark.parametrize(
    ("package", "program", "code", "words"),
    [
        pytest.param(SAFE, GO_SAFE, 0, "", id="none-known"),
        pytest.param(BROKEN, GO_SAFE, 1, "lock.txt: idna 2.0: PYSEC-1, fixed in: 3.7\n", id="python-package"),
        pytest.param(SAFE, GO_BROKEN, 1, "etcd: GO-2026-1, GO-2026-2\n", id="go-program"),
        pytest.param(
            UNKNOWN,
            GO_UNKNOWN,
            3,
            "audit: not looked up: Python packages: Dependency not found on PyPI; "
            "Go programs: govulncheck: fetching vulnerabilities: no such host\n",
            id="no-data",
        ),
        pytest.param(
            BROKEN,
            GO_UNKNOWN,
            1,
            "lock.txt: idna 2.0: PYSEC-1, fixed in: 3.7\n"
            "audit: not looked up: Go programs: govulncheck: fetching vulnerabilities: no such host\n",
            id="some-data",
        ),
    ],
)
def test_audit_tells_what_is_known_from_what_could_not_be_looked_up(
    package: dict[str, object],
    program: tuple[int, str, str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(command: str, *_: str) -> subprocess.CompletedProcess[str]:
        answer = (0, json.dumps({"dependencies": [package]}), "") if command.endswith("pip-audit") else program
        return subprocess.CompletedProcess([command], *answer)

    monkeypatch.setattr(audit, "_run", run)
    monkeypatch.setattr(audit, "locks", lambda: [REPOSITORY / "lock.txt"])
    monkeypatch.setattr(tools, "programs", lambda _: tmp_path)
    monkeypatch.setattr(golang, "binary", lambda name: tmp_path / name)
    monkeypatch.setattr(golang, "PROGRAMS", ["etcd"])

    assert audit.main() == code
    printed = capsys.readouterr()
    assert printed.out + printed.err == words


def test_all_locks_are_looked_up() -> None:
    listing = subprocess.run(["git", "ls-files", "*.txt"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    hashed = {path for name in listing.stdout.split() if "--hash=" in (path := REPOSITORY / name).read_text()}

    assert set(audit.locks()) == hashed
