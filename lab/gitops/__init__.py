"""Run Argo CD or Flux on the lab: their real controllers as processes, and a git server with the files to apply."""
