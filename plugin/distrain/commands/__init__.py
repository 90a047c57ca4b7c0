"""The commands: arguments in, answers and exit codes out."""
