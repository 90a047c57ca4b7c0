"""The samples: found where data.uri says, read as they are needed, and divided among the ranks.

sampler.py says which rank trains on which sample, position.py how far the ranks have come, loader.py reads ahead and
makes batches. formats.py finds out what data.uri holds, and idx.py, images.py and shards.py read it. Nothing here needs
a framework.
"""

from distrain_trainer.data.formats import Dataset, load
from distrain_trainer.data.loader import Batch, count_steps, evaluation_batches, train_batches
from distrain_trainer.data.position import Position

__all__ = ["Batch", "Dataset", "Position", "count_steps", "evaluation_batches", "load", "train_batches"]
