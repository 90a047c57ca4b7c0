"""Train with MXNet: the programs of the ranks are horovod.py and kvstore.py; server.py is for other processes.

These other processes are the parameter servers and the scheduler.
"""
