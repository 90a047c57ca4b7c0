"""How an API server is reached, and what it is asked."""
