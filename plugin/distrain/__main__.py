"""`python -m distrain`, the same program as `helm distrain`."""

import os

try:
    from distrain.cli import main

    main()
except KeyboardInterrupt:
    # Pressed while Python was still loading modules; nothing has been done yet.
    os._exit(130)
