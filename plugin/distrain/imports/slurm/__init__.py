"""Read batch scripts of Slurm."""
