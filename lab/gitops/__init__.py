"""Run Argo CD or Flux on the lab: the original controllers as processes, and a git server with the files to apply."""
