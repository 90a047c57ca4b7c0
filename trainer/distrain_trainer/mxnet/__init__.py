"""Training with MXNet: the programs horovod.py and kvstore.py, and server.py for the servers and the scheduler."""
