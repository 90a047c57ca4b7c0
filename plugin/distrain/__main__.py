"""`python -m distrain`, the same program as `helm distrain`."""

import os

try:
    from distrain.cli import main

    main()
except KeyboardInterrupt:
    # The user pressed Ctrl-C while Python was still loading modules; the command has done nothing yet.
    os._exit(130)
