"""Find the chart, values, release and cluster that a command's arguments name, and render the job."""
