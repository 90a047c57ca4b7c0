"""Run the embedded Kubernetes: its components, operators and namespaces, and the faults that tests inject."""
