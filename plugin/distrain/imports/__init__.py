"""Convert an existing job, for example a job of an operator, to values of the chart."""
