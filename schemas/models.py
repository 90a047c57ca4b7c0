"""Write the facts that the plugin needs about the trainer's models into the chart: `python -m schemas.models`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from distrain_trainer.models import MODELS, user
from schemas.layers import counted

TARGET = Path(__file__).resolve().parent.parent / "charts" / "distrain" / "files" / "models.json"
KEYS = ("shape", "classes", "smallest", "parameters", "layers", "data_set", "training", "p100_images_per_second")


def build() -> str:
    """Return the text of models.json."""
    models = (*MODELS.values(), user.MODEL)
    described = {model.name: {**asdict(model), "layers": counted(model)} for model in models}
    chosen = {name: {key: model[key] for key in KEYS} for name, model in described.items()}
    return json.dumps(chosen, indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
