"""Read the job resources of the Kubeflow operators."""
