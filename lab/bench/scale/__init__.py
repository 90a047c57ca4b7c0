"""Measure what the largest jobs cost, on a real control plane with nodes and pods simulated by KWOK."""
