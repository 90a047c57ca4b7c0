"""Run `distrain` from this folder, whether it is installed as a package or not: `python plugin ...` or bin/distrain.

The packages have to be those of requirements.txt where bin/setup has made the environment, which keeps a copy of it.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.realpath(__file__))
LIST = "requirements.txt"


def main() -> None:
    setup = os.path.join(FOLDER, "bin", "setup")
    if not is_current():
        fail(f"the plugin's Python environment is missing or outdated; run {setup}")
    sys.path.insert(0, FOLDER)
    try:
        import distrain.__main__  # noqa: F401
    except ModuleNotFoundError as error:
        # A Python of another version has taken the place of the one that the packages were installed for.
        fail(f"{sys.executable} has no package {error.name}; run {setup}")


def is_current() -> bool:
    installed = os.path.join(sys.prefix, LIST)
    if not os.path.exists(installed):
        return True
    with open(installed, "rb") as old, open(os.path.join(FOLDER, LIST), "rb") as new:
        return old.read() == new.read()


def fail(words: str) -> None:
    print(f"distrain: {words}", file=sys.stderr)
    sys.exit(4)


main()
