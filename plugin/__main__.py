"""Run `distrain` from this folder, whether it is installed as a package or not: `python plugin check ...`."""

from distrain.cli import main

main()
