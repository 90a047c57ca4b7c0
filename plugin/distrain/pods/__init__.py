"""Decode the pods of a cluster, count what they use, and encode them again."""
