"""`python -m distrain`, the same program as `helm distrain`."""

from distrain.cli import main

main()
