"""Describe the included models, and load a user's model.

For each model, one file describes its layers, the shape of its data, and how the model is commonly trained. Each
framework's package builds a model from its description. `make schema` writes the facts that the plugin needs into
charts/distrain/files/models.json, because the packaged plugin contains the chart but not the trainer.

To add a model, write its file, add it to MODELS, and run `make schema`. After that, failing tests show where else the
model must be listed: in the values schema, docs/training.md and the help of `helm distrain init`.
"""

from __future__ import annotations

from distrain_trainer.models import mnist, resnet50, user, vgg16
from distrain_trainer.models.description import Model

MODELS = {model.name: model for model in (mnist.MODEL, resnet50.MODEL, vgg16.MODEL)}


def describe(name: str) -> Model:
    """Return the description of an included model. All models of users have the same description."""
    return MODELS.get(name, user.MODEL)
