"""Test that `make distclean` removes everything that the project keeps in its cache."""

from __future__ import annotations

import re
import subprocess

from lab.cluster.distclean import FOLDERS
from lab.paths import REPOSITORY

# The two ways in which the code names a folder of the cache: in Python, and in the Makefile.
FOLDER = re.compile(r'CACHE_DIR / "([\w-]+)"|\$\(CACHE\)/([\w-]+)')


def test_distclean_removes_each_folder_of_the_cache_that_the_code_names() -> None:
    files = subprocess.run(
        ["git", "ls-files", "Makefile", "*.py", "*.sh"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    texts = [path.read_text() for name in files if (path := REPOSITORY / name).exists()]

    named = {folder for text in texts for pair in FOLDER.findall(text) for folder in pair if folder}

    assert set(FOLDERS) == named
