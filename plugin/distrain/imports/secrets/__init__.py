"""Find texts in a source that may be credentials, and quote the source in messages without them."""
