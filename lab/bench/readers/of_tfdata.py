"""Read TFRecord files with tf.data; `... of_tfdata write SHARDS FOLDER` converts tar shards to TFRecord files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_io  # noqa: F401  (adds s3:// to TensorFlow's file systems)

from lab.bench.readers.program import BATCH, RATIO, SCALE, SEED, SHUFFLE, SIDE, Count, Task, run
from lab.bench.readers.tar import samples_in

# The size of a read request in bytes, as in the TPU guides for Google's ResNet.
REQUEST = 8 * 1024**2
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def open_reader(task: Task) -> Iterable[Count]:
    os.environ["S3_ENDPOINT"] = os.environ["AWS_ENDPOINT_URL_S3"]
    # "Better performance with the tf.data API" (tensorflow.org/guide/data_performance) recommends parallel interleaving
    # for remote files, a parallel map, and prefetching, each with AUTOTUNE.
    files = tf.data.Dataset.from_tensor_slices([f"{task.uri}/{name}" for name in task.files])
    records = files.shuffle(len(task.files), seed=SEED).interleave(
        lambda name: tf.data.TFRecordDataset(name, buffer_size=REQUEST),
        cycle_length=len(task.files),
        num_parallel_calls=len(task.files),
    )
    samples = records.shuffle(SHUFFLE, seed=SEED).map(_decoder(task) if task.decodes else _file, tf.data.AUTOTUNE)
    return Batches(samples.batch(BATCH).prefetch(tf.data.AUTOTUNE), task.decodes)


def _file(record: Any) -> Any:
    sample = tf.io.parse_single_example(record, FEATURES)
    return sample["image"], sample["label"]


def _decoder(task: Task) -> Callable[[Any], Any]:
    """Return the function that decodes only the cropped part of an image, like the ResNet of TensorFlow's model garden.

    See official/vision/ops/preprocess_ops.py in the model garden, which scales images without antialiasing.
    """

    def decode(record: Any) -> Any:
        content, label = _file(record)
        start, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(content),
            tf.zeros([0, 0, 4]),
            area_range=SCALE,
            aspect_ratio_range=RATIO,
            min_object_covered=0,
            use_image_if_no_bounding_boxes=True,
            seed=SEED,
        )
        crop = tf.image.decode_and_crop_jpeg(content, [start[0], start[1], size[0], size[1]], channels=3)
        image = tf.image.resize(crop, [SIDE, SIDE], antialias=not task.not_antialiased)
        return tf.image.random_flip_left_right(image) / 255, label

    return decode


class Batches:
    def __init__(self, dataset: Any, decodes: bool) -> None:
        self._dataset, self._decodes = dataset, decodes

    def __iter__(self) -> Iterator[Count]:
        for images, _ in self._dataset.as_numpy_iterator():
            yield len(images), images.nbytes if self._decodes else sum(map(len, images))


def write(shards: Path, folder: Path) -> None:
    """Write a TFRecord file for each shard."""
    folder.mkdir()
    for path in sorted(shards.glob("*.tar")):
        with path.open("rb") as file, tf.io.TFRecordWriter(str(folder / f"{path.stem}.tfrecord")) as out:
            for image, label in samples_in(file):
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


if __name__ == "__main__":
    write(*map(Path, sys.argv[2:])) if sys.argv[1] == "write" else run(open_reader)
    sys.stdout.flush()
    # Do not exit normally: the destructors of the S3 client would then abort the process with "pure virtual method
    # called".
    os._exit(0)
