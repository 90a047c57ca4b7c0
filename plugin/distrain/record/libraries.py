"""Tell whether the libraries for reports and S3 are installed.

They belong to the package's extra `report`, because they are four times as large as all other libraries together.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from distrain.errors import HelmError

# This file exists in the plugin's folder (Helm knows where it is), but not in a folder of Python packages that was
# installed from a wheel.
SETUP = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "bin", "setup")
PLOTS = ("matplotlib", "jinja2")
S3 = ("boto3",)


class LibraryError(HelmError):
    """A library of the extra `report` is not installed."""


def require(names: Sequence[str], what: str) -> None:
    """Raise LibraryError if a library is missing. `what` names the feature that needs the libraries."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    setup = os.path.realpath(SETUP)
    step = f"{setup} report" if os.path.exists(setup) else "pip install 'distrain[report]'"
    install = f"to install {'it' if len(missing) == 1 else 'them'}, run `{step}`"
    raise LibraryError(f"{what}: needs {', '.join(missing)}, which the plugin does not install by default; {install}")
