"""Run `distrain` from this folder, whether it is installed as a package or not: `python plugin check ...`."""

import distrain.__main__  # noqa: F401
