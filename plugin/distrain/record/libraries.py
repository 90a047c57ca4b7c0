"""Tell whether the libraries for reports and S3 are installed: an extra, four times as large as all other libraries."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from distrain.errors import HelmError

# The plugin's folder, which Helm names, or a wheel's folder of packages, which has no bin/setup.
SETUP = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "bin", "setup")
PLOTS = ("matplotlib", "jinja2")
S3 = ("boto3",)


class LibraryError(HelmError):
    """A library of the extra `report` is not installed."""


def require(names: Sequence[str], what: str) -> None:
    """Raise LibraryError if a library is missing; `what` needs the libraries."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    setup = os.path.realpath(SETUP)
    step = f"{setup} report" if os.path.exists(setup) else "pip install 'distrain[report]'"
    raise LibraryError(
        f"{what}: needs {', '.join(missing)}, which the plugin does not install by default; run `{step}`"
    )
