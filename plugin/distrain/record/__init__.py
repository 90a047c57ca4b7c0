"""Read the record of a run, which the trainer or a user's program writes beside its output. See docs/record.md."""
