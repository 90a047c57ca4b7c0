"""Train a model with the fastest simple loop that PyTorch allows, and print the speed as JSON.

The model comes from the trainer. The loop has one rank, and neither checks nor logs anything. The batch stays on the
device, and the program reads nothing from the device before the end.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from distrain_trainer.models import MODELS
from distrain_trainer.pytorch.models import build
from distrain_trainer.pytorch.training import PRECISIONS

UNTIMED = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    description = MODELS[given.model]
    model = build(given.model, shape=description.shape, classes=description.classes)
    model = model.to(device, memory_format=torch.channels_last)
    loop = Loop(model, device, PRECISIONS[given.precision], given.batch_size, description)
    figures = {"operations_per_image": loop.operations() / given.batch_size}
    if given.compile:
        loop.forward = torch.compile(model)
    figures["images_per_second"] = loop.speed(given.steps)
    figures["peak_bytes"] = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps(figures))


class Loop:
    """Trains a model on one batch of noise, again and again."""

    def __init__(self, model: Any, device: str, precision: Any, batch_size: int, description: Any) -> None:
        height, width, channels = description.shape
        images = torch.rand(batch_size, channels, height, width, device=device)
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(description.classes, (batch_size,), device=device)
        self.device, self.precision, self.forward = device, precision, model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=self.precision, enabled=self.precision != torch.float32):
            logits = self.forward(self.images)
        torch.nn.functional.cross_entropy(logits.float(), self.labels).backward()
        self.optimizer.step()

    def operations(self) -> int:
        """Return the number of floating-point operations in a training step.

        One multiplication with one addition is two operations.
        """
        counter = FlopCounterMode(display=False)
        with counter:
            self.step()
        return int(counter.get_total_flops())

    def speed(self, steps: int) -> float:
        """Return the images per second over `steps` steps. The steps before them warm up the GPU and are not timed."""
        for _ in range(UNTIMED):
            self.step()
        wait()
        begun = time.perf_counter()
        for _ in range(steps):
            self.step()
        wait()
        return len(self.images) * steps / (time.perf_counter() - begun)


def wait() -> None:
    """Wait until the GPU has finished all queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
