"""Write what creates a cluster for a run on EKS, GKE or AKS: its node groups, and the commands around a run."""
