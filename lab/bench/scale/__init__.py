"""Measure what the largest jobs cost. The control plane is real, and KWOK simulates nodes and pods."""
