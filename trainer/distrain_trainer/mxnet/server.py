"""What the scheduler and the servers of an MXJob run: they hold the weights while the workers train.

MXNet's way is that `import mxnet` itself never returns in such a process. Here it does, so that the end of a worker is
seen, and told.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from distrain_trainer.config import Config
from distrain_trainer.errors import ArgumentError, task_from_environment
from distrain_trainer.loop import abort
from distrain_trainer.loop.abort import Lifeline


@dataclass(frozen=True)
class Place:
    """What the operator tells a process about the job: its own part, and where the scheduler is."""

    role: str
    index: int
    host: str
    port: int

    @classmethod
    def from_environment(cls) -> Place:
        """Raise ArgumentError where no operator has told anything."""
        try:
            role, index = task_from_environment()
            return cls(role, index, os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"]))
        except KeyError as error:
            raise ArgumentError(
                f"strategy: MXNet's parameter server runs in an MXJob, whose operator sets {error.args[0]}, and it is "
                "not set here; set job.kind=MXJob, or strategy=allreduce"
            ) from None

    def join(self) -> Lifeline:
        """Tie this process to the others: the port beside ps-lite's own serves that alone."""
        if self.role == "scheduler":
            return abort.hold(self.port + 1)
        return abort.join(self.host, self.port + 1, f"{self.role} {self.index}")


def main(config: Config, dataset: None) -> None:
    """Serve until the workers have come to the end."""
    mxnet = import_as_worker()
    line = Place.from_environment().join()
    store = mxnet.kv.create(config.kvstore or "dist_sync")
    mxnet.kvstore.kvstore_server.KVStoreServer(store).run()
    line.leave()


def import_as_worker() -> Any:
    """Import MXNet, which would serve at once, and for good, where DMLC_ROLE names another role."""
    role = os.environ.pop("DMLC_ROLE")
    mxnet = importlib.import_module("mxnet")
    os.environ["DMLC_ROLE"] = role
    return mxnet
