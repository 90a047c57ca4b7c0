"""The parts of the training loop that are the same for all frameworks.

steps.py makes the steps of programs whose ranks train in lockstep. run.py resumes, saves and stops a run. state.py and
process_group.py define what a run needs from a framework. progress.py and json_line.py log steps, and measures.py sets
the metrics. stop_flag.py handles SIGTERM and SIGUSR1. watchdog.py and beacon.py detect a rank that hangs. rendezvous.py
and abort.py make the processes of a job start and end together. randomness.py seeds each step.
"""
