"""Read a job from a rendered manifest: its roles, and its pods with what controllers and the API server add."""
