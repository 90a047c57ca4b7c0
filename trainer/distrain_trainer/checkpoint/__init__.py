"""Save a run's state in a folder or in S3, and resume from it.

files.py and manifest.py read and write checkpoints. writer.py writes them in a thread during the training; interval.py
says how often. head.py and lease.py ensure that only one generation of a run writes. No module here imports a
framework.
"""
