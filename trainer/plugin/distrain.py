"""Start the program `distrain` when `python3 -m distrain` is called.

The program has its own Python packages, apart from the trainer's packages.
"""

import os
import sys

if __name__ == "__main__":
    os.execv("/usr/local/bin/distrain", ["distrain", *sys.argv[1:]])
