"""Define the lab's exception: its message is one line with the problem and the next step."""


class LabError(Exception):
    """Shown to the user as one line, without a traceback."""
