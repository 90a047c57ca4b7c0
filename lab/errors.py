"""Define the lab's exception, whose message is one line with the problem and the next step."""


class LabError(Exception):
    """An error that the user sees as one line, without a traceback."""
