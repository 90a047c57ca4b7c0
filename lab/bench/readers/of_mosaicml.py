"""Read MosaicML Streaming's own format, MDS; `... of_mosaicml write SHARDS FOLDER` converts tar shards to MDS."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader

from lab.bench.readers.decoding import counted, to_pixels
from lab.bench.readers.program import BATCH, SEED, Count, Task, run
from lab.bench.readers.tar import samples_in


class Images(StreamingDataset):  # type: ignore[misc]
    """A data set in which the worker processes transform the images, as in Streaming's own image data sets."""

    def __init__(self, decodes: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self._decodes = decodes

    def __getitem__(self, at: Any) -> Any:
        sample = super().__getitem__(at)
        return (to_pixels(sample["image"]) if self._decodes else sample["image"]), sample["label"]


def open_reader(task: Task) -> Iterable[Count]:
    # Streaming reads the S3 keys from environment variables with other names than AWS's.
    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL_S3"]
    # Shuffling and the size of a shuffled block keep Streaming's defaults. `predownload` is the number of samples that
    # each worker downloads ahead; its default is 8 batches. If the data come too slowly, Streaming's documentation says
    # to raise this number or the number of workers: docs.mosaicml.com/projects/streaming, "Performance Tuning".
    dataset = Images(
        task.decodes, remote=task.uri, local=task.scratch, shuffle=True, shuffle_seed=SEED, batch_size=BATCH
    )
    # The workers are forked. They must not share the S3 connection over which this process has read the index.
    for stream in dataset.streams:
        stream._downloader.clean_up()
    return counted(DataLoader(dataset, batch_size=BATCH, num_workers=task.workers), task.decodes)


def write(shards: Path, folder: Path) -> None:
    """Write the samples as MDS, in files of at most 64 MiB, MDSWriter's default."""
    with MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"}) as out:
        for path in sorted(shards.glob("*.tar")):
            with path.open("rb") as file:
                for image, label in samples_in(file):
                    out.write({"image": image, "label": label})


if __name__ == "__main__":
    write(*map(Path, sys.argv[2:])) if sys.argv[1] == "write" else run(open_reader)
