"""Decode the pods of a cluster, count the resources that they use, and encode them again."""
