"""The embedded Kubernetes: its components and operators, the namespaces that it runs in, and its faults."""
