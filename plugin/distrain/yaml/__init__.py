"""Read and write YAML as kubectl does."""
