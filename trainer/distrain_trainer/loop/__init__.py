"""What every training loop needs, whatever the framework: the run, its progress, and how a job of many processes ends.

run.py resumes, saves and stops; progress.py and progress_line.py report steps; stop_flag.py takes SIGTERM; watchdog.py
and beacon.py find a rank that hangs; rendezvous.py and abort.py start and end the processes of a job together;
randomness.py seeds each step. Nothing here needs a framework.
"""
