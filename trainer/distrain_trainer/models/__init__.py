"""Describe the included models, and load a user's model.

One file per model holds the model's layers, the shape of its data, and how it is commonly trained. Each framework's
package builds a model from its description. `make schema` writes what the plugin needs into
charts/distrain/files/models.json, because the packaged plugin holds the chart but not the trainer.

To add a model, write its file, add it to MODELS, and run `make schema`. Tests then name what else must list it: the
values schema, docs/training.md and the help of `helm distrain init`.
"""

from __future__ import annotations

from distrain_trainer.models import mnist, resnet50, user, vgg16
from distrain_trainer.models.description import Model

MODELS = {model.name: model for model in (mnist.MODEL, resnet50.MODEL, vgg16.MODEL)}


def describe(name: str) -> Model:
    """Return the description of an included model, or the description that is assumed for a user's model."""
    return MODELS.get(name, user.MODEL)
