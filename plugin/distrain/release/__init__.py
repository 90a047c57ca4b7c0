"""Install, upgrade and follow releases; the only package that changes a cluster."""
