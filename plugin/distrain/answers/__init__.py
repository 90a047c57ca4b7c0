"""Print what the commands answer: verdicts and runs, in the form and into the file that --output names."""
