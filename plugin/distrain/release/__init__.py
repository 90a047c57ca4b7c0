"""Install, upgrade and follow releases. This is the only package that changes a cluster."""
