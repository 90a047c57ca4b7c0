"""Print, follow and save the logs of a run's pods."""
