"""Run the embedded Kubernetes: components, operators and Linux namespaces. Inject faults for tests."""
