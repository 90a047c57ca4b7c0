"""Train with TensorFlow: the programs are horovod.py and parameter_server.py."""
