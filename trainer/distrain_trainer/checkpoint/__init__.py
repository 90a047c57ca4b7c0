"""Save a run's state in a folder or in S3, and resume from it.

files.py lists, writes and deletes checkpoints. manifest.py describes a checkpoint. reader.py reads checkpoints, and
skips incomplete or damaged ones. writer.py saves checkpoints in a thread during the training. interval.py determines
the time between two checkpoints, and outage.py records why no checkpoint could be saved. head.py and lease.py ensure
that only one generation of a run writes. finished.py decides whether a finished run must continue. No module here
imports a framework.
"""
