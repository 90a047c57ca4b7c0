"""Build Go programs, container images and the plugin's archive, and keep them in the cache."""
