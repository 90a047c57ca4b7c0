"""Read and write YAML by the same rules as kubectl."""
