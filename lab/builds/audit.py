"""`make audit`: look up the known vulnerabilities of the pinned Python packages and of the lab's Go programs.

pip-audit asks PyPI, and govulncheck asks vuln.go.dev. Both services must be reachable: a mirror of PyPI or of the Go
module proxy does not have the lists of vulnerabilities. The exit code is 0 if no vulnerability is known, 1 if one was
found, and 2 if a tool failed. It is 3 if some data could not be fetched and no vulnerability was found in the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.builds import golang, tools
from lab.errors import LabError
from lab.paths import REPOSITORY

LOCK = REPOSITORY / "requirements-audit.txt"
FOUND, FAILED, NO_DATA = 1, 2, 3
# govulncheck exits with this code if it has found a vulnerability.
GO_FOUND = 3


@dataclass(frozen=True)
class Result:
    """The result of an audit: one line for each vulnerability, and the reason if data could not be fetched."""

    found: tuple[str, ...] = ()
    no_data: str = ""


def main() -> int:
    try:
        results = [python_packages(), go_programs()]
    except LabError as error:
        print(f"audit: {error}", file=sys.stderr)
        return FAILED
    for line in (line for result in results for line in result.found):
        print(line)
    missing = [result.no_data for result in results if result.no_data]
    if missing:
        print(f"audit: not looked up: {'; '.join(missing)}", file=sys.stderr)
    return FOUND if any(result.found for result in results) else NO_DATA if missing else 0


def python_packages() -> Result:
    """Look up the vulnerabilities of the packages in each lock file.

    Stop at the first lock file whose data could not be fetched.
    """
    found: list[str] = []
    for lock in locks():
        result = python_lock(lock)
        found += result.found
        if result.no_data:
            return Result(tuple(found), result.no_data)
    return Result(tuple(found))


def locks() -> list[Path]:
    """Return the lock files of all Python packages.

    The smallest file is first, because it shows soonest whether data can be fetched.
    """
    found = [*REPOSITORY.glob("requirements*.txt"), *(REPOSITORY / "plugin").glob("requirements*.txt")]
    found += (REPOSITORY / "trainer" / "requirements").glob("*.txt")
    return sorted(found, key=lambda path: path.stat().st_size)


def python_lock(lock: Path) -> Result:
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json"]
    done = _run(str(tools.programs(LOCK) / "pip-audit"), *options, "--requirement", str(lock))
    if not done.stdout:
        return Result(no_data=f"Python packages: {_last_line(done.stderr)}")
    packages = json.loads(done.stdout)["dependencies"]
    name = lock.relative_to(REPOSITORY)
    found = [
        f"{name}: {package['name']} {package['version']}: {each['id']}, fixed in: {', '.join(each['fix_versions'])}"
        for package in packages
        for each in package.get("vulns", ())
    ]
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    return Result(tuple(found), f"Python packages: {skipped[0]}" if skipped else "")


def go_programs() -> Result:
    found: list[str] = []
    for name in golang.PROGRAMS:
        done = _run(str(golang.binary("govulncheck")), "-mode=binary", str(golang.binary(name)))
        if done.returncode == GO_FOUND:
            ids = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("Vulnerability #")]
            found.append(f"{name}: {', '.join(ids)}")
        elif done.returncode != 0:
            return Result(tuple(found), f"Go programs: {_last_line(done.stderr)}")
    return Result(tuple(found))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "no reason was given"


if __name__ == "__main__":
    sys.exit(main())
