"""Checkpoints: a run's state, kept in a folder or in S3, so that nothing is lost when its processes are.

run.py is what the programs see. shelf.py and manifest.py write and read checkpoints, saver.py does it while the
training goes on, interval.py says how often; head.py and hold.py see to it that of several generations of a run one
alone writes; stopping.py takes requests to stop. Nothing here needs a framework.
"""

from distrain_trainer.checkpoint.run import Run, State, World

__all__ = ["Run", "State", "World"]
