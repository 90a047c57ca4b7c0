"""The chart's values: faults that the schema finds, and values files with their comments."""
