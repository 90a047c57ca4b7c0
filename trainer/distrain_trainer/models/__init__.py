"""Load a user's model by name (user.py). Each framework's package builds the included models in its models.py."""
