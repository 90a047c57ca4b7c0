"""Test the plugin's facts about the trainer's models: their figures and names."""

from __future__ import annotations

import pytest

from distrain.command_line.parser import parser
from distrain.derive import models
from distrain_trainer.models import MODELS
from schemas.models import TARGET, build


@pytest.mark.parametrize(
    ("model", "framework", "millions"),
    [
        pytest.param("vgg16", "tensorflow", 138.36, id="vgg16"),
        pytest.param("resnet50", "pytorch", 25.56, id="resnet50"),
        # The convolutions of Keras' ResNet-50 have biases, so it has 26 560 parameters more than PyTorch's.
        pytest.param("resnet50", "tensorflow", 25.58, id="resnet50-keras"),
    ],
)
def test_models_have_the_published_numbers_of_parameters(model: str, framework: str, millions: float) -> None:
    parameters = models.describe(model).parameters[framework]

    assert parameters / 1e6 == pytest.approx(millions, abs=0.005)


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch", "mxnet"])
def test_small_model_is_counted_by_its_layers(framework: str) -> None:
    layers = [(9 * 1 + 1) * 32, (9 * 32 + 1) * 64, (64 * 7 * 7 + 1) * 128, (128 + 1) * 10]

    assert sum(layers) == models.describe("mnist").parameters[framework]


def test_model_of_ones_own_has_no_known_parameters() -> None:
    assert models.describe("my_models:net").parameters == {}


def test_models_are_the_trainers() -> None:
    assert models.names() == list(MODELS)


def test_help_of_init_names_every_model() -> None:
    *others, last = MODELS

    text = parser().commands["init"].format_help()

    assert f"{', '.join(others)} or {last}, or module:function of your own" in " ".join(text.split())


@pytest.mark.parametrize(
    ("model", "layers", "multiplications"),
    [
        # VGG16 has 16 layers with weights. VGG16 needs 15.47 billion multiplications, counted without biases.
        pytest.param("vgg16", 16, 15.47e9, id="vgg16"),
        # The 18 layers are the first convolution, 16 blocks and the classifier. ResNet-50 needs 4.09 billion
        # multiplications if the stride is in the 3x3 convolutions.
        pytest.param("resnet50", 18, 4.09e9, id="resnet50"),
    ],
)
def test_layers_have_the_published_work(model: str, layers: int, multiplications: float) -> None:
    found = models.describe(model).layers

    assert len(found) == layers
    assert sum(work for _, work in found) == pytest.approx(multiplications, rel=1e-3)


def test_file_is_the_one_that_make_schema_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == build(), "run `make schema`"
