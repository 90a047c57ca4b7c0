"""Run the scheduler or a server of an MXJob. The servers hold the weights while the workers train.

With the environment variables that the operator sets, `import mxnet` itself serves the workers and never returns. This
module unsets one of these variables during the import, so that the import returns. The process can then open the abort
channel before it serves.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from distrain_trainer.config import Config
from distrain_trainer.errors import ArgumentError, task_from_environment
from distrain_trainer.loop import abort
from distrain_trainer.loop.abort import AbortChannel
from distrain_trainer.loop.stop_flag import StopRequest


@dataclass(frozen=True)
class JobEnvironment:
    """The environment variables of the operator: this process's role and index, and the scheduler's host and port."""

    role: str
    index: int
    host: str
    port: int

    @classmethod
    def from_environment(cls) -> JobEnvironment:
        """Read the environment. Raises ArgumentError if an environment variable of the operator is not set."""
        try:
            role, index = task_from_environment()
            return cls(role, index, os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"]))
        except KeyError as error:
            raise ArgumentError(
                f"strategy: MXNet's parameter server needs {error.args[0]}, which the operator of an MXJob sets; set "
                "job.kind=MXJob, or strategy=allreduce"
            ) from None

    def join(self) -> AbortChannel:
        """Open the abort channel. The abort channel's port is the port of ps-lite plus 1."""
        if self.role == "scheduler":
            return abort.listen(self.port + 1)
        return abort.connect(self.host, self.port + 1, f"{self.role} {self.index}")


def main(config: Config, dataset: None) -> None:
    """Serve the workers until they have finished."""
    mxnet = import_as_worker()
    channel = JobEnvironment.from_environment().join()
    if config.checkpoint:
        # On SIGTERM, serve until the workers have made their last step and have saved it. They end this process then.
        StopRequest().pass_on(lambda _: channel.ask_to_stop())
    store = mxnet.kv.create(config.kvstore or "dist_sync")
    mxnet.kvstore.kvstore_server.KVStoreServer(store).run()
    channel.leave()


def import_as_worker() -> Any:
    """Import MXNet without DMLC_ROLE.

    If DMLC_ROLE is "server" or "scheduler", `import mxnet` itself serves the workers and never returns.
    """
    role = os.environ.pop("DMLC_ROLE")
    mxnet = importlib.import_module("mxnet")
    os.environ["DMLC_ROLE"] = role
    return mxnet
