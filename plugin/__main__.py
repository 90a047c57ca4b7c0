"""Run `distrain` from this folder, whether it is installed as a package or not: `python plugin check ...`."""

import sys
from pathlib import Path

try:
    import distrain.__main__  # noqa: F401
except ModuleNotFoundError as error:
    # A Python of another version has taken the place of the one that the packages were installed for.
    setup = Path(__file__).resolve().parent / "bin" / "setup"
    print(f"distrain: {sys.executable} has no package {error.name}; run {setup}", file=sys.stderr)
    sys.exit(4)
