"""`python3 -m distrain` in the trainer's image: leaves the trainer's packages for distrain's own."""

import os
import sys

if __name__ == "__main__":
    os.execv("/usr/local/bin/distrain", ["distrain", *sys.argv[1:]])
