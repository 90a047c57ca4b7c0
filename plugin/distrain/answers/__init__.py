"""Print the answers of commands, which are verdicts and runs, in the format or to the file that --output names."""
