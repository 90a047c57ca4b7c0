"""Read a job from a rendered manifest: its roles, and its pods with the additions of controllers and API server."""
