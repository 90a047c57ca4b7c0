"""Find the chart, the values, the release and the cluster that a command's arguments name, and render the job."""
