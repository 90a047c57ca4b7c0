"""Training with TensorFlow: the programs horovod.py and parameter_server.py."""
