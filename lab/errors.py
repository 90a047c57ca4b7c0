"""The lab's one error: a line that says what is missing and what to do."""


class LabError(Exception):
    """Shown to the user as one line, without a traceback."""
