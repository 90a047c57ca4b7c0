"""Read the jobs that are sets of Jobs: JobSet, and Kubeflow Trainer's TrainJob with its runtime."""
