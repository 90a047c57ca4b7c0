"""Acquire a run, and load its newest complete checkpoint, which all ranks read together.

Rank 0 decides what is read. If the ranks share their state, each reads its share of the files, and gets the rest from
the others. Then each also gets a writer, for its share of the files of new checkpoints.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distrain_trainer.checkpoint import finished, reader
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.files import Checkpoint
from distrain_trainer.checkpoint.head import Head, Holder
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.reader import DamagedCheckpointError
from distrain_trainer.checkpoint.writer import Member, Writer
from distrain_trainer.errors import FinishedError
from distrain_trainer.loop.process_group import Span
from distrain_trainer.storage import Retry, Store, open_store

if TYPE_CHECKING:
    from distrain_trainer.loop.run import Run

VALUE = "checkpoint.uri"


@dataclass(frozen=True)
class Acquired:
    """What rank 0 tells the others: HEAD, or None if the run is finished, and the checkpoint that is read.

    `spans` are what each rank has of the checkpoint in its buffer. `start` is a random name of this start of the run.
    """

    head: Head | None
    start: str = ""
    found: Checkpoint | None = None
    spans: Sequence[Span] = ()


def resume(run: Run, pods: Sequence[str]) -> None:
    """Acquire the run, and load its newest complete checkpoint, if there is one. Called by all ranks.

    `pods` are the UIDs of the ranks' pods. Raises FinishedError if the run is finished, and what Run.begin raises.
    """
    acquired = _lead(run, pods) if run.group.rank == 0 else _follow(run)
    if acquired.head is None:
        run.log.print(f"finished: {run.config.checkpoint} holds the end of this run; nothing is left to do")
        run.group.gather(None)
        raise FinishedError
    run.saves_together = run.group.shares_state and run.group.size > 1
    if acquired.found is not None:
        _load(run, acquired.found, acquired.spans)
    if run.saves_together and run.group.rank:
        lease = Lease(open_store(run.config.checkpoint, value=VALUE), acquired.head, "")
        member = Member(run.group.rank, run.group.size, acquired.start)
        run.writer = Writer(lease, run.buffer, run.config, ranks=run.group.size, member=member)


def _store_of(run: Run) -> Store:
    return open_store(run.config.checkpoint, value=VALUE, retry=Retry(heeds_sigterm=True))


def _lead(run: Run, pods: Sequence[str]) -> Acquired:
    """By rank 0: acquire the lease and read the newest checkpoint. Tell the other ranks the result."""
    config, say, store, start = run.config, run.log.print, _store_of(run), str(uuid.uuid4())
    lease = leases.acquire(
        store,
        Holder(os.environ.get("DISTRAIN_JOB", ""), tuple(sorted({pod for pod in pods if pod}))),
        resumes=config.resume == "auto",
        lacks=lambda head: finished.what_lacks(config, run.subject, store, head, say),
        say=say,
    )
    acquired = Acquired(None)
    if lease is not None:
        # During the training use a store without retries: the writer and the heartbeat themselves retry.
        lease.store = open_store(config.checkpoint, value=VALUE)
        lease.beat()
        member = Member(0, run.group.size if run.group.shares_state else 1, start)
        run.writer = Writer(lease, run.buffer, config, ranks=run.group.size, member=member)
        found = _newest_good(run, store, lease.head)
        acquired = Acquired(lease.head, start, found, _spans(run, found))
    run.group.broadcast(acquired)
    return acquired


def _newest_good(run: Run, store: Store, head: Head) -> Checkpoint | None:
    if head.checkpoint is None:
        return None
    trained = reader.Trained(run.subject, run.state.fields(), run.state.later_fields(), run.state.former)

    def read_files(found: Checkpoint) -> None:
        if not run.group.shares_state:
            reader.read_files(store, found, found.parts, run.buffer)
            return
        run.group.broadcast(found)
        if reasons := list(filter(None, run.group.gather(_read_share(run, store, found)))):
            raise DamagedCheckpointError(reasons[0])

    return reader.newest_good(
        *(store, run.buffer, trained),
        newest=head.checkpoint,
        first_generation=head.since,
        say=run.log.print,
        read_files=read_files,
    )


def _spans(run: Run, found: Checkpoint | None) -> list[Span]:
    """Return what each rank has in its buffer of the checkpoint that was read."""
    if found is None:
        return []
    if found.manifest.format == 1:  # Rank 0 has decoded it alone.
        return [(0, found.parts[-1].end)] + [(0, 0)] * (run.group.size - 1)
    shares = reader.shares(found.parts, run.group.size)
    return [(share[0].data, share[-1].end) if share else (0, 0) for share in shares]


def _follow(run: Run) -> Acquired:
    """By the other ranks: read the shares that rank 0 asks for, until it has a checkpoint that all could read."""
    told = run.group.broadcast(None)
    store = _store_of(run) if isinstance(told, Checkpoint) else None
    while store is not None and isinstance(told, Checkpoint):
        run.group.gather(_read_share(run, store, told))
        told = run.group.broadcast(None)
    assert isinstance(told, Acquired)
    return told


def _read_share(run: Run, store: Store, found: Checkpoint) -> str:
    """Read this rank's share of a checkpoint. Return "", or what is damaged."""
    try:
        reader.read_files(store, found, reader.shares(found.parts, run.group.size)[run.group.rank], run.buffer)
    except DamagedCheckpointError as error:
        return str(error)
    return ""


def _load(run: Run, found: Checkpoint, spans: Sequence[Span]) -> None:
    group = run.group
    if group.shares_state:
        run.buffer.reserve(max(part.end for part in found.parts))
        group.share(run.buffer, spans)
    if group.shares_state or group.rank == 0:
        run.state.load(run.buffer.arrays(found.parts))
    if run.saves_together or group.rank:  # This rank saves less than it loads, or nothing.
        run.buffer.release()
    run.position, run.history = found.manifest.position, found.manifest.history
    run.resumed_from = found.name
    run.log.print(
        f"resumed from {found.name}: step {run.position.step}, {run.position.samples} samples, "
        f"on {group.size} ranks (before {found.manifest.ranks})"
    )
    finished.say_if_longer(run.config, run.subject, run.position, run.log.print)
