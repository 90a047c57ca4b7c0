"""Each module of this package is a command: it takes its arguments, prints an answer and returns an exit code."""
