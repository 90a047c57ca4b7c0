"""Run `distrain` from this folder, installed as a package or not: `python plugin ...` or bin/distrain.

In the environment that bin/setup makes, check first that the installed packages match requirements.txt. bin/setup
leaves a copy of the requirements.txt that it installed from.
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
        # The environment's Python was replaced by another version, for which no packages are installed.
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
