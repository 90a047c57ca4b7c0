"""Save a run's state in a folder or in S3, and resume from it.

files.py lists, writes and deletes checkpoints; manifest.py describes one. reader.py reads them and skips torn ones.
writer.py saves in a thread during the training; interval.py determines how often, and outage.py records why nothing
could be saved. head.py and lease.py ensure that only one generation of a run writes. finished.py decides whether a
finished run trains on. No module here imports a framework.
"""
