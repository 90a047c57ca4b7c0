"""Follow the pods, the log and the failures of a run, until its first step or its end."""
