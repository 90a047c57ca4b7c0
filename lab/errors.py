"""Define the lab's exception. Its message is one line with the problem and the next step."""


class LabError(Exception):
    """An error whose message the user sees without a traceback."""
