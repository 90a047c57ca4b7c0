"""Acquire a run, and load its newest complete checkpoint.

If the ranks train in lockstep and all see the same folder or bucket, they read a checkpoint together. Each rank then
reads its share of the files, and receives the rest from the other ranks. If each pod has its own folder, or with
parameter servers, only rank 0 reads the checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distrain_trainer.checkpoint import finished, reader
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.files import Checkpoint
from distrain_trainer.checkpoint.head import Head, Holder
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.reader import DamagedCheckpointError
from distrain_trainer.checkpoint.writer import Member, Writer
from distrain_trainer.errors import FinishedError, StorageError
from distrain_trainer.loop.process_group import Span
from distrain_trainer.storage import Retry, Store, open_store

if TYPE_CHECKING:
    from distrain_trainer.loop.run import Run

VALUE = "checkpoint.uri"
# The checkpoint that was read, or None, and for each rank the range of its bytes that the rank has read into its
# buffer.
Loaded = tuple[Checkpoint | None, Sequence[Span]]


def resume(run: Run, pods: Sequence[str]) -> None:
    """Take the lease on the run, and load the run's newest complete checkpoint if there is one. Called by all ranks.

    `pods` are the UIDs of the pods of all ranks. Raises FinishedError if the run is finished, and the other exceptions
    of Run.begin.
    """
    group, store = run.group, open_store(run.config.checkpoint, value=VALUE, retry=Retry(heeds_sigterm=True))
    lease = _acquire(run, store, pods) if group.rank == 0 else None
    head: Head | None = group.broadcast(lease.head if lease is not None else None)
    if head is None:
        run.log.print(f"finished: {run.config.checkpoint} shows that this run has finished; nothing is left to do")
        group.gather(None)
        raise FinishedError
    start = group.broadcast(str(uuid.uuid4()))
    run.saves_together = group.shares_state and group.size > 1 and _see_one_place(run, store, start)
    if lease is None and run.saves_together:
        lease = Lease(_store_of_training(run), head, "")
    if lease is not None:
        member = Member(group.rank, group.size if run.saves_together else 1, start)
        run.writer = Writer(lease, run.buffer, run.config, ranks=group.size, member=member)
    found, spans = _lead(run, store, head) if group.rank == 0 else _follow(run, store)
    if found is not None:
        _load(run, found, spans)


def _acquire(run: Run, store: Store, pods: Sequence[str]) -> Lease | None:
    """Called by rank 0: acquire the lease. Return None if the run is finished."""
    config, say = run.config, run.log.print
    lease = leases.acquire(
        store,
        Holder(os.environ.get("DISTRAIN_JOB", ""), tuple(sorted({pod for pod in pods if pod}))),
        resumes=config.resume == "auto",
        lacks=lambda head: finished.what_lacks(config, run.subject, store, head, say),
        say=say,
    )
    if lease is not None:
        lease.store = _store_of_training(run)
        lease.beat()
    return lease


def _store_of_training(run: Run) -> Store:
    """Open the store for the writer and the heartbeat.

    This store does not retry failed calls, because the writer and the heartbeat do.
    """
    return open_store(run.config.checkpoint, value=VALUE)


def _see_one_place(run: Run, store: Store, start: str) -> bool:
    """Return whether all ranks see the files that rank 0 writes to the store.

    The result may be false even if all ranks use the same path, because the path may be a different folder in each pod.
    """
    name = f"probe-{start}"
    if run.group.rank == 0:
        store.write(name, b"1")
    run.group.gather(None)
    sees = run.group.gather(store.read_tagged(name) is not None)
    if run.group.rank == 0:
        with contextlib.suppress(StorageError):  # The access keys may not allow the trainer to delete files.
            store.delete(name)
    return all(sees)


def _lead(run: Run, store: Store, head: Head) -> Loaded:
    """Called by rank 0: read the newest good checkpoint, and tell the other ranks which one it is."""
    found: Checkpoint | None = None
    if head.checkpoint is not None:
        found = reader.newest_good(
            store,
            run.buffer,
            reader.Trained(run.subject, run.state.fields(), run.state.later_fields(), run.state.former),
            newest=head.checkpoint,
            first_generation=head.since,
            say=run.log.print,
            read_files=lambda found: _read_files(run, store, found),
        )
    loaded: Loaded = run.group.broadcast((found, _spans(run, found) if found else ()))
    return loaded


def _read_files(run: Run, store: Store, found: Checkpoint) -> None:
    """Called by rank 0: read a checkpoint. If the other ranks see its files, each rank reads a share of them."""
    if not run.saves_together:
        reader.read_files(store, found, found.parts, run.buffer)
        return
    run.group.broadcast(found)
    if reasons := list(filter(None, run.group.gather(_read_share(run, store, found)))):
        raise DamagedCheckpointError(reasons[0])


def _spans(run: Run, found: Checkpoint) -> list[Span]:
    """Return one span per rank: the bytes of the checkpoint that the rank has read into its buffer."""
    if found.manifest.format == 1 or not run.saves_together:  # Only rank 0 has read the checkpoint.
        return [(0, max(part.end for part in found.parts))] + [(0, 0)] * (run.group.size - 1)
    shares = reader.shares(found.parts, run.group.size)
    return [(share[0].data, share[-1].end) if share else (0, 0) for share in shares]


def _follow(run: Run, store: Store) -> Loaded:
    """Called by the other ranks: read this rank's share of each checkpoint that rank 0 tries, until one can be read."""
    told: Checkpoint | Loaded = run.group.broadcast(None)
    while isinstance(told, Checkpoint):
        run.group.gather(_read_share(run, store, told))
        told = run.group.broadcast(None)
    return told


def _read_share(run: Run, store: Store, found: Checkpoint) -> str:
    """Read this rank's share of a checkpoint. Return "" on success, or a message about a damaged file."""
    try:
        reader.read_files(store, found, reader.shares(found.parts, run.group.size)[run.group.rank], run.buffer)
    except DamagedCheckpointError as error:
        return str(error)
    return ""


def _load(run: Run, found: Checkpoint, spans: Sequence[Span]) -> None:
    group = run.group
    if group.shares_state:
        run.buffer.reserve(max(part.end for part in found.parts), touches=False)
        group.share(run.buffer, spans)
    if group.shares_state or group.rank == 0:
        run.state.load(run.buffer.arrays(found.parts))
    # This rank saves less than it loads, or saves nothing, so it frees the larger buffer.
    if run.saves_together or group.rank:
        run.buffer.release()
    run.position, run.history = found.manifest.position, found.manifest.history
    run.evaluations = found.manifest.evaluations
    run.resumed_from = found.name
    run.log.print(
        f"resumed from {found.name}: step {run.position.step}, {run.position.samples} samples, "
        f"on {group.size} ranks (saved on {found.manifest.ranks})"
    )
    finished.say_if_longer(run.config, run.subject, run.position, run.log.print)
