"""Predict the time of a step at other sizes: gradients, network, overlap with the backward pass, constants, sizes."""
