"""Print verdicts and the states of runs, in the format or to the file that --output names."""
