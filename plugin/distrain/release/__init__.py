"""Install, upgrade and follow releases. No other package changes a cluster."""
