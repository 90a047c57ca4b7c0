"""Find the samples at data.uri, divide them among the ranks, and read them as batches.

splits.py detects the format of data.uri and finds the training and the test data, and formats.py loads them. idx.py,
images.py and shards.py each read one format. sampler.py decides which rank trains on which sample, and position.py
records how far a run has come. loader.py prefetches batches, and beside.py runs the loader in a separate process. No
module here imports a framework.
"""

from distrain_trainer.data.beside import batches_from_beside, end_batches
from distrain_trainer.data.formats import Dataset, load
from distrain_trainer.data.loader import Batch, count_steps, evaluation_batches, train_batches
from distrain_trainer.data.position import Position, SampleCount

__all__ = [
    "Batch",
    "Dataset",
    "Position",
    "SampleCount",
    "batches_from_beside",
    "count_steps",
    "end_batches",
    "evaluation_batches",
    "load",
    "train_batches",
]
