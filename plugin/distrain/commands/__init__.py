"""The commands: each takes its arguments, prints an answer and returns an exit code."""
