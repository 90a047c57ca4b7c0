"""Read jobs that consist of several Jobs: JobSet, and Kubeflow Trainer's TrainJob with its runtime."""
