"""Install libraries with which the trainer's data reader is compared, in one environment for each framework."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.builds import tools
from lab.paths import REPOSITORY

WITHOUT_CUDA = REPOSITORY / "trainer" / "pytorch_without_cuda.py"


def pytorch() -> Path:
    """Install MosaicML Streaming, WebDataset and torchdata.

    Return the folder that contains the environment's programs.
    """
    return tools.programs(REPOSITORY / "requirements-readers.txt", then=_without_cuda)


def tensorflow() -> Path:
    """Install TensorFlow, for tf.data. Return the folder that contains the environment's programs."""
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
