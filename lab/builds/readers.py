"""Install the libraries that the trainer's data reader is compared with, in an environment for each framework."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.builds import tools
from lab.paths import REPOSITORY

WITHOUT_CUDA = REPOSITORY / "trainer" / "pytorch_without_cuda.py"


def pytorch() -> Path:
    """Return the folder of the programs of an environment with MosaicML Streaming, WebDataset and torchdata."""
    return tools.programs(REPOSITORY / "requirements-readers.txt", then=_without_cuda)


def tensorflow() -> Path:
    """Return the folder of the programs of an environment with tf.data."""
    return tools.programs(REPOSITORY / "requirements-readers-tensorflow.txt")


def _without_cuda(programs: Path) -> None:
    """Replace PyTorch's CUDA libraries as in the trainer's image, but keep the symbols that torchvision needs."""
    python = str(programs / "python")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())
    # The program WITHOUT_CUDA keeps the symbols that the libraries in this folder need. With this link, torchvision is
    # one of these libraries.
    (packages / "torch" / "lib" / "torchvision.so").symlink_to(packages / "torchvision" / "_C.so")
    subprocess.run([python, str(WITHOUT_CUDA)], check=True)
