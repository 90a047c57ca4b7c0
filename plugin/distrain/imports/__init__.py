"""Turn what people already have, a job of an operator for example, into values of the chart."""
