"""Set the metrics of a run. Rank 0 serves them. Every rank calls these functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distrain_trainer.metrics import serve_metrics

if TYPE_CHECKING:
    from distrain_trainer.loop.run import Run


def serve(run: Run) -> None:
    """Begin to serve this rank's metrics if the values ask for it. Called after the run's position is known."""
    config, metrics = run.config, run.metrics
    metrics.rank = run.group.rank
    if run.group.rank == 0:
        metrics.info = {name: getattr(config, name) for name in ("framework", "strategy", "model")}
        metrics.set(world_size=run.group.size, planned_steps=max(run.steps, run.position.step))
        set_position(run, run.position.step, run.position.samples)
        if run.writer is not None:
            metrics.begin_checkpoints()
    serve_metrics(metrics, config.metrics_port)


def set_position(run: Run, step: int, samples: int) -> None:
    if run.group.rank == 0:
        of_epoch = run.subject.epoch_samples
        run.metrics.set(step=step, samples=samples, epoch=samples / of_epoch if of_epoch else None)


def set_logged(run: Run, *, loss: float, images_per_second: float) -> None:
    """Set the metrics that change only at logged steps.

    The numbers of restarts and rescales come from the run's record.
    """
    if run.group.rank == 0:
        starts = run.record.count("start")
        run.metrics.set(
            loss=loss,
            images_per_second=images_per_second,
            restarts=starts - 1 if starts is not None else None,
            rescales=run.record.count("rescale"),
        )
