"""`python3 -m distrain` in the trainer's image: run the distrain command, which has its own Python packages."""

import os
import sys

if __name__ == "__main__":
    os.execv("/usr/local/bin/distrain", ["distrain", *sys.argv[1:]])
