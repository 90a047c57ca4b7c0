"""Runs under mpirun: train on digits.

Rank 0 then prints the checksums of every rank's weights before and after the training.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import horovod.tensorflow as hvd

from distrain_trainer.config import Config
from distrain_trainer.data import load
from distrain_trainer.log import Log
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.run import Run
from distrain_trainer.tensorflow import horovod as program
from distrain_trainer.tensorflow.ema import Ema
from distrain_trainer.tensorflow.state import KerasState


def checksum(variables: Any) -> str:
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    config = Config(data="/data/digits", batch_size=32, steps=25, optimizer="adam", learning_rate=0.01)
    dataset = load(config)
    hvd.init()
    model, optimizer = program.build(config, dataset)
    own_start = checksum(model.variables)
    program.share_start(model, optimizer)
    shared_start = checksum(model.variables)
    log = Log(speaks=False)
    run = Run.begin(config, dataset, KerasState(model, optimizer), ProcessGroup.of_horovod(hvd), log)
    # An epoch has 23 steps. The last global batch of the epoch has 29 samples instead of 64.
    evaluator = Evaluator(run, 0, lambda: (0, 0), lambda path: None, "")
    program.train(dataset, model, optimizer, evaluator, Ema(config, model))
    end = checksum([*model.variables, *optimizer.variables])
    gathered = hvd.allgather_object({"own_start": own_start, "shared_start": shared_start, "end": end})
    if hvd.rank() == 0:
        print(json.dumps(gathered))


if __name__ == "__main__":
    main()
