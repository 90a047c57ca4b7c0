"""Read a job from a rendered manifest: its roles, and what controllers and the API server add to its pods."""
