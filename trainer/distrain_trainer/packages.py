"""Check that the image contains a Python package that not every run needs."""

from __future__ import annotations

import importlib.util

from distrain_trainer.errors import ArgumentError

# Maps a Python package to the module that is imported to check for it.
MODULES = {
    "boto3": "boto3",
    "pillow": "PIL",
    "prometheus-client": "prometheus_client",
    "tensorboardx": "tensorboardX",
}


def require(package: str, value: str) -> None:
    """Raise ArgumentError if the image lacks `package`. `value` is the path of the chart value that needs it."""
    if importlib.util.find_spec(MODULES[package]) is None:
        raise ArgumentError(
            f"{value}: needs the Python package {package}, which this image does not hold; set "
            f"trainer.install=[{package}] with trainer.delivery: chart, or image.repository to an image that holds it"
        )
