"""Talk to the API server: kubeconfig, credentials, connections, lists and what the plugin asks."""
