"""Define the lab's exception. The message is one line, which names the problem and the next step."""


class LabError(Exception):
    """An error whose message the user sees without a traceback."""
