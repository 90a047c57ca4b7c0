"""Find what may be a credential in a source, and quote the source in messages without it."""
