"""Write the configuration and the commands that create a cluster for a run on EKS, GKE or AKS."""
