"""Record a run's position in its data.

A few numbers are enough: every rank computes from them which samples remain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from distrain_trainer.data.sampler import Segment, count_of_step, count_samples_left, count_steps_left, split


@dataclass(frozen=True)
class Position:
    """A position: the number of steps made, the number of samples in these steps, and the segments of the unfinished
    epoch.
    """

    step: int = 0
    samples: int = 0
    segments: tuple[Segment, ...] = ()

    def after_step(self, samples: int, *, ranks: int, batch_size: int, epoch_samples: int | None) -> Position:
        """Return the position after a step in which all ranks together used `samples` samples.

        `epoch_samples` is the number of samples of an epoch, None for synthetic data.
        """
        total = self.samples + samples
        if epoch_samples is not None and total % epoch_samples == 0:
            return Position(self.step + 1, total)
        last = self.segments[-1] if self.segments else Segment(ranks, batch_size, 0)
        if last.is_of(ranks, batch_size):
            segments = (*self.segments[:-1], replace(last, steps=last.steps + 1))
        else:
            segments = (*self.segments, Segment(ranks, batch_size, 1))
        return Position(self.step + 1, total, segments)


@dataclass(frozen=True)
class SampleCount:
    """Compute how many samples all ranks together have seen before a step.

    The number of ranks must not change after `start`.

    `epoch_samples` is the number of samples of an epoch, None for synthetic data.
    """

    start: Position
    ranks: int
    batch_size: int
    epoch_samples: int | None

    def before(self, step: int) -> int:
        more, ranks, size, all_ = step - self.start.step, self.ranks, self.batch_size, self.epoch_samples
        if all_ is None:
            return self.start.samples + more * size * ranks
        epoch, of_this_epoch = self.start.samples // all_, self.start.segments
        left = count_steps_left(all_, size, ranks=ranks, made=of_this_epoch)
        if more >= left:
            epochs, more = divmod(more - left, count_steps_left(all_, size, ranks=ranks))
            epoch, of_this_epoch = epoch + 1 + epochs, ()
        earlier, skipped = split(of_this_epoch, size, ranks=ranks)
        rest = count_samples_left(all_, earlier)
        return epoch * all_ + all_ - rest + count_of_step(rest, 0, (skipped + more) * size, ranks=ranks)
