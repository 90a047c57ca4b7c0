"""Models: the user's own, loaded by name (user.py). Each framework builds the others in its own models.py."""
