"""Take a command apart: what starts the ranks, its options, and the program."""
