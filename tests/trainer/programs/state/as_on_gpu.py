"""Replaces the program in each process: train on the CPU, in the precision that a GPU would use (see live_state.py)."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from distrain_trainer import __main__
from distrain_trainer.config import parse
from distrain_trainer.errors import holds_weights_only


def in_tensorflow(program: Any) -> None:
    training: Any = importlib.import_module("distrain_trainer.tensorflow.training")
    for module in (training, program):
        module.has_gpu = lambda: True


def in_pytorch(program: Any) -> None:
    training: Any = importlib.import_module("distrain_trainer.pytorch.training")
    on_cpu = training.Computer.choose

    def choose(config: Any, *given: Any, **named: Any) -> Any:
        device = on_cpu(replace(config, precision="fp32"), *given, **named).device
        return training.Computer(device, training.PRECISIONS[config.precision])

    training.Computer.choose = choose


def in_mxnet(program: Any) -> None:
    on_device = program.choose_precision
    program.choose_precision = lambda config, device, log: on_device(config, SimpleNamespace(device_type="gpu"), log)


CHOOSE = {"tensorflow": in_tensorflow, "pytorch": in_pytorch, "mxnet": in_mxnet}

if __name__ == "__main__":
    config = parse(sys.argv[1:])
    # MKL-DNN cannot compute in fp16. Without MKL-DNN, MXNet computes in fp16 on the CPU, except for products of
    # matrices.
    os.environ["MXNET_MKLDNN_ENABLED"] = "0"
    if not holds_weights_only():  # Importing MXNet makes a server start to serve, so do it only here.
        CHOOSE[config.framework](importlib.import_module(__main__.program_of(config)))
    importlib.import_module("live_state").main()
