"""Measure what the largest jobs cost: on real control planes, with nodes and pods that KWOK plays."""
