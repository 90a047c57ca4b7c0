"""Write scikit-learn's handwritten digits as the four idx .gz files of MNIST. Nothing is downloaded."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TEST_SHARE = 0.2
SEED = 0


def upload_digits(s3: Any, bucket: str) -> None:
    """Upload the four files to the folder digits/ of a bucket. `s3` is a boto3 client."""
    with tempfile.TemporaryDirectory() as folder:
        write_digits(Path(folder))
        for file in sorted(Path(folder).iterdir()):
            s3.upload_file(str(file), bucket, f"digits/{file.name}")


def write_digits(folder: Path) -> None:
    """Write 1437 images for training and 360 for testing, each 8x8 pixels.

    Pixels from 0 to 16 are scaled to 0 to 255.
    """
    # Import scikit-learn only here: other users of this module need not wait until it is loaded.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, digits.target.astype(np.uint8), test_size=TEST_SHARE, random_state=SEED, stratify=digits.target
    )
    write_idx(folder / "train-images-idx3-ubyte.gz", train_images)
    write_idx(folder / "train-labels-idx1-ubyte.gz", train_labels)
    write_idx(folder / "t10k-images-idx3-ubyte.gz", test_images)
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", test_labels)


def write_idx(path: Path, array: npt.NDArray[np.uint8]) -> None:
    """Write an array of unsigned bytes as an idx .gz file. The same array gives the same bytes."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), mtime=0))
