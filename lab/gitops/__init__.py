"""Run Argo CD or Flux on the lab: the projects' own controllers as processes, and a git server for what they apply."""
