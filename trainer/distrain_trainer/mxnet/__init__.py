"""Train with MXNet: horovod.py and kvstore.py train the model, server.py serves the weights.

A worker runs horovod.py or kvstore.py. A parameter server or the scheduler runs server.py.
"""
