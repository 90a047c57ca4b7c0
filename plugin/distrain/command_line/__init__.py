"""Read the command line, and hold the help texts."""
