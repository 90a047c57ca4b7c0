"""The table of instance types of EKS, GKE and AKS, and what a node of a type offers to pods."""
