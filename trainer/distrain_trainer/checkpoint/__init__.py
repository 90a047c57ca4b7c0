"""Checkpoints: a run's state in a folder or in S3, from which another start goes on.

files.py and manifest.py write and read checkpoints, writer.py does so in a thread during the training, and interval.py
says how often. head.py and lease.py ensure that only one generation of a run writes. Nothing here needs a framework.
"""
