"""Follow a run: its pods, its log, its failures, until its first step or its end."""
