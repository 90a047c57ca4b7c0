"""Split a command into the program that starts the ranks, its options, and the program that trains."""
