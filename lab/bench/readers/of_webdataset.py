"""Read tar shards with WebDataset."""

from __future__ import annotations

from collections.abc import Iterable

import webdataset

from lab.bench.readers.decoding import counted, to_pixels
from lab.bench.readers.program import BATCH, SEED, SHUFFLE, Count, Task, run


def open_reader(task: Task) -> Iterable[Count]:
    # WebDataset has no client for S3: its documentation reads S3 through a pipe from the AWS CLI, which downloads the
    # parts of an object with ten threads. Batches are made in the workers, as WebLoader's documentation recommends.
    urls = [f"pipe:aws s3 cp {task.uri}/{name} -" for name in task.files]
    dataset = webdataset.WebDataset(urls, shardshuffle=len(urls), seed=SEED).shuffle(SHUFFLE).to_tuple("jpg", "cls")
    if task.decodes:
        dataset = dataset.map_tuple(to_pixels, int)
    batches = dataset.batched(BATCH, partial=True)
    return counted(webdataset.WebLoader(batches, batch_size=None, num_workers=task.workers), task.decodes)


if __name__ == "__main__":
    run(open_reader)
