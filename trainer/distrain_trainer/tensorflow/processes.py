"""Connect the processes of a TFJob: their addresses, and the messages that they send to each other.

Each process runs a TensorFlow server and a session. If a session's graph places an op on the device of another process,
that process runs the op. A process finds the queues and variables on another device by their names.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from distrain_trainer.errors import ArgumentError, FinishedError, LostPeerError, StoppedError
from distrain_trainer.loop import abort
from distrain_trainer.loop.abort import AbortChannel
from distrain_trainer.loop.rendezvous import wait_until_listening

TASKS = ("chief", "worker", "ps")
# For each task, the tasks whose processes must listen before a process of this task connects to them.
AWAITED = {"chief": ("worker", "ps"), "worker": ("chief", "ps"), "ps": ("chief",)}
# For each task, the tasks to whose processes it connects. A TensorFlow session starts only when all these processes
# run.
REACHED = {"chief": ("chief", "worker", "ps"), "worker": ("chief", "ps"), "ps": ()}
# Maps the chief's last message to the exception with which the other processes end.
LAST_WORDS: dict[str, type[Exception]] = {"end": FinishedError, "stop": StoppedError}
# If another process has ended, a session raises one of the errors LOST. This process then waits SECONDS_TO_BE_ENDED:
# within this time the abort channel ends it, even if the other process's whole machine is lost.
SECONDS_TO_BE_ENDED = 30.0
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


@dataclass(frozen=True)
class Cluster:
    """The task and index of this process, and for each task (chief, worker, ps) the host:port of every process."""

    addresses: dict[str, list[str]]
    task: str
    index: int

    @classmethod
    def from_environment(cls) -> Cluster:
        """Parse TF_CONFIG, which the operator sets in a TFJob's pods. Raises ArgumentError if a task is missing."""
        told = json.loads(os.environ.get("TF_CONFIG") or "{}")
        addresses = told.get("cluster", {})
        if not all(addresses.get(task) for task in TASKS):
            raise ArgumentError(
                "strategy: parameter-server needs a chief, workers and servers, and TF_CONFIG does not name them; "
                "start the run as a TFJob (job.kind=TFJob), or set strategy=allreduce"
            )
        return cls({task: addresses[task] for task in TASKS}, told["task"]["type"], int(told["task"]["index"]))

    @property
    def workers(self) -> int:
        return len(self.addresses["worker"])

    @property
    def servers(self) -> int:
        return len(self.addresses["ps"])

    def awaited(self) -> dict[str, str]:
        tasks = AWAITED[self.task]
        return {f"{task} {index}": host for task in tasks for index, host in enumerate(self.addresses[task])}

    def join(self) -> AbortChannel:
        """Open the abort channel. The abort channel's port is the port of the chief's server plus 1."""
        host, _, port = self.addresses["chief"][0].rpartition(":")
        if self.task == "chief":
            return abort.listen(int(port) + 1)
        return abort.connect(host, int(port) + 1, f"{self.task} {self.index}", first="the chief", tells=True)

    def hear(self) -> list[tuple[str, int]]:
        """Return the processes whose queues for the chief's messages this process uses.

        The chief writes to the queues of all other processes. Every other process reads only its own queue.
        """
        if self.task == "chief":
            return [(task, index) for task in ("worker", "ps") for index in range(len(self.addresses[task]))]
        return [(self.task, self.index)]

    def tell(self) -> list[int]:
        """Return the workers whose queues for reports to the chief this process uses.

        The chief reads the queues of all workers. A worker writes only to its own queue. A parameter server uses none
        of these queues.
        """
        return {"chief": list(range(self.workers)), "worker": [self.index], "ps": []}[self.task]

    def reached(self) -> list[str]:
        others = [device_of(task, index) for task in REACHED[self.task] for index in range(len(self.addresses[task]))]
        return sorted({*others, device_of(self.task, self.index)})


def device_of(task: str, index: int) -> str:
    return f"/job:{task}/task:{index}"


def _number(name: str, server: int) -> Any:
    """Return a variable on a parameter server that contains one number, initially 0."""
    v1 = tf.compat.v1
    with tf.device(f"{device_of('ps', server)}/device:CPU:0"):
        return v1.get_variable(name, [], tf.float32, v1.zeros_initializer(), use_resource=True)


class MessageQueue:
    """A first-in, first-out queue, in the memory of the process that reads from it."""

    def __init__(self, name: str, *, reader: tuple[str, int], dtype: Any) -> None:
        with tf.device(f"{device_of(*reader)}/device:CPU:0"):
            queue = tf.queue.FIFOQueue(capacity=1_000_000, dtypes=[dtype], shared_name=name)
            self.take = queue.dequeue()
            self.content = tf.compat.v1.placeholder(dtype)
            self.put = queue.enqueue([self.content])


class Member:
    """What this process contributes to the job: its server, its graph and session, and its message queues."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # The TensorFlow server only transports messages and weights, so it must not use the GPU. The model itself runs
        # outside this server.
        self._config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, device_filters=cluster.reached())
        self._server = tf.distribute.Server(cluster.addresses, cluster.task, cluster.index, config=self._config)
        self._abort_channel = cluster.join()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._make_signs()
            self._words = {reader: MessageQueue("words", reader=reader, dtype=tf.string) for reader in cluster.hear()}
            self._figures = {
                worker: MessageQueue(f"figures-{worker}", reader=("chief", 0), dtype=tf.float64)
                for worker in cluster.tell()
            }

    def _make_signs(self) -> None:
        """Create the variables that each worker reads before a step.

        The variables are the number of pauses that the chief has begun so far, and each server's request to stop.
        """
        is_server = self.cluster.task == "ps"
        servers = [self.cluster.index] if is_server else list(range(self.cluster.servers))
        asked = [_number(f"asked-{server}", server) for server in servers]
        self._given = tf.compat.v1.placeholder(tf.float32, [])
        self._set_asked = asked[0].assign(self._given, read_value=False)
        if not is_server:
            pause = _number("pause", 0)
            self._set_pause = pause.assign(self._given, read_value=False)
            self.signs = [number.read_value() for number in (pause, *asked)]

    def connect(self) -> None:
        """Finalize the graph, and open the session. Wait until every process that the session connects to answers."""
        own = device_of(self.cluster.task, self.cluster.index)
        with self.graph.as_default():
            with tf.device(f"{own}/device:CPU:0"):
                given = tf.compat.v1.placeholder(tf.float32, [])
            answers = [self._answer(device, given) for device in self.cluster.reached()]
        self.graph.finalize()
        # Wait until the process listens: after a refused connection, gRPC waits longer and longer before it retries,
        # and TensorFlow logs pages of warnings.
        wait_until_listening(self.cluster.awaited())
        while True:
            self._session = tf.compat.v1.Session(self._server.target, graph=self.graph, config=self._config)
            try:
                self._session.run(answers, {given: 0.0})
                return
            # A process that is still starting may refuse the connection, so try again. If that process has ended, the
            # abort channel ends this process.
            except LOST:
                self._session.close()
                time.sleep(1)

    def run(self, ops: Any, feed: dict[Any, Any] | None = None) -> Any:
        """Run ops of the graph, in this process or another one.

        Raises LostPeerError if the connection to another process breaks.
        """
        try:
            return self._session.run(ops, feed)
        except LOST as error:
            time.sleep(SECONDS_TO_BE_ENDED)
            raise LostPeerError(
                f"the connection to another process broke; see the logs of the others: {error.message[:300]}"
            ) from None

    @staticmethod
    def _answer(device: str, given: Any) -> Any:
        # When the other process fetches `given`, it opens a connection to this process. So there are connections in
        # both directions.
        with tf.device(f"{device}/device:CPU:0"):
            return given + 1

    def ask_to_stop(self, reason: int) -> None:
        """Called by a server, in any thread: publish a request to stop.

        The workers read this request and report it to the chief.
        """
        self.run(self._set_asked, {self._given: reason})

    def call_pause(self, number: int) -> None:
        """Called by the chief: begin a pause. Each worker then waits for instructions before its next step.

        `number` is the number of pauses so far, including this pause.
        """
        self.run(self._set_pause, {self._given: number})

    def tell_workers(self, word: str) -> None:
        """Called by the chief: send a message to every worker."""
        for index in range(self.cluster.workers):
            self.tell(index, word)

    def tell(self, worker: int, word: str) -> None:
        """Called by the chief: send a message to one worker."""
        queue = self._words["worker", worker]
        self.run(queue.put, {queue.content: word})

    def wait_for(self, word: str) -> str:
        """Called by a worker or server: wait until the chief sends `word`, and return the argument that follows it.

        Raises StoppedError if the chief sends "stop" instead, and FinishedError if it sends "end".
        """
        heard, _, more = self.run(self._words[self.cluster.task, self.cluster.index].take).decode().partition(" ")
        if heard in LAST_WORDS:
            self._abort_channel.leave()
        if heard == word:
            return str(more)
        if heard in LAST_WORDS:
            raise LAST_WORDS[heard]
        raise AssertionError(f"the chief says {heard}, and not {word}")

    def report(self, *figures: float) -> None:
        """Called by a worker: send the numbers of a report to the chief."""
        queue = self._figures[self.cluster.index]
        self.run(queue.put, {queue.content: figures})

    def hear(self, worker: int) -> list[float]:
        """Called by the chief: wait for the next report of one worker."""
        return list(self.run(self._figures[worker].take))

    def gather(self) -> list[list[float]]:
        """Called by the chief: wait for the next report of each worker."""
        return [self.hear(worker) for worker in self._figures]

    def end_all(self, word: str = "end") -> None:
        """Called by the chief: close the abort channel, and send `word`, "end" or "stop", to all other processes."""
        self._abort_channel.leave()
        for queue in self._words.values():
            # A process may end after it has received the message, but before it has confirmed this.
            with contextlib.suppress(tf.errors.OpError):
                self._session.run(queue.put, {queue.content: word})
