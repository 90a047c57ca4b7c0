"""Define the fields of a model's description. This package imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Either the height, width and channels of an image, or the number of features.
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """A convolution with a square kernel, followed by ReLU.

    The image is padded, so only a `stride` above 1 makes it smaller. If it is normalized, the convolution has no bias,
    and batch normalization comes before ReLU.
    """

    filters: int
    size: int = 3
    stride: int = 1
    is_normalized: bool = False

    def output(self, shape: Shape) -> Shape:
        height, width, _ = shape
        return -(-height // self.stride), -(-width // self.stride), self.filters


@dataclass(frozen=True)
class MaxPooling:
    size: int = 2
    stride: int = 2
    padding: int = 0

    def output(self, shape: Shape) -> Shape:
        height, width = ((side + 2 * self.padding - self.size) // self.stride + 1 for side in shape[:2])
        return height, width, shape[2]


@dataclass(frozen=True)
class Bottlenecks:
    """Residual blocks.

    Each block has 1x1, 3x3 and 1x1 convolutions with `width`, `width` and 4 x `width` filters, and a shortcut. In the
    first block, the 3x3 convolution has the stride `stride`.
    """

    blocks: int
    width: int
    stride: int

    def output(self, shape: Shape) -> Shape:
        height, width, _ = shape
        return -(-height // self.stride), -(-width // self.stride), 4 * self.width


@dataclass(frozen=True)
class GlobalAveragePooling:
    def output(self, shape: Shape) -> Shape:
        return 1, 1, shape[2]


@dataclass(frozen=True)
class Flatten:
    def output(self, shape: Shape) -> Shape:
        height, width, channels = shape
        return (height * width * channels,)


@dataclass(frozen=True)
class Dropout:
    rate: float

    def output(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class Dense:
    """A fully connected layer with ReLU."""

    units: int

    def output(self, shape: Shape) -> Shape:
        return (self.units,)


Layer = Convolution | MaxPooling | Bottlenecks | GlobalAveragePooling | Flatten | Dropout | Dense


@dataclass(frozen=True)
class DataSet:
    """The data set on which a model is commonly trained, and the number of its training samples."""

    name: str
    samples: int


@dataclass(frozen=True)
class Training:
    """How a model is commonly trained. `batch_size` is per rank. `precision` is the precision to use on GPUs."""

    batch_size: int
    learning_rate: float
    epochs: int
    warmup: int = 0
    precision: str = "fp32"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model. `layers` are all layers except the last one, which is a dense layer with one logit per class."""

    name: str
    title: str
    # The shape of synthetic images (height, width, channels), and the number of their classes.
    shape: tuple[int, int, int]
    classes: int
    # The smallest allowed height and width of an image. None means that images must have exactly `shape`.
    smallest: int | None = None
    layers: tuple[Layer, ...] = ()
    # Whether PyTorch initializes the weights as in He et al. 2015. Keras and MXNet initialize the weights of all models
    # as in Glorot and Bengio 2010.
    is_initialized_after_he: bool = False
    # If set, Keras and Gluon build the model with this function of keras.applications or of Gluon's model zoo, and not
    # from `layers`. The function determines the names of the weights in checkpoints and saved models.
    keras: str = ""
    gluon: str = ""
    # The number of trainable parameters that the model has in each framework, if the data has `shape` and `classes`.
    parameters: Mapping[str, int] = field(default_factory=dict)
    data_set: DataSet | None = None
    training: Training
    # Images per second on one NVIDIA P100 in fp32 with batch size 64. Source: tf_cnn_benchmarks, May 2017, DGX-1,
    # synthetic data (tensorflow.org/performance/benchmarks). The faster the GPU, the larger is the share of
    # communication in a step.
    p100_images_per_second: float | None = None
