"""Talk to the API server: read the kubeconfig, get credentials, connect, list objects and send requests."""
